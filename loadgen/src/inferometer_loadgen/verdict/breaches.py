"""Where does a scenario break a rule, in a sentence with the figure and the limit?

One function for each rule of `verdict.RULES`, which yields nothing where the rule is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from inferometer_api.result import Step, nanoseconds_at
from inferometer_loadgen.statistics import least_count
from inferometer_loadgen.steps import SECOND_NS, End, StepPlan

ERROR_RATE_LIMIT = 0.001
ACHIEVED_LIMIT = 0.99
LAG_SHARE_LIMIT = 0.05
LAG_LEAST_NS = 1_000_000
CONNECTION_WAIT_LIMIT = 0.01
CLIENT_CPU_LIMIT = 0.9
USUAL_PERCENTILE = 99.0
"""The percentile that a scenario without one of its own is read by."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a scenario was measured under, beyond what its steps tell."""

    kind: str
    bound_ns: int | None = None
    percentile: float = USUAL_PERCENTILE
    colocated: bool = False
    not_guaranteed: tuple[str, ...] = ()
    """The quality-of-service classes of server pods that are not Guaranteed."""
    cpu_count: int = 0
    compute_nodes_fell_back: int = 0
    power_asked: bool = False
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


def ended_early(conditions: Conditions) -> Broken:
    """Yield where something else than the run's own limits ended the scenario."""
    if conditions.cut_short is not None:
        yield Breach(
            f"The scenario ended early because {conditions.cut_short.value}.",
            conditions.cut_short.value,
            End.DONE.value,
        )


def min_duration(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the window is shorter than was asked."""
    duration, least = measurement.step.duration_nanoseconds, measurement.plan.min_duration_ns
    if duration < least:
        yield Breach(
            f"{_seconds(duration)} were measured, at least {_seconds(least)} are needed.",
            _seconds(duration),
            _seconds(least),
        )


def min_queries(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where there are fewer queries than were asked."""
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


def no_reply(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where not one query was answered well."""
    counts = measurement.step.counts
    if not counts.succeeded:
        yield Breach(
            f"None of {counts.queries} queries was answered well.", "0 answers", "1 answer"
        )


def error_rate(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where more queries failed than may."""
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


def latency_bound(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where the asked percentile of the latency is beyond its bound."""
    found = nanoseconds_at(measurement.step.latency, conditions.percentile)
    bound = conditions.bound_ns
    if bound is not None and found is not None and found > bound:
        yield Breach(
            f"The P{conditions.percentile:g} of the latency is {_ms(found)}, the bound is "
            f"{_ms(bound)}.",
            _ms(found),
            _ms(bound),
        )


def dispatch_lag(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where the load generator was late at its own schedule."""
    latency = nanoseconds_at(measurement.step.latency, conditions.percentile)
    lag = nanoseconds_at(measurement.step.dispatch_lag, conditions.percentile)
    if latency is None or lag is None:
        return
    limit = max(LAG_LEAST_NS, LAG_SHARE_LIMIT * latency)
    if lag > limit:
        name = f"P{conditions.percentile:g}"
        yield Breach(
            f"The load generator itself was late: the {name} of its dispatch lag is {_ms(lag)}, at "
            f"most {_ms(limit)} is allowed beside a {name} latency of {_ms(latency)}.",
            _ms(lag),
            _ms(limit),
        )


def achieved_rate(measurement: Measurement, _: Conditions) -> Broken:
    """Judge whether the server kept up: failures count as answers here, they have a rule."""
    step = measurement.step
    scheduled = step.scheduled_qps
    if not scheduled or measurement.end in {End.INTERRUPTED, End.SERVER_LOST}:
        return
    usual_seconds = (step.duration_nanoseconds + measurement.late_ns) / SECOND_NS
    if step.counts.queries < ACHIEVED_LIMIT * scheduled * usual_seconds:
        achieved = step.counts.queries / usual_seconds
        share = f"{100 * achieved / scheduled:.1f} %"
        yield Breach(
            f"The server worked off {achieved:.5g} queries a second of the {scheduled:.5g} that "
            f"were scheduled in this window ({share}), at least 99 % are needed.",
            share,
            "99 %",
        )


def restarted(conditions: Conditions) -> Broken:
    """Yield where another server process answers than at first."""
    if conditions.server_restarted:
        yield Breach("The server was restarted while it was measured.", "restarted", "one process")


def small_sample(measurement: Measurement, conditions: Conditions) -> Broken:
    """Yield where the percentile has no confidence bound on one side."""
    latency = measurement.step.latency
    if conditions.kind == "batch" or latency is None:
        return
    for value in latency.percentiles:
        known = value.high_nanoseconds is not None and value.low_nanoseconds is not None
        if value.percentile == conditions.percentile and not known:
            least = least_count(value.percentile)
            yield Breach(
                f"{latency.count} answers are too few to bound the P{value.percentile:g} with 95 % "
                f"confidence: it takes {least}.",
                f"{latency.count} answers",
                f"{least} answers",
            )


def connection_wait(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where many queries waited for a connection with room."""
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


def client_cpu(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the load generator comes near the one core that it can use."""
    step = measurement.step
    seconds = (step.duration_nanoseconds + step.drain_nanoseconds) / SECOND_NS
    cores = step.client_cpu_seconds / seconds if seconds else 0.0
    if cores > CLIENT_CPU_LIMIT:
        yield Breach(
            f"The load generator used {cores:.2f} of the one core that it can use.",
            f"{cores:.2f} cores",
            f"{CLIENT_CPU_LIMIT:g} cores",
        )


def colocated(conditions: Conditions) -> Broken:
    """Yield where server and load generator disturb each other on one machine."""
    if conditions.colocated:
        yield Breach(
            f"Server and load generator share one machine and its {conditions.cpu_count} CPUs.",
            "one machine",
            "two machines",
        )


def not_guaranteed(conditions: Conditions) -> Broken:
    """Yield where a server's pod may be given less CPU or memory than it asked for."""
    if conditions.not_guaranteed:
        classes = " and ".join(conditions.not_guaranteed)
        yield Breach(
            f"The server's pod is {classes}, not Guaranteed: others on its node may take from it.",
            classes,
            "Guaranteed",
        )


def fell_back(conditions: Conditions) -> Broken:
    """Yield where a GPU was asked for and compute nodes ran on the CPU."""
    count = conditions.compute_nodes_fell_back
    if count:
        yield Breach(
            f"{count} compute nodes of the graph ran on the CPU, not the GPU.", str(count), "0"
        )


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / SECOND_NS:.4g} s"


def _ms(nanoseconds: float) -> str:
    milliseconds = nanoseconds / 1_000_000
    # Three significant digits below a second; above it no power of ten either.
    return f"{milliseconds:,.0f} ms" if milliseconds >= 1000 else f"{milliseconds:.4g} ms"
