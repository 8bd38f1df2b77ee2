"""Makes a step with one fault, and judges it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inferometer_api.results.result import (
    ClientHealth,
    Counts,
    Distribution,
    EarlyStopping,
    Energy,
    ErrorExample,
    NodeSample,
    NodeTelemetry,
    OtherLoad,
    PercentileValue,
    ProcessLoad,
    Step,
    Verdict,
    Window,
    WorkerShare,
)
from inferometer_api.results.search import Peak, ProbeRecord
from inferometer_api.scenarios.step_setting import Closed, JudgedPercentile, Open, Steady
from inferometer_loadgen.record.backlog import Unanswered
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions

MS = 1_000_000
SECOND = 1000 * MS
OPEN = Open(Steady("Poisson", 100_000))
A_PLAN = StepPlan("", 1, 0, 10 * SECOND, 60 * SECOND, 1000, loop=OPEN)
CLOSED: dict[str, Any] = {"loop": Closed(), "kind": "singleStream"}


def times(p99: int, *, count: int = 1000, bounded: bool = True) -> Distribution:
    """Return a distribution with this P99."""
    value = PercentileValue(
        percentile=99.0,
        nanoseconds=p99,
        low_nanoseconds=p99 if bounded else None,
        high_nanoseconds=p99 if bounded else None,
    )
    return Distribution(
        count=count,
        min_nanoseconds=0,
        mean_nanoseconds=p99,
        max_nanoseconds=p99,
        percentiles=[value],
        histogram="",
    )


def a_step(*, succeeded: int = 1000, failed: int = 0, waited: int = 0, **changed: Any) -> Step:
    """Return a step without fault, with some figures changed; it is as long as its windows."""
    ends = [
        each.start_milliseconds + each.duration_milliseconds for each in changed.get("windows", [])
    ]
    figures: dict[str, Any] = {
        "label": "",
        "started_at": "2026-01-01T00:00:00Z",
        "warm_up_nanoseconds": 0,
        "duration_nanoseconds": MS * max(ends, default=10_000),
        "counts": Counts(
            queries=succeeded + failed,
            samples=succeeded,
            succeeded=succeeded,
            failed=failed,
            errors={"status": failed} if failed else {},
            scheduled=1000,
            waited_for_connection=waited,
        ),
        "scheduled_qps": 100.0,
        "achieved_qps": succeeded / 10,
        "achieved_samples_per_second": succeeded / 10,
        "latency": times(100 * MS),
        "dispatch_lag": times(MS),
        "client_cpu_seconds": 1.0,
        "energy": Energy(attribution="unavailable", reason="there is no agent"),
    }
    return Step(**{**figures, **changed})


def a_node(**fields: Any) -> NodeTelemetry:
    """Return an agent's report on a node."""
    return NodeTelemetry(node="worker-1", **fields)


def held_down(count: int, *, of: int) -> NodeTelemetry:
    """Return a node whose GPU was held down in so many samples, and before the window."""
    reasons = {"gpu-0": ["SwPowerCap"]}
    return a_node(
        samples=[
            NodeSample(
                at_milliseconds=1000 * at, gpu_throttle_reasons=reasons if at < count else {}
            )
            for at in range(-5, of)
        ]
    )


def stopped(queries: int, *, bounded: bool = True) -> EarlyStopping:
    """Return what early stopping says where 700 queries are needed."""
    return EarlyStopping(
        percentile=99.0,
        latency_bound_nanoseconds=100 * MS if bounded else None,
        queries=queries,
        overshoots=1,
        required_queries=700,
    )


def with_errors(**errors: int) -> Step:
    """Return a step in which some of very many queries failed, by kind."""
    failed = sum(errors.values())
    counts = a_step(succeeded=10_000).counts.model_copy(
        update={"errors": errors, "failed": failed, "checked_replies": 160}
    )
    example = ErrorExample(kind="content", message="The output 'y' is missing.")
    return a_step(counts=counts, error_examples=[example])


def silent(nanoseconds: int, **changed: Any) -> Step:
    """Return a step whose P99 is 50 ms, in which no query was answered for so long."""
    return a_step(latency=times(50 * MS), longest_silence_nanoseconds=nanoseconds, **changed)


def lagging(nanoseconds: int, *, bounded: bool = True) -> Step:
    """Return a step of 100 ms throughout with such a dispatch lag at the P99.9, and none before."""

    def at(usual: int, rare: int) -> Distribution:
        known = times(usual).percentiles + [
            value.model_copy(update={"percentile": 99.9})
            for value in times(rare, bounded=bounded).percentiles
        ]
        return times(usual).model_copy(update={"percentiles": known})

    return a_step(latency=at(100 * MS, 100 * MS), dispatch_lag=at(0, nanoseconds))


def course(medians: Sequence[int], *, answered: int = 100) -> list[Window]:
    """Return windows of a second each with these medians, and a short last one."""
    windows = [
        Window(
            start_milliseconds=1000 * at,
            duration_milliseconds=1000,
            succeeded=answered,
            failed=0,
            p50_nanoseconds=median,
        )
        for at, median in enumerate(medians)
    ]
    last = windows[-1].model_copy(update={"duration_milliseconds": 7, "p50_nanoseconds": 1})
    return [*windows, last]


def rising(share: float, *, windows: int = 20) -> list[Window]:
    """Return windows whose median rises by so much of their middle, from the first to the last."""
    # The medians of pairs of windows: each part's is the later of its two.
    slope = share / (windows - 2)
    return course([round(MS * (100 + 100 * slope * (at - windows / 2))) for at in range(windows)])


def client(**facts: Any) -> Step:
    """Return a step of 10 s with what became of the load generator."""
    return a_step(client=ClientHealth(**facts))


def others(cores: float, *, busy: float = 2.0, node: str = "") -> OtherLoad:
    """Return a machine of 2 CPUs on which others used so many cores."""
    trainer = ProcessLoad(name="python3 train.py", processes=2, cpu_cores=cores)
    return OtherLoad(
        node=node,
        cpu_count=2,
        busy_cores=busy,
        other_cores=cores,
        processes=[] if node else [trainer],
    )


def workers(*starts_ns: int, lost: int = -1, cpu_seconds: float = 1.0) -> list[WorkerShare]:
    """Return workers that began at these times."""
    return [
        WorkerShare(
            worker=number,
            queries=500,
            start_offset_nanoseconds=start,
            clock_offset_nanoseconds=0,
            clock_uncertainty_nanoseconds=0,
            client_cpu_seconds=cpu_seconds,
            lost=number == lost,
        )
        for number, start in enumerate(starts_ns)
    ]


def a_peak(stopped: Any, **figures: Any) -> Peak:
    """Return a search that ended so; its step has the empty label."""
    probe = ProbeRecord(
        step="",
        seed=1,
        target_qps=100.0,
        within_bound=True,
        decided_by="EnoughQueries",
        queries=1000,
        overshoots=0,
    )
    known: dict[str, Any] = {
        "qps": 100.0,
        "low_qps": 100.0,
        "high_qps": 150.0,
        "confidence": 0.95,
        "step": "",
    }
    known |= figures
    return Peak(
        percentile=99.0,
        latency_bound_nanoseconds=10 * MS,
        stop_reason=stopped,
        service_time_nanoseconds=12 * MS,
        probes=[probe],
        **known,
    )


def throttled(seconds: float, *, used: float | None) -> NodeTelemetry:
    """Return a node of 4 CPUs on which a limit withheld so much CPU time."""
    return a_node(cpu_count=4, server_throttled_seconds=seconds, server_cpu_seconds=used)


def verdict(
    step: Step | None = None,
    *,
    end: End = End.DONE,
    unanswered: tuple[int, int] = (0, 0),
    kind: str = "server",
    bound_ns: int | None = None,
    percentile: float = 99.0,
    loop: Closed | Open = OPEN,
    warmed_up: bool = True,
    **conditions: Any,
) -> Verdict:
    """Judge one step."""
    plan = replace(A_PLAN, judged=JudgedPercentile(percentile, bound_ns), loop=loop)
    measurement = Measurement(plan, step or a_step(), end, Unanswered(*unanswered), warmed_up)
    return judge([measurement], ScenarioConditions(kind=kind, **conditions))


def names(judged: Verdict) -> list[str]:
    """Return the rules that a verdict names."""
    return [finding.rule for finding in judged.reasons + judged.cautions]
