"""Does each rule break just past its limit, say so, and stand in the documentation?"""

import re
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.result import (
    Counts,
    Distribution,
    Energy,
    NodeSample,
    NodeTelemetry,
    PercentileValue,
    Step,
    Verdict,
)
from inferometer_loadgen.steps import End, StepPlan
from inferometer_loadgen.verdict.breaches import Conditions, Measurement
from inferometer_loadgen.verdict.judge import RULES, judge

MS = 1_000_000
SECOND = 1000 * MS
PAGE = Path(__file__).parents[2] / "docs/reference/verdict.md"
A_PLAN = StepPlan("", 1, 0, 10 * SECOND, 60 * SECOND, 1000)


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
    """Return a step without fault, with some figures changed."""
    figures: dict[str, Any] = {
        "label": "",
        "started_at": "2026-01-01T00:00:00Z",
        "warm_up_nanoseconds": 0,
        "duration_nanoseconds": 10 * SECOND,
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


def a_node(**told: Any) -> NodeTelemetry:
    """Return what an agent told of a node."""
    return NodeTelemetry(node="worker-1", **told)


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


def throttled(seconds: float, *, used: float | None) -> NodeTelemetry:
    """Return a node of 4 CPUs on which a limit withheld so much CPU time."""
    return a_node(cpu_count=4, server_throttled_seconds=seconds, server_cpu_seconds=used)


def verdict(
    step: Step | None = None,
    *,
    end: End = End.DONE,
    late_ns: int = 0,
    kind: str = "server",
    **conditions: Any,
) -> Verdict:
    """Judge one step."""
    measurement = Measurement(A_PLAN, step or a_step(), end, late_ns)
    return judge([measurement], Conditions(kind=kind, **conditions))


def names(judged: Verdict) -> list[str]:
    """Return the rules that a verdict names."""
    return [finding.rule for finding in judged.reasons + judged.cautions]


def test_a_step_without_fault_is_valid() -> None:
    """Nothing is found in a measurement that keeps every limit."""
    judged = verdict()
    assert judged.state == "VALID"
    assert names(judged) == []


BREACHES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # the rule, what just keeps it, what just breaks it
    (
        "MinDuration",
        {"step": a_step(duration_nanoseconds=10 * SECOND)},
        {"step": a_step(duration_nanoseconds=10 * SECOND - 1, scheduled_qps=None)},
    ),
    (
        "MinQueries",
        {"step": a_step(succeeded=1000)},
        {"step": a_step(succeeded=999)},
    ),
    (
        "ErrorRate",
        {"step": a_step(succeeded=999, failed=1)},
        {"step": a_step(succeeded=998, failed=2)},
    ),
    (
        "LatencyBound",
        {"bound_ns": 100 * MS},
        {"bound_ns": 100 * MS - 1},
    ),
    (
        "AchievedRate",
        {"late_ns": 100 * MS, "step": a_step(drain_nanoseconds=SECOND)},
        {"late_ns": 102 * MS, "step": a_step(drain_nanoseconds=SECOND)},
    ),
    (
        "DispatchLag",
        {"step": a_step(dispatch_lag=times(5 * MS))},
        {"step": a_step(dispatch_lag=times(5 * MS + 1))},
    ),
    (
        "DispatchLag",
        {"step": a_step(dispatch_lag=times(MS), latency=times(MS))},
        {"step": a_step(dispatch_lag=times(MS + 1), latency=times(MS))},
    ),
    ("ServerRestarted", {}, {"server_restarted": True}),
    ("EndedEarly", {}, {"cut_short": End.INTERRUPTED}),
    (
        "SmallSample",
        {"step": a_step(latency=times(100 * MS))},
        {"step": a_step(latency=times(100 * MS, bounded=False))},
    ),
    ("ConnectionWait", {"step": a_step(waited=10)}, {"step": a_step(waited=11)}),
    (
        "ClientCpu",
        {"step": a_step(client_cpu_seconds=9.0)},
        {"step": a_step(client_cpu_seconds=9.01)},
    ),
    ("ServerColocated", {}, {"colocated": True, "cpu_count": 2}),
    ("ServerNotGuaranteed", {}, {"not_guaranteed": ("Burstable",)}),
    ("ComputeFellBack", {}, {"compute_nodes_fell_back": 1}),
    (
        "ServerThrottled",
        {"step": a_step(telemetry=[throttled(0.1, used=9.9)])},
        {"step": a_step(telemetry=[throttled(0.102, used=9.9)])},
    ),
    (
        "CpuSteal",
        {"step": a_step(telemetry=[a_node(cpu_count=4, steal_seconds=0.4)])},
        {"step": a_step(telemetry=[a_node(cpu_count=4, steal_seconds=0.41)])},
    ),
    (
        "GpuThrottled",
        {"step": a_step(telemetry=[held_down(1, of=10)])},
        {"step": a_step(telemetry=[held_down(2, of=10)])},
    ),
    (
        "EnergyUnavailable",
        {"power_asked": True, "step": a_step(energy=Energy(attribution="node"))},
        {"power_asked": True},
    ),
    ("EnergyUnavailable", {"power_asked": False}, {"power_asked": True}),
    (
        "EnergyIncomplete",
        {"step": a_step(energy=Energy(attribution="node"))},
        {"step": a_step(energy=Energy(attribution="node", not_covered=["gpu-0 has no counter"]))},
    ),
]


@pytest.mark.parametrize(("rule", "kept", "broken"), BREACHES)
def test_a_rule_breaks_just_past_its_limit(
    rule: str, kept: dict[str, Any], broken: dict[str, Any]
) -> None:
    """At the limit a rule is kept; past it it is the one finding, a sentence with the remedy."""
    assert rule not in names(verdict(**kept))
    judged = verdict(**broken)
    assert names(judged) == [rule]
    (finding,) = judged.reasons + judged.cautions
    (told,) = [each for each in RULES if each.name == rule]
    assert (judged.state == "INVALID") == (told.effect == "reason")
    assert finding.message.endswith(told.remedy)
    assert finding.figure
    assert finding.limit
    assert re.match(r"^[A-Z0-9].*\.$", finding.message)


def test_every_rule_is_tried() -> None:
    """No rule is without a test of its limit."""
    tried = {rule for rule, *_ in BREACHES} | {"NoReply"}
    assert tried == {rule.name for rule in RULES}


def test_without_an_answer_there_is_no_latency_to_judge() -> None:
    """Nothing answered is INVALID for that reason and for the errors, and breaks nothing else."""
    step = a_step(succeeded=0, failed=1000, latency=None, dispatch_lag=None)
    judged = verdict(step, bound_ns=1)
    assert names(judged) == ["NoReply", "ErrorRate"]


def test_a_maximum_that_came_first_is_named() -> None:
    """Too few queries because of maxDurationSeconds say that it ended the scenario early."""
    (finding,) = verdict(a_step(succeeded=999), end=End.MAX_DURATION).reasons
    assert "60 s ended it early" in finding.message


@pytest.mark.parametrize(
    ("seconds", "used", "share"),
    [
        (40.0, 10.0, "80 %"),  # four times the window, on four CPUs
        (3.0, 0.0, "100 %"),
        (40.0, None, "50 %"),  # of all CPU time that there was
        (0.4, None, ""),
        (0.0, 0.0, ""),
    ],
)
def test_no_more_is_withheld_than_could_be_used(
    seconds: float, used: float | None, share: str
) -> None:
    """Throttled CPU seconds of several CPUs and servers are a share of CPU seconds, not of time."""
    cautions = verdict(a_step(telemetry=[throttled(seconds, used=used)])).cautions
    assert [finding.figure for finding in cautions] == ([share] if share else [])


def test_a_clock_that_somebody_has_set_is_not_held_down() -> None:
    """An administrator's clock is the GPU's own as long as nothing else is in its way."""

    def found(*reasons: str) -> list[str]:
        sample = NodeSample(at_milliseconds=0, gpu_throttle_reasons={"gpu-0": list(reasons)})
        step = a_step(telemetry=[a_node(samples=[sample])])
        return [finding.message for finding in verdict(step).cautions]

    assert found("ApplicationsClocksSetting") == []
    (told,) = found("ApplicationsClocksSetting", "HwSlowdown")
    assert "(HwSlowdown)" in told


def test_an_interrupted_step_is_not_blamed_on_the_server() -> None:
    """What was outstanding at a signal is no sign of a server that does not keep up."""
    step = a_step(succeeded=1000, scheduled_qps=200.0)
    judged = verdict(step, end=End.INTERRUPTED, cut_short=End.INTERRUPTED)
    assert names(judged) == ["EndedEarly"]


def test_rules_look_at_the_percentile_that_is_asked() -> None:
    """Asked for P90, neither bound nor lag are judged at P99."""

    def at(percentile: float, nanoseconds: int) -> PercentileValue:
        return PercentileValue(percentile=percentile, nanoseconds=nanoseconds)

    base = times(0)
    latency = base.model_copy(update={"percentiles": [at(90, 50 * MS), at(99, 500 * MS)]})
    lag = base.model_copy(update={"percentiles": [at(90, 2 * MS), at(99, 400 * MS)]})
    step = a_step(latency=latency, dispatch_lag=lag)
    rules = {"LatencyBound", "DispatchLag"}
    assert not rules & set(names(verdict(step, bound_ns=60 * MS, percentile=90.0)))
    assert rules <= set(names(verdict(step, bound_ns=60 * MS)))


def test_batch_is_not_judged_by_its_percentile() -> None:
    """Throughput by batch size needs no bounds of P99."""
    assert names(verdict(a_step(latency=times(MS, bounded=False)), kind="batch")) == []


def test_each_step_is_judged_by_itself() -> None:
    """A finding of one batch size names that step."""
    first, second = (StepPlan(f"batch {n}", n, 0, SECOND, SECOND, 1000) for n in (1, 8))
    steps = [
        Measurement(first, a_step(), End.DONE),
        Measurement(second, a_step(succeeded=500, scheduled_qps=None), End.DONE),
    ]
    (finding,) = judge(steps, Conditions(kind="batch")).reasons
    assert (finding.rule, finding.step) == ("MinQueries", "batch 8")


def test_what_every_step_has_is_told_once() -> None:
    """A finding that is the same for every step is the scenario's; one that differs is a step's."""
    plans = [StepPlan(f"batch {n}", n, 0, SECOND, SECOND, 1000) for n in (1, 8)]
    reasons = ("there is no agent", "the agent was restarted")

    def told(*each: str) -> list[tuple[str, str]]:
        energies = [Energy(attribution="unavailable", reason=reason) for reason in each]
        steps = [
            Measurement(plan, a_step(energy=energy), End.DONE)
            for plan, energy in zip(plans, energies, strict=True)
        ]
        cautions = judge(steps, Conditions(kind="batch", power_asked=True)).cautions
        return [(finding.rule, finding.step) for finding in cautions]

    assert told(reasons[0], reasons[0]) == [("EnergyUnavailable", "")]
    assert told(*reasons) == [("EnergyUnavailable", "batch 1"), ("EnergyUnavailable", "batch 8")]


def test_the_documentation_has_every_rule() -> None:
    """The page tells each rule, in the table's order, with the limit and remedy of the code."""
    text = PAGE.read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule.name for rule in RULES]
    cautions = text.index("## Cautions")
    for rule in RULES:
        section = " ".join(sections[rule.name].split())
        for word in ("Figure", "Limit", "Why", "Remedy"):
            assert f"* **{word}**: " in section
        assert f"* **Limit**: {rule.limit} *" in section
        assert section.endswith(f"* **Remedy**: {rule.remedy}")
        assert (text.index(f"### {rule.name}\n") > cautions) == (rule.effect == "caution")
