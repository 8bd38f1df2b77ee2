"""Probes of a search for the peak: what is measured next, and what was measured so far."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inferometer_loadgen.search.goal import Decision, Goal, ObservedCounts
from inferometer_loadgen.search.peak_regression import ProbeCount

StopReason = Literal[
    "Resolved",
    "Indistinguishable",
    "CannotBeMet",
    "ProbesTooShort",
    "ProbesCutOff",
    "OutOfTime",
    "EndedEarly",
]


@dataclass(frozen=True, slots=True)
class SingleQuery:
    """Next step: one query at a time, for the service time."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """Next step: as many clients as the connections allow, for the throughput."""

    number: int = 1


@dataclass(frozen=True, slots=True)
class ProbeAt:
    """Next step: a probe at a rate."""

    milli_qps: int
    runs_to_completion: bool
    """Whether it runs to its last query, even if it is decided before."""
    pilot: bool = False
    """Whether it only helps to choose the two rates, or to check a bracket."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe."""

    probe: ProbeAt
    counts: ObservedCounts
    decided_by: Decision
    label: str
    seed: int

    @property
    def qps(self) -> float:
        """Its target rate."""
        return self.probe.milli_qps / 1000

    def within_bound(self, goal: Goal) -> bool | None:
        """Return whether the percentile kept the bound; None if the probe does not decide it.

        It does not if it was cut off before it was decided, or if its late queries are fewer than
        the percentile allows but more than early stopping does.
        """
        if self.decided_by == "EnoughQueries":
            return True
        is_undecided = self.decided_by == "Unfinished" or self.counts.share <= goal.share
        return None if is_undecided else False


@dataclass(frozen=True, slots=True)
class SearchState:
    """Everything that a search has measured so far."""

    alone: ObservedCounts | None = None
    service_time_ns: int | None = None
    """Percentile of the latency of queries one at a time."""
    closed_loop_qps: float | None = None
    """The highest throughput of the closed loops."""
    closed_loops: int = 0
    """How often it was measured."""
    probes: tuple[ProbeResult, ...] = ()


def with_closed_loop(found: SearchState, qps: float) -> SearchState:
    """Return the state after a closed loop."""
    highest = max(qps, found.closed_loop_qps or 0.0)
    return replace(found, closed_loop_qps=highest, closed_loops=found.closed_loops + 1)


def probe_at(qps: float, *, runs_to_completion: bool = True, pilot: bool = False) -> ProbeAt:
    """Return the next step at a rate, in whole thousandths."""
    return ProbeAt(max(1, round(qps * 1000)), runs_to_completion, pilot)


def counts_of(probes: Sequence[ProbeResult]) -> tuple[ProbeCount, ...]:
    """Return what the regression needs of probes."""
    return tuple(
        ProbeCount(each.qps, each.counts.queries, each.counts.overshoots) for each in probes
    )


def kept_rates(goal: Goal, probes: Sequence[ProbeResult]) -> list[int]:
    """Return the rates, in milli-queries a second and ascending, at which a probe kept the bound.

    A rate at which a later whole probe had more late queries than allowed is not among them.
    """
    kept: set[int] = set()
    for each in probes:
        if each.within_bound(goal):
            kept.add(each.probe.milli_qps)
        elif each.probe.runs_to_completion and each.counts.share > goal.share:
            kept.discard(each.probe.milli_qps)
    return sorted(kept)


def missed_rates(goal: Goal, probes: Sequence[ProbeResult]) -> list[int]:
    """Return the rates, as `kept_rates` does, at which a probe did not keep the bound."""
    return sorted({each.probe.milli_qps for each in probes if each.within_bound(goal) is False})
