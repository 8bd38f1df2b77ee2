"""Locating probes of a search: the rate is doubled, halved and bisected until the peak is near."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_loadgen.search.goal import Goal
from inferometer_loadgen.search.probes import ProbeResult
from inferometer_loadgen.verdict.early_stopping import required_queries

LOCATED = 1.12
"""Ratio of the bracket's ends at which locating ends."""
_LOWEST = 1 / 200
"""Lowest rate as a share of the closed-loop throughput; queries hardly ever overlap there."""
_HIGHEST = 2.5
"""Highest rate as a multiple of the closed-loop throughput. With the same connections no server
sustains it, even one that the number of clients, or a cold start, made slow."""
_TRIES = 2
"""Probes that must miss the bound at a rate before the peak is taken to lie below: a neighbour on
the machine may have spoiled the first."""


@dataclass(frozen=True, slots=True)
class PeakLocation:
    """Rates between which the peak seems to lie, and the next rate to try."""

    low_qps: float | None
    high_qps: float | None
    next_qps: float | None
    """None: the bracket is narrow enough."""

    @property
    def middle_qps(self) -> float:
        """The geometric mean of its ends."""
        return math.sqrt((self.low_qps or 1) * (self.high_qps or 1))


def first_rate(closed_loop_qps: float) -> float:
    """Return the first rate of a search."""
    return closed_loop_qps / 2


def cuts_off_first(goal: Goal, closed_loop_qps: float) -> bool:
    """Return whether a probe at the first rate has no time for its queries."""
    return goal.query_limit > goal.max_seconds * first_rate(closed_loop_qps)


def locate(goal: Goal, closed_loop_qps: float, probes: Sequence[ProbeResult]) -> PeakLocation:
    """Return the location that the locating probes, those before the first whole one, lead to.

    A rate that kept the bound refutes lower ones that missed it. A rate that missed it once is
    tried again as soon as a lower one keeps it, before locating ends, and, from the first rate
    down, if no rate at all keeps it: other work may have spoiled several probes in a row.
    """
    low: float | None = None
    missed: list[float] = []
    is_up = False
    for each in probes:
        if each.probe.runs_to_completion:
            break
        is_up = _goes_up(goal, each)
        if is_up:
            low = max(low or 0.0, each.qps)
        else:
            missed.append(each.qps)
    high = min((qps for qps in missed if qps > (low or 0.0)), default=None)
    if high is None:
        return PeakLocation(low, None, first_rate(closed_loop_qps) if low is None else 2 * low)
    if low is None:
        lower = high / 2
        if not _is_too_low(goal, closed_loop_qps, lower):
            return PeakLocation(None, high, lower)
        once = [qps for qps in missed if missed.count(qps) < _TRIES]
        return PeakLocation(None, high, max(once, default=lower))
    is_narrow = high <= low * LOCATED
    if (is_up or is_narrow) and missed.count(high) < _TRIES:
        return PeakLocation(low, high, high)
    return PeakLocation(low, high, None if is_narrow else math.sqrt(low * high))


def _is_too_low(goal: Goal, closed_loop_qps: float, qps: float) -> bool:
    return limit_hit(goal, closed_loop_qps, PeakLocation(None, None, qps)) is not None


def limit_hit(
    goal: Goal, closed_loop_qps: float, place: PeakLocation
) -> Literal["ProbesTooShort", "CannotBeMet", "ProbesCutOff"] | None:
    """Return which limit keeps locating from its next rate; None if there is none."""
    if place.low_qps is not None and ends_too_soon(place.low_qps, closed_loop_qps):
        return "ProbesTooShort"
    if place.next_qps is None:
        return None
    if place.next_qps < closed_loop_qps * _LOWEST:
        return "CannotBeMet"
    if place.next_qps * goal.max_seconds < required_queries(0, goal.percentile):
        return "ProbesCutOff"  # no probe at such a rate can keep the bound
    return None


def ends_too_soon(kept_qps: float, closed_loop_qps: float) -> bool:
    """Return whether a probe that kept the bound was over before a growing queue exceeds it."""
    return kept_qps > closed_loop_qps * _HIGHEST


def _goes_up(goal: Goal, result: ProbeResult) -> bool:
    """Return whether the peak seems to lie above; an undecided probe is judged by its share."""
    if result.decided_by == "Unfinished":
        return result.counts.share <= goal.share
    return result.decided_by == "EnoughQueries"
