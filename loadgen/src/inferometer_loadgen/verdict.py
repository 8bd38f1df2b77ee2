"""Can the figures of a scenario be trusted, and was what was asked met?

`RULES` is the one table of rules (INVALID) and cautions (VALID, but); docs/reference/verdict.md is
held to it by a test.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from inferometer_api.result import Finding, Step, Verdict
from inferometer_loadgen.steps import End, StepPlan

ERROR_RATE_LIMIT = 0.001
ACHIEVED_LIMIT = 0.99
LAG_SHARE_LIMIT = 0.05
LAG_LEAST_NS = 1_000_000
CONNECTION_WAIT_LIMIT = 0.01
CLIENT_CPU_LIMIT = 0.9
USUAL_PERCENTILE = 99.0
"""The percentile that a scenario without one of its own is read by."""

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a scenario was measured under, beyond what its steps tell."""

    kind: str
    bound_ns: int | None = None
    percentile: float = USUAL_PERCENTILE
    colocated: bool = False
    cpu_count: int = 0
    compute_nodes_fell_back: int = 0
    power_unavailable: str | None = None
    """Why there is no energy though it was asked for."""
    server_restarted: bool = False
    cut_short: End | None = None
    """What ended the scenario before its own limits did."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One step: what was planned, what was found, why it ended."""

    plan: StepPlan
    step: Step
    end: End
    late_ns: int = 0
    """By how much the last answer of an open loop came later than is usual."""


class Breach(NamedTuple):
    """That a rule is broken: a sentence with the figure and the limit, and both alone."""

    sentence: str
    figure: str
    limit: str


Broken = Iterator[Breach]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: INVALID where it is broken; or a caution."""

    name: str
    effect: Literal["reason", "caution"]
    limit: str
    """The limit in words, as the documentation has it."""
    remedy: str
    per_step: Callable[[Measurement, Conditions], Iterator[Breach]] | None = None
    """Yields a breach where a step breaks it."""
    once: Callable[[Conditions], Iterator[Breach]] | None = None
    """The same for a condition of the whole scenario."""


def judge(measurements: Sequence[Measurement], conditions: Conditions) -> Verdict:
    """Return the verdict over the steps of one scenario."""
    reasons = list(_findings("reason", measurements, conditions))
    return Verdict(
        state="INVALID" if reasons else "VALID",
        reasons=reasons,
        cautions=list(_findings("caution", measurements, conditions)),
    )


def _findings(
    effect: str, measurements: Sequence[Measurement], conditions: Conditions
) -> Iterable[Finding]:
    for rule in RULES:
        if rule.effect != effect:
            continue
        if rule.once is not None:
            for sentence, figure, limit in rule.once(conditions):
                yield _finding(rule, sentence, figure, limit, "")
        if rule.per_step is not None:
            for measurement in measurements:
                for sentence, figure, limit in rule.per_step(measurement, conditions):
                    yield _finding(rule, sentence, figure, limit, measurement.plan.label)


def _finding(rule: Rule, sentence: str, figure: str, limit: str, step: str) -> Finding:
    message = f"{sentence} {rule.remedy}"
    return Finding(rule=rule.name, message=message, figure=figure, limit=limit, step=step)


def _ended_early(conditions: Conditions) -> Broken:
    if conditions.cut_short is not None:
        yield Breach(
            f"The scenario ended early because {conditions.cut_short.value}.",
            conditions.cut_short.value,
            End.DONE.value,
        )


def _min_duration(measurement: Measurement, _: Conditions) -> Broken:
    duration, least = measurement.step.duration_nanoseconds, measurement.plan.min_duration_ns
    if duration < least:
        yield Breach(
            f"{_seconds(duration)} were measured, at least {_seconds(least)} are needed.",
            _seconds(duration),
            _seconds(least),
        )


def _min_queries(measurement: Measurement, _: Conditions) -> Broken:
    found, least = measurement.step.counts.queries, measurement.plan.min_queries
    if found < least:
        early = (
            f" before the maximum duration of {_seconds(measurement.plan.max_duration_ns)} ended it"
            " early"
            if measurement.end is End.MAX_DURATION
            else ""
        )
        yield Breach(
            f"{found} queries were measured{early}, at least {least} are needed.",
            str(found),
            str(least),
        )


def _no_reply(measurement: Measurement, _: Conditions) -> Broken:
    counts = measurement.step.counts
    if not counts.succeeded:
        yield Breach(
            f"None of {counts.queries} queries was answered well.", "0 answers", "1 answer"
        )


def _error_rate(measurement: Measurement, _: Conditions) -> Broken:
    counts = measurement.step.counts
    if counts.failed > ERROR_RATE_LIMIT * counts.queries:
        kinds = ", ".join(f"{kind}: {number}" for kind, number in counts.errors.items())
        share = f"{100 * counts.failed / counts.queries:.3g} %"
        yield Breach(
            f"{counts.failed} of {counts.queries} queries failed ({share}; {kinds}); "
            f"at most 0.1 % may.",
            share,
            "0.1 %",
        )


def _latency_bound(measurement: Measurement, conditions: Conditions) -> Broken:
    found = _percentile(measurement.step, conditions.percentile)
    bound = conditions.bound_ns
    if bound is not None and found is not None and found > bound:
        yield Breach(
            f"The P{conditions.percentile:g} of the latency is {_ms(found)}, the bound is "
            f"{_ms(bound)}.",
            _ms(found),
            _ms(bound),
        )


def _dispatch_lag(measurement: Measurement, _: Conditions) -> Broken:
    latency = _percentile(measurement.step, 99.0)
    lag = _lag_p99(measurement.step)
    if latency is None or lag is None:
        return
    limit = max(LAG_LEAST_NS, LAG_SHARE_LIMIT * latency)
    if lag > limit:
        yield Breach(
            f"The load generator itself was late: the P99 of its dispatch lag is {_ms(lag)}, at "
            f"most {_ms(limit)} is allowed beside a P99 latency of {_ms(latency)}.",
            _ms(lag),
            _ms(limit),
        )


def _achieved_rate(measurement: Measurement, _: Conditions) -> Broken:
    """Judge whether the server kept up: failures count as answers here, they have a rule."""
    step = measurement.step
    scheduled = step.scheduled_qps
    if not scheduled or measurement.end in {End.INTERRUPTED, End.SERVER_LOST}:
        return
    usual_seconds = (step.duration_nanoseconds + measurement.late_ns) / _SECOND_NS
    if step.counts.queries < ACHIEVED_LIMIT * scheduled * usual_seconds:
        seconds = (step.duration_nanoseconds + step.drain_nanoseconds) / _SECOND_NS
        achieved = step.counts.queries / seconds
        share = f"{100 * achieved / scheduled:.1f} %"
        yield Breach(
            f"The server worked off {achieved:.5g} queries a second of the {scheduled:.5g} that "
            f"were scheduled ({share}), at least 99 % are needed.",
            share,
            "99 %",
        )


def _restarted(conditions: Conditions) -> Broken:
    if conditions.server_restarted:
        yield Breach("The server was restarted while it was measured.", "restarted", "one process")


def _small_sample(measurement: Measurement, conditions: Conditions) -> Broken:
    latency = measurement.step.latency
    if conditions.kind == "batch" or latency is None:
        return
    for value in latency.percentiles:
        known = value.high_nanoseconds is not None and value.low_nanoseconds is not None
        if value.percentile == conditions.percentile and not known:
            yield Breach(
                f"{latency.count} answers are too few to bound the P{value.percentile:g} with 95 % "
                f"confidence.",
                str(latency.count),
                "bounds on both sides",
            )


def _connection_wait(measurement: Measurement, _: Conditions) -> Broken:
    counts = measurement.step.counts
    due = counts.scheduled or 0
    if counts.waited_for_connection > CONNECTION_WAIT_LIMIT * due:
        share = f"{100 * counts.waited_for_connection / due:.3g} %"
        yield Breach(
            f"{counts.waited_for_connection} of {due} queries ({share}) were due while no "
            f"connection had room, and waited; their wait is in the latency.",
            share,
            "1 %",
        )


def _client_cpu(measurement: Measurement, _: Conditions) -> Broken:
    step = measurement.step
    seconds = (step.duration_nanoseconds + step.drain_nanoseconds) / _SECOND_NS
    cores = step.client_cpu_seconds / seconds if seconds else 0.0
    if cores > CLIENT_CPU_LIMIT:
        yield Breach(
            f"The load generator used {cores:.2f} of the one core that it can use.",
            f"{cores:.2f} cores",
            f"{CLIENT_CPU_LIMIT:g} cores",
        )


def _colocated(conditions: Conditions) -> Broken:
    if conditions.colocated:
        yield Breach(
            f"Server and load generator share one machine and its {conditions.cpu_count} CPUs.",
            "one machine",
            "two machines",
        )


def _fell_back(conditions: Conditions) -> Broken:
    count = conditions.compute_nodes_fell_back
    if count:
        yield Breach(
            f"{count} compute nodes of the graph ran on the CPU, not the GPU.", str(count), "0"
        )


def _energy(conditions: Conditions) -> Broken:
    if conditions.power_unavailable is not None:
        yield Breach(
            f"Energy was not measured: {conditions.power_unavailable}.", "unavailable", "measured"
        )


RULES: tuple[Rule, ...] = (
    Rule(
        name="EndedEarly",
        effect="reason",
        limit="nothing but the run's own limits ends a measurement",
        remedy="Run it again to its end.",
        once=_ended_early,
    ),
    Rule(
        name="NoReply",
        effect="reason",
        limit="at least one query is answered",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=_no_reply,
    ),
    Rule(
        name="MinDuration",
        effect="reason",
        limit="validity.minDurationSeconds (in batch an equal share of it for each size)",
        remedy="Let it run longer.",
        per_step=_min_duration,
    ),
    Rule(
        name="MinQueries",
        effect="reason",
        limit="validity.minQueries (in batch an equal share of it for each size, in samples, and "
        "at least 10 queries)",
        remedy="Raise validity.maxDurationSeconds, or ask for fewer queries.",
        per_step=_min_queries,
    ),
    Rule(
        name="ErrorRate",
        effect="reason",
        limit="at most 0.1 % of the queries fail",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=_error_rate,
    ),
    Rule(
        name="LatencyBound",
        effect="reason",
        limit="the scenario's percentile of the latency is within latencyBoundMicroseconds",
        remedy="Lower the rate, or give the server more.",
        per_step=_latency_bound,
    ),
    Rule(
        name="AchievedRate",
        effect="reason",
        limit="at least 99 % of the scheduled rate is worked off",
        remedy="Lower the rate: the server does not keep up with it.",
        per_step=_achieved_rate,
    ),
    Rule(
        name="DispatchLag",
        effect="reason",
        limit="the P99 of the dispatch lag is within 5 % of the P99 latency, or 1 ms where that is "
        "more",
        remedy="Give the load generator a core of its own.",
        per_step=_dispatch_lag,
    ),
    Rule(
        name="ServerRestarted",
        effect="reason",
        limit="one server process answers from the first query to the last",
        remedy="Look for the cause in the server's log.",
        once=_restarted,
    ),
    Rule(
        name="SmallSample",
        effect="caution",
        limit="the percentile (P99 where none is asked) has 95 % confidence bounds on both sides",
        remedy="Raise validity.minQueries.",
        per_step=_small_sample,
    ),
    Rule(
        name="ConnectionWait",
        effect="caution",
        limit="at most 1 % of the queries wait for a connection with room",
        remedy="Raise load.connections, unless so many are what you mean to measure.",
        per_step=_connection_wait,
    ),
    Rule(
        name="ClientCpu",
        effect="caution",
        limit="the load generator uses at most 0.9 of a core",
        remedy="Lower the rate, or use larger requests.",
        per_step=_client_cpu,
    ),
    Rule(
        name="ServerColocated",
        effect="caution",
        limit="server and load generator run on different machines",
        remedy="Measure in a cluster, or leave the load generator a core of its own.",
        once=_colocated,
    ),
    Rule(
        name="ComputeFellBack",
        effect="caution",
        limit="with device GPU every compute node of the graph runs on the GPU",
        remedy="See server.nodesByProvider in the result, and export the model without these "
        "operators.",
        once=_fell_back,
    ),
    Rule(
        name="EnergyUnavailable",
        effect="caution",
        limit="with telemetry.power: Auto the node has a source of power figures",
        remedy="Set telemetry.power: Disabled where energy is not needed.",
        once=_energy,
    ),
)
"""Every rule, in the order in which findings are told."""


def _percentile(step: Step, percentile: float) -> int | None:
    if step.latency is None:
        return None
    found = (p for p in step.latency.percentiles if p.percentile == percentile)
    return next((p.nanoseconds for p in found), None)


def _lag_p99(step: Step) -> int | None:
    if step.dispatch_lag is None:
        return None
    found = (p for p in step.dispatch_lag.percentiles if p.percentile == 99.0)
    return next((p.nanoseconds for p in found), None)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / _SECOND_NS:.4g} s"


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1_000_000:.4g} ms"
