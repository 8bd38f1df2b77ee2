"""Where does a scenario break a rule, in a sentence with the figure and the limit?

One function for each rule of `verdict.RULES`, which yields nothing where the rule is kept.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from typing_extensions import override

from inferometer_api.results.result import Step
from inferometer_api.results.search import Peak
from inferometer_api.spec.problems import sentence
from inferometer_loadgen.record.backlog import Unanswered
from inferometer_loadgen.schedule.steps import (
    SECOND_NS,
    Closed,
    End,
    Judged,
    Open,
    Recorded,
    StepPlan,
    samples_that_would_do,
)

ERROR_RATE_LIMIT = 0.001
ACHIEVED_LIMIT = 0.99
BACKLOG_SPAN = 0.75
"""Of the window: from the middle of its first quarter to that of its last."""
_BY_CHANCE = 3.0
"""Standard deviations by which two numbers of unanswered queries differ by chance alone."""
_PERHAPS_BY_CHANCE = 1.5
"""By so many they differ by chance once in fifteen times: more than that is worth a caution."""
CONNECTION_WAIT_LIMIT = 0.01
MOST_QUOTED = 200
"""Characters of a server's own words: the whole message is among the error examples."""
USUAL_PERCENTILE = 99.0
"""The percentile that a scenario without one of its own is read by."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a scenario was measured under, beyond what its steps tell."""

    kind: str
    rules: Literal["Default", "MLPerf"] = "Default"
    colocated: bool = False
    not_guaranteed: tuple[str, ...] = ()
    """The quality-of-service classes of server pods that are not Guaranteed."""
    cpu_count: int = 0
    compute_nodes_fell_back: int = 0
    power_asked: bool = False
    server_restarted: bool = False
    cut_short: End | None = None
    """What ended the scenario before its own limits did."""
    peak: Peak | None = None
    """What `findPeak` found."""
    spins: bool = False
    """Whether the load generator waits for the time by spinning, and never sleeps."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One step: what was planned, what was found, why it ended."""

    plan: StepPlan
    step: Step
    end: End
    unanswered: Unanswered = field(default_factory=Unanswered)
    """Of an open loop."""
    warmed_up: bool = True
    """Whether a warm-up that goes on until it is steady became so."""

    @property
    def judged(self) -> Judged:
        """The percentile by which the step is read, and its bound: that of an open loop, else P99.

        MLPerf judges single streams by their P90, which early stopping looks at; but whoever reads
        a latency reads the P99 as well.
        """
        asked = self.plan.judged
        if asked is None or isinstance(self.plan.loop, Closed):
            return Judged(USUAL_PERCENTILE)
        return asked


class Breach(NamedTuple):
    """That a rule is broken: a sentence with the figure and the limit, and both alone."""

    sentence: str
    figure: str
    limit: str


Broken = Iterator[Breach]

_CUT_OFF = frozenset({End.INTERRUPTED, End.SERVER_LOST, End.WORKER_LOST, End.DECIDED})
"""Ends at which what is outstanding is forgotten."""


def ended_early(conditions: Conditions) -> Broken:
    """Yield where something else than the run's own limits ended the scenario."""
    why = conditions.cut_short
    if why is not None:
        yield Breach(
            f"The scenario ended early because {why.value}.",
            why.value,
            End.DONE.value,
        )


def min_duration(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the window is shorter than was asked; a probe ends when it is decided."""
    duration, least = measurement.step.duration_nanoseconds, measurement.plan.min_duration_ns
    if duration < least and not measurement.plan.is_probe:
        yield Breach(
            f"{seconds(duration)} were measured, at least {seconds(least)} are needed"
            f"{_instead(measurement)}.",
            seconds(duration),
            seconds(least),
        )


def min_queries(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where there are fewer queries than were asked, or than a trace has."""
    found, least = measurement.step.counts.queries, measurement.plan.min_queries
    is_cut = measurement.end is End.MAX_DURATION
    longest = seconds(measurement.plan.max_duration_ns)
    if found < least and not measurement.plan.is_probe:
        early = f" before the maximum duration of {longest} ended it early" if is_cut else ""
        yield Breach(
            f"{found} queries were measured{early}, at least {least} are needed.",
            str(found),
            str(least),
        )
    elif is_cut and _is_recorded(measurement.plan):
        yield Breach(
            f"{found} queries of the trace were measured before the maximum duration of {longest} "
            "ended it early, all of them are needed.",
            str(found),
            "the whole trace",
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
        most = max(counts.errors, key=lambda kind: counts.errors[kind], default="")
        first = _first_said(measurement.step, most)
        share = f"{100 * counts.failed / counts.queries:.3g} %"
        yield Breach(
            f"{counts.failed} of {counts.queries} queries failed ({share}; {kinds}); "
            f"at most 0.1 % may.{f' The first of kind {most}: {first}' if first else ''}",
            share,
            "0.1 %",
        )


def replies_changed(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where a reply that was looked at has not the outputs that it should have."""
    counts = measurement.step.counts
    changed = counts.errors.get("content", 0)
    if changed:
        yield Breach(
            f"{changed} of {counts.checked_replies} replies that were looked at had other outputs "
            f"than the model's. {_first_said(measurement.step, 'content')}".rstrip(),
            f"{changed} replies",
            "0 replies",
        )


def _first_said(step: Step, kind: str) -> str:
    """Return what the first error of a kind said, as a sentence, or nothing."""
    said = next((each.message for each in step.error_examples if each.kind == kind), "")
    if len(said) > MOST_QUOTED:
        return f"{said[:MOST_QUOTED].rstrip()}..."
    return said and sentence(said)


def achieved_rate(measurement: Measurement, _: Conditions) -> Broken:
    """Judge whether the server kept up: failures count as answers here, they have a rule.

    Where it does not, the unanswered queries grow by what is missing, and it takes it as long to
    work them off.
    """
    growth = _growth(measurement)
    if growth is not None and growth.is_beyond(_BY_CHANCE):
        scheduled = measurement.step.scheduled_qps or 0.0
        yield Breach(
            f"The server worked off {scheduled * growth.achieved:.5g} queries a second of the "
            f"{scheduled:.5g} that were scheduled in this window ({growth.share}), at least 99 % "
            f"are needed: {growth}.",
            growth.share,
            "99 %",
        )


def growing_backlog(measurement: Measurement, _: Conditions) -> Broken:
    """Yield where the server seems not to keep up, and too few queries came to be sure."""
    growth = _growth(measurement)
    if (
        growth is not None
        and growth.is_beyond(_PERHAPS_BY_CHANCE)
        and not growth.is_beyond(_BY_CHANCE)
    ):
        yield Breach(
            f"The server may not keep up with the schedule, but work off {growth.share} of it: "
            f"{growth} of the window. Of so few queries that may be chance.",
            growth.share,
            "99 %",
        )


@dataclass(frozen=True, slots=True)
class _Growth:
    """How the number of unanswered queries changed, where something was left over to answer."""

    unanswered: Unanswered
    meanwhile: float
    """Queries that were scheduled between the two looks."""

    @property
    def achieved(self) -> float:
        """The part of the schedule that was worked off meanwhile."""
        return 1 - (self.unanswered.late - self.unanswered.early) / self.meanwhile

    @property
    def share(self) -> str:
        """The same in words."""
        return f"{100 * self.achieved:.1f} %"

    def is_beyond(self, deviations: float) -> bool:
        """Whether it is more than 1 % of the schedule and than chance has it.

        Those unanswered are Poisson where the server keeps up, however long its answers take.
        """
        early, late = self.unanswered.early, self.unanswered.late
        least = max((1 - ACHIEVED_LIMIT) * self.meanwhile, deviations * math.sqrt(early + late))
        return late - early > least

    @override
    def __str__(self) -> str:
        return (
            f"{self.unanswered.early} were usually unanswered in the first quarter, "
            f"{self.unanswered.late} in the last"
        )


def _growth(measurement: Measurement) -> _Growth | None:
    step = measurement.step
    meanwhile = BACKLOG_SPAN * (step.counts.scheduled or 0)
    is_left_over = step.drain_nanoseconds > (1 - ACHIEVED_LIMIT) * step.duration_nanoseconds
    if not step.scheduled_qps or not meanwhile or measurement.end in _CUT_OFF or not is_left_over:
        return None
    return _Growth(measurement.unanswered, meanwhile)


def restarted(conditions: Conditions) -> Broken:
    """Yield where another server process answers than at first."""
    if conditions.server_restarted:
        yield Breach("The server was restarted while it was measured.", "restarted", "one process")


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


def colocated(conditions: Conditions) -> Broken:
    """Yield where server and load generator disturb each other on one machine."""
    if conditions.colocated:
        yield Breach(
            f"Server and load generator share one machine, of which the load generator may use "
            f"{conditions.cpu_count} CPU{'s' * (conditions.cpu_count != 1)}.",
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


def _is_recorded(plan: StepPlan) -> bool:
    return isinstance(plan.loop, Open) and isinstance(plan.loop.arrivals, Recorded)


def _instead(measurement: Measurement) -> str:
    """Return how many samples would do, where it is their number that ends the step."""
    plan, duration = measurement.plan, measurement.step.duration_nanoseconds
    if not isinstance(plan.loop, Closed) or plan.loop.total_queries is None:
        return ""
    return f": about {samples_that_would_do(plan, duration):,} samples would do"


def seconds(nanoseconds: int) -> str:
    """Return a time as a sentence has it, in seconds."""
    return f"{nanoseconds / SECOND_NS:.4g} s"


def in_ms(nanoseconds: float) -> str:
    """Return a time as a sentence has it, in milliseconds."""
    milliseconds = nanoseconds / 1_000_000
    # Three significant digits below a second; above it no power of ten either.
    return f"{milliseconds:,.0f} ms" if milliseconds >= 1000 else f"{milliseconds:.4g} ms"
