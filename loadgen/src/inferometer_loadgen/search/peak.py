"""Which rate is tried next in the search for the peak, and what is found in the end?

Two parts. The first only finds the place: from half the closed-loop throughput the rate is doubled
(or halved) until one keeps the bound and one does not, then their bracket is bisected; these probes
end as soon as early stopping decides them. Its verdicts cannot be the answer: early stopping errs
on the safe side, and which of two near rates passes is chance. So the second part tries rates on
both sides of the best estimate with probes that run to their last query, and estimates from all
of them together where the percentile is just at the bound (`crossing`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_api.search import Peak, Probe
from inferometer_loadgen.search.crossing import CONFIDENCE, Counted, Crossing, crossing
from inferometer_loadgen.search.goal import Decision, Goal, Seen, is_beyond

ALONE = "one at a time"
"""The label of the step that tells the service time."""
SATURATED = "closed loop"
"""The label of the step that tells the throughput."""

Stopped = Literal["Resolved", "Indistinguishable", "CannotBeMet", "OutOfTime", "EndedEarly"]

RESOLUTION = 1.01
"""Ends of the bracket so near to each other need no more probes."""
FEWEST_WHOLE_PROBES = 10
"""So many tell their own spread; with fewer the bracket would promise too much."""
FEWEST_SMALL_PROBES = 16
"""The same, where a probe is beyond the bound with fewer than `MANY_OVERSHOOTS` queries."""
MANY_OVERSHOOTS = 40
MOST_WHOLE_PROBES = 24
_LOCATED = 1.12
_LOWEST = 1 / 200
"""Of the closed-loop throughput: a query there finds nobody else at the server."""
_FIRST_STEP = 0.08
_LEAST_STEP, _MOST_STEP = 0.01, 0.15
_LOG_ODDS_APART = 1.0
"""How far from the estimate the odds are tried: that tells the slope, and is still near."""
_NORMAL_975 = 1.96


@dataclass(frozen=True, slots=True)
class Alone:
    """Ask for queries one at a time: for the service time."""


@dataclass(frozen=True, slots=True)
class Saturate:
    """Ask for as many clients as there is room for: for the throughput."""


@dataclass(frozen=True, slots=True)
class Try:
    """Ask for a probe at a rate."""

    milli_qps: int
    is_whole: bool
    """Whether it runs to its last query, though it may be decided before."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a probe."""

    asked: Try
    seen: Seen
    decided_by: Decision
    label: str
    seed: int

    @property
    def kept(self) -> bool:
        """Whether early stopping passed."""
        return self.decided_by == "EnoughQueries"


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a search has found so far."""

    alone: Seen | None = None
    service_time_ns: int | None = None
    """The percentile of the latency of queries one at a time."""
    closed_loop_qps: float | None = None
    probes: tuple[Tried, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Between which rates the peak seems to lie, and which rate tells more."""

    low_qps: float | None
    high_qps: float | None
    next_qps: float | None
    """None: near enough."""


def next_ask(goal: Goal, found: Found) -> Alone | Saturate | Try | Stopped:
    """Return what is to be measured next, or why the search is over."""
    if found.alone is None:
        return Alone()
    if is_beyond(found.alone, goal.share):
        return "CannotBeMet"
    if found.closed_loop_qps is None:
        return Saturate()
    return _next_probe(goal, found, found.closed_loop_qps)


def _next_probe(goal: Goal, found: Found, closed_loop_qps: float) -> Try | Stopped:
    if not closed_loop_qps:
        return "EndedEarly"  # nothing was answered, which has a rule
    place = _place(goal, closed_loop_qps, found.probes)
    if place.next_qps is not None:
        if place.next_qps < closed_loop_qps * _LOWEST:
            return "CannotBeMet"
        return _try(place.next_qps, is_whole=False)
    return _next_whole(goal, place, _counted(found.probes))


def peak_of(goal: Goal, found: Found, stopped: Stopped) -> Peak:
    """Return what the result document says of a search that ended for this reason."""
    counted = _counted(found.probes)
    # A bound below the service time has no peak, whatever probes say by chance.
    at = None if stopped == "CannotBeMet" else crossing(counted, goal.share)
    start = found.closed_loop_qps
    place = None if start is None else _place(goal, start, found.probes)
    low, high = (None, None) if place is None else (place.low_qps, place.high_qps)
    bounds = None if at is None else at.bounds_qps
    if at is not None:
        low, high = bounds or (None, None)
    return Peak(
        percentile=goal.percentile,
        latency_bound_nanoseconds=goal.bound_ns,
        qps=None if at is None else at.qps,
        low_qps=low,
        high_qps=high,
        confidence=None if bounds is None else CONFIDENCE,
        step=_judged_by(at, found),
        stopped=stopped,
        closed_loop_qps=found.closed_loop_qps,
        service_time_nanoseconds=found.service_time_ns,
        probes=[_told(each) for each in found.probes],
    )


def _place(goal: Goal, closed_loop_qps: float, probes: Sequence[Tried]) -> _Place:
    """Follow the first part's probes; the whole ones are none of its business."""
    low: float | None = None
    high: float | None = None
    rate = closed_loop_qps / 2
    for each in probes:
        if each.asked.is_whole:
            break
        rate = each.asked.milli_qps / 1000
        if _goes_up(goal, each):
            low = rate
        else:
            high = rate
        if high is None:
            rate *= 2
        elif low is None:
            rate /= 2
        elif high <= low * _LOCATED:
            return _Place(low, high, None)
        else:
            rate = math.sqrt(low * high)
    return _Place(low, high, rate)


def _goes_up(goal: Goal, tried: Tried) -> bool:
    """Whether the peak seems to lie above; of a probe that is not decided its share tells."""
    if tried.decided_by == "Unfinished":
        return tried.seen.overshoots <= goal.share * tried.seen.queries
    return tried.kept


def _next_whole(goal: Goal, place: _Place, counted: Sequence[Counted]) -> Try | Stopped:
    """Return the next rate near the crossing, on the side that the rates so far lean from."""
    if not counted:
        return _try(math.sqrt((place.low_qps or 1) * (place.high_qps or 1)), is_whole=True)
    at = crossing(counted, goal.share)
    is_small = goal.query_limit * goal.share < MANY_OVERSHOOTS
    fewest = FEWEST_SMALL_PROBES if is_small else FEWEST_WHOLE_PROBES
    if at is not None and len(counted) >= fewest:
        ended = _ended(goal, at)
        if ended is not None:
            return ended
    if len(counted) >= MOST_WHOLE_PROBES:
        return "Indistinguishable"
    if at is None:
        return _try(_towards(goal, counted), is_whole=True)
    step = min(_MOST_STEP, max(_LEAST_STEP, _LOG_ODDS_APART / at.slope))
    middle = math.fsum(each.qps for each in counted) / len(counted)
    return _try(at.qps * (1 + step if middle < at.qps else 1 - step), is_whole=True)


def _ended(goal: Goal, at: Crossing) -> Stopped | None:
    """Tell whether the bracket is narrow, or its ends alike to a probe of so many queries."""
    if at.bounds_qps is None:
        return None
    low, high = at.bounds_qps
    if high <= RESOLUTION * low:
        return "Resolved"
    apart = (high - low) / at.qps * at.slope
    variance = at.dispersion / (goal.query_limit * goal.share * (1 - goal.share))
    by_chance = _NORMAL_975 * math.sqrt(2 * variance)
    return "Indistinguishable" if apart < by_chance else None


def _towards(goal: Goal, counted: Sequence[Counted]) -> float:
    """Return a rate beyond all tried so far, on the side where the crossing must be.

    The more of them lie on the wrong side, the longer is the step: the server may have become
    slower since it was found where the peak is.
    """
    shares = [each.overshoots / each.queries for each in counted]
    highest = max(each.qps for each in counted)
    lowest = min(each.qps for each in counted)
    step = min(2.0, (1 + _FIRST_STEP) ** len(counted))
    if min(shares) > goal.share:
        return lowest / step
    if max(shares) <= goal.share:
        return highest * step
    # Shares that fall with the rate are chance: the ends of what was tried, made wider, tell.
    wider = 1 + _FIRST_STEP
    return highest * wider if len(counted) % 2 else lowest / wider


def _counted(probes: Sequence[Tried]) -> list[Counted]:
    return [
        Counted(each.asked.milli_qps / 1000, each.seen.queries, each.seen.overshoots)
        for each in probes
        if each.asked.is_whole and each.seen.queries
    ]


def _judged_by(at: Crossing | None, found: Found) -> str | None:
    """Return the label of the step by which the search is judged: that nearest to the peak."""
    if at is not None:
        whole = [each for each in found.probes if each.asked.is_whole]
        return min(whole, key=lambda each: abs(each.asked.milli_qps / 1000 - at.qps)).label
    if found.probes:
        return found.probes[-1].label
    return None if found.alone is None else ALONE


def _try(qps: float, *, is_whole: bool) -> Try:
    return Try(max(1, round(qps * 1000)), is_whole)


def _told(tried: Tried) -> Probe:
    return Probe(
        step=tried.label,
        seed=tried.seed,
        asked_qps=tried.asked.milli_qps / 1000,
        kept=tried.kept,
        decided_by=tried.decided_by,
        is_whole=tried.asked.is_whole,
        queries=tried.seen.queries,
        overshoots=tried.seen.overshoots,
    )
