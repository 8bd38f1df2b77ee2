"""Which rate is tried next in the search for the peak, and what is found in the end?

Three parts. The first only finds the place: from half the closed-loop throughput the rate is
doubled (or halved) until one keeps the bound and one does not, then their bracket is bisected;
these probes end as soon as early stopping decides them. Its verdicts cannot be the answer: early
stopping errs on the safe side, and which of two near rates passes is chance. In the second, pilots
run to their last query on both sides of the best estimate (`crossing`), each where those before
lead. Nor can these be the answer: a probe with too many overshoots by chance sends the next ones
down, which makes the crossing look steep and sure. So the third part has two fixed rates around
the pilots' estimate, tried in turn, and only these probes tell the peak and its bracket.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_api.results.search import Peak, Probe
from inferometer_api.scenarios.step_setting import SINGLE_QUERY_STEP
from inferometer_api.statistics import student_quantile
from inferometer_loadgen.search.goal import Decision, Goal, ObservedCounts, exceeds_share
from inferometer_loadgen.search.peak_regression import (
    CONFIDENCE,
    PeakEstimate,
    ProbeCount,
    estimate_peak,
)

StopReason = Literal[
    "Resolved",
    "Indistinguishable",
    "CannotBeMet",
    "ProbesTooShort",
    "OutOfTime",
    "EndedEarly",
]

RESOLUTION = 1.01
"""Ends of the bracket so near to each other need no more probes."""
FEWEST_PILOTS, MOST_PILOTS = 4, 16
PILOT_BURSTS = 5
"""So many bursts of overshoots tell the place well enough for rates on both sides of it."""
LOOKS = (8, 12, 18, 27, 40)
"""After so many probes at the two rates the search may end. They are few and set beforehand: a
search that looked after each would end when chance makes probes seem alike, its bracket narrow."""
_LOCATED = 1.12
_LOWEST = 1 / 200
"""Of the closed-loop throughput: a query there finds nobody else at the server."""
_HIGHEST = 2.5
"""Times the closed-loop throughput: with the same connections no server answers so many for long,
even one that so many clients, or a cold start, made slow."""
_FIRST_STEP = 0.08
_LEAST_STEP, _MOST_STEP = 0.002, 0.15
_LOG_SHARE_APART = 0.85
"""How far from the estimate the share is tried: that tells the slope, and is still near enough
for a straight line."""
_FARTHEST_APART = 50.0
_FAR = 10
"""So many times the allowed share tell little of where it is crossed."""
_CLEARLY = ((4, 0, 2.0), (LOOKS[0], 0, 1.0), (LOOKS[0], 4, 2.0))
"""After so many probes at the two rates, all but so many first ones on one side of the peak by
such a factor of the allowed share, it is not between them: the server changed."""
_LITTLE = 1.05
"""A rate that is higher by no more than this is little above another."""
_MOST_MISLED = 20
"""With so many pilots it is believed that the peak is between the two rates."""


@dataclass(frozen=True, slots=True)
class SingleQuery:
    """Ask for queries one at a time: for the service time."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """Ask for as many clients as there is room for: for the throughput."""


@dataclass(frozen=True, slots=True)
class ProbeAt:
    """Ask for a probe at a rate."""

    milli_qps: int
    runs_to_completion: bool
    """Whether it runs to its last query, though it may be decided before."""
    pilot: bool = False
    """Whether a whole probe only tells at which rates the others are to be."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What came of a probe."""

    asked: ProbeAt
    seen: ObservedCounts
    decided_by: Decision
    label: str
    seed: int

    @property
    def kept(self) -> bool:
        """Whether early stopping passed."""
        return self.decided_by == "EnoughQueries"


@dataclass(frozen=True, slots=True)
class SearchState:
    """Everything that a search has found so far."""

    alone: ObservedCounts | None = None
    service_time_ns: int | None = None
    """The percentile of the latency of queries one at a time."""
    closed_loop_qps: float | None = None
    probes: tuple[ProbeResult, ...] = ()


@dataclass(frozen=True, slots=True)
class _PeakLocation:
    """Between which rates the peak seems to lie, and which rate tells more."""

    low_qps: float | None
    high_qps: float | None
    next_qps: float | None
    """None: near enough."""


@dataclass(frozen=True, slots=True)
class _ProbeRoles:
    """The probes that ran to their last query, in their order."""

    pilots: tuple[ProbeResult, ...]
    leading: tuple[ProbeResult, ...]
    """The pilots that lead to the two rates: later ones may have shown that others misled."""
    counted: tuple[ProbeResult, ...]
    """Those that tell the peak."""


def next_step(goal: Goal, found: SearchState) -> SingleQuery | Saturation | ProbeAt | StopReason:
    """Return what is to be measured next, or why the search is over."""
    if found.alone is None:
        return SingleQuery()
    if exceeds_share(found.alone.timed, goal.share):
        return "CannotBeMet"
    if found.closed_loop_qps is None:
        return Saturation()
    return _next_probe(goal, found, found.closed_loop_qps)


def _next_probe(goal: Goal, found: SearchState, closed_loop_qps: float) -> ProbeAt | StopReason:
    if not closed_loop_qps:
        return "EndedEarly"  # nothing was answered, which has a rule
    place = _place(goal, closed_loop_qps, found.probes)
    if place.low_qps is not None and place.low_qps > closed_loop_qps * _HIGHEST:
        return "ProbesTooShort"  # over before a queue that grows is beyond the bound
    if place.next_qps is not None:
        if place.next_qps < closed_loop_qps * _LOWEST:
            return "CannotBeMet"
        return _probe_at(place.next_qps, runs_to_completion=False)
    return _next_whole(goal, place, found.probes)


def peak_result(goal: Goal, found: SearchState, stopped: StopReason) -> Peak:
    """Return what the result document says of a search that ended for this reason."""
    parts = _parts(goal, found.probes)
    # A bound below the service time has no peak, whatever probes say by chance.
    at = None if stopped == "CannotBeMet" else estimate_peak(_counts(parts.counted), goal.share)
    # Brackets are tried for these numbers of probes (tests/accuracy): none is claimed of fewer.
    is_enough = len(parts.counted) >= LOOKS[0]
    bounds = at.bounds_qps if at is not None and is_enough else None
    low, high = _seemingly(goal, found) if at is None else bounds or (None, None)
    return Peak(
        percentile=goal.percentile,
        latency_bound_nanoseconds=goal.bound_ns,
        qps=None if at is None else at.qps,
        low_qps=low,
        high_qps=high,
        confidence=None if bounds is None else CONFIDENCE,
        step=_judged_by(goal, at, found),
        stop_reason=stopped,
        closed_loop_qps=found.closed_loop_qps,
        service_time_nanoseconds=found.service_time_ns,
        probes=[_probe_report(each, pilot=each in parts.pilots) for each in found.probes],
    )


def _seemingly(goal: Goal, found: SearchState) -> tuple[float | None, float | None]:
    """Return a rate that kept the bound and a higher one that did not, where all agree on it.

    The last of the first part's, and whole probes, which are right where they contradict these.
    """
    if found.closed_loop_qps is None:
        return None, None
    place = _place(goal, found.closed_loop_qps, found.probes)
    parts = _parts(goal, found.probes)
    good, late = _good_and_late(goal, _counts((*parts.pilots, *parts.counted)))
    kept, broken = [each.qps for each in good], [each.qps for each in late]
    lows = [*kept, *([] if place.low_qps is None else [place.low_qps])]
    highs = [*broken, *([] if place.high_qps is None else [place.high_qps])]
    return (
        max((qps for qps in lows if qps < min(broken, default=math.inf)), default=None),
        min((qps for qps in highs if qps > max(kept, default=0.0)), default=None),
    )


def _place(goal: Goal, closed_loop_qps: float, probes: Sequence[ProbeResult]) -> _PeakLocation:
    """Follow the first part's probes; the whole ones are none of its business."""
    low: float | None = None
    high: float | None = None
    rate = closed_loop_qps / 2
    for each in probes:
        if each.asked.runs_to_completion:
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
            return _PeakLocation(low, high, None)
        else:
            rate = math.sqrt(low * high)
    return _PeakLocation(low, high, rate)


def _goes_up(goal: Goal, tried: ProbeResult) -> bool:
    """Whether the peak seems to lie above; of a probe that is not decided its share tells."""
    if tried.decided_by == "Unfinished":
        return tried.seen.share <= goal.share
    return tried.kept


def _next_whole(
    goal: Goal, place: _PeakLocation, probes: Sequence[ProbeResult]
) -> ProbeAt | StopReason:
    """Return the next pilot, or the next probe at the two rates to which the pilots led."""
    parts = _parts(goal, probes)
    pilots, counted = _counts(parts.leading), _counts(parts.counted)
    if not pilots:
        return _probe_at(math.sqrt((place.low_qps or 1) * (place.high_qps or 1)), pilot=True)
    near = _near(pilots, goal.share)
    centre = estimate_peak(near, goal.share)
    if centre is None or not _is_located(goal, near, centre):
        if len(pilots) >= MOST_PILOTS:
            return "Indistinguishable"
        return _next_pilot(goal, pilots, near, centre)
    if len(counted) in LOOKS:
        ended = _ended(goal, estimate_peak(counted, goal.share), len(counted))
        if ended is not None or len(counted) == LOOKS[-1]:
            return ended or "Indistinguishable"
    step = _step(centre, pilots, near)
    return _probe_at(centre.qps * (1 + step * (-1) ** len(counted)), runs_to_completion=True)


def _near(pilots: Sequence[ProbeCount], share: float) -> tuple[ProbeCount, ...]:
    """Leave out pilots far beyond the peak, where a share that comes to 1 rises no more."""
    late = [each.share for each in pilots if each.share > share]
    limit = max(_FAR * share, min(late, default=0.0))
    return tuple(each for each in pilots if each.share <= limit)


def _is_located(goal: Goal, near: Sequence[ProbeCount], centre: PeakEstimate) -> bool:
    """Whether there are pilots enough, and those on both sides are near to the peak."""
    if len(near) < FEWEST_PILOTS or centre.bursts < PILOT_BURSTS:
        return False
    if max(each.share for each in near) <= _FAR * goal.share:
        return True
    good, late = _good_and_late(goal, near)
    return _lowest(late) <= RESOLUTION * _highest(good)


def _next_pilot(
    goal: Goal, pilots: Sequence[ProbeCount], near: Sequence[ProbeCount], at: PeakEstimate | None
) -> ProbeAt:
    """Return the next rate near the crossing, on the side that the rates so far lean from.

    Where all that were late were so by far, the rates tell no crossing: their gap is bisected.
    """
    good, late = _good_and_late(goal, pilots)
    if good and late and min(each.share for each in late) > _FAR * goal.share:
        highest, lowest = _highest(good), _lowest(late)
        if lowest > RESOLUTION * highest:
            return _probe_at(math.sqrt(highest * lowest), pilot=True)
    if at is None:
        return _probe_at(_towards(goal, near if good else pilots), pilot=True)
    middle = math.fsum(each.qps for each in near) / len(near)
    step = _step(at, pilots, near)
    return _probe_at(at.qps * (1 + step * (1 if middle < at.qps else -1)), pilot=True)


def _step(at: PeakEstimate, pilots: Sequence[ProbeCount], near: Sequence[ProbeCount]) -> float:
    """Return how far from the crossing to try: half the way to a pilot that was far beyond it."""
    step = min(_MOST_STEP, max(_LEAST_STEP, _LOG_SHARE_APART / at.slope))
    beyond = [each.qps for each in pilots if each not in near and each.qps > at.qps]
    if not beyond:
        return step
    return max(_LEAST_STEP, min(step, math.sqrt(min(beyond) / at.qps) - 1))


def _ended(goal: Goal, at: PeakEstimate | None, probes: int) -> StopReason | None:
    """Tell whether the bracket is narrow, or its ends alike to a probe of so many queries."""
    if at is None:
        return "Indistinguishable"
    if at.bounds_qps is None:
        return None
    low, high = at.bounds_qps
    if high <= RESOLUTION * low:
        return "Resolved"
    apart = (high - low) / at.qps * at.slope
    variance = at.dispersion / (goal.query_limit * goal.share)
    # The farther the ends are apart, the fewer overshoots has the lower one, the more its chance.
    of_both = 2 * variance * math.cosh(min(apart, _FARTHEST_APART) / 2)
    by_chance = student_quantile((1 + CONFIDENCE) / 2, probes - 2) * math.sqrt(of_both)
    return "Indistinguishable" if apart < by_chance else None


def _towards(goal: Goal, counted: Sequence[ProbeCount]) -> float:
    """Return a rate beyond all tried so far, on the side where the crossing must be.

    The more of them lie on the wrong side, the longer is the step: the server may have become
    slower since it was found where the peak is.
    """
    good, late = _good_and_late(goal, counted)
    highest, lowest = _highest(counted), _lowest(counted)
    step = min(2.0, (1 + _FIRST_STEP) ** len({each.qps for each in counted}))
    if not good:
        return lowest / step
    if not late:
        return highest * step
    # Shares that fall with the rate are chance: the ends of what was tried, made wider, tell.
    wider = 1 + _FIRST_STEP
    return highest * wider if len(counted) % 2 else lowest / wider


def _good_and_late(
    goal: Goal, counted: Sequence[ProbeCount]
) -> tuple[list[ProbeCount], list[ProbeCount]]:
    """Tell those whose share is allowed from those beyond it."""
    good = [each for each in counted if each.share <= goal.share]
    return good, [each for each in counted if each.share > goal.share]


def _highest(counted: Sequence[ProbeCount]) -> float:
    return max(each.qps for each in counted)


def _lowest(counted: Sequence[ProbeCount]) -> float:
    return min(each.qps for each in counted)


def _parts(goal: Goal, probes: Sequence[ProbeResult]) -> _ProbeRoles:
    """Tell the whole probes apart.

    One far beyond the peak at the very first of the two rates shows that these are none: pilots
    have not found where the server saturates. It is the last pilot then. So are the first four,
    or eight, where all of them, or all but the first of eight, are on one side of the peak: the
    server was slower, or faster, before, and of the pilots until then only those lead on that lie
    beyond them, where the peak must be. Pilots tell as much among themselves: one that a later
    one contradicts leads on no more.
    """
    pilots: list[ProbeResult] = []
    leading: list[ProbeResult] = []
    counted: list[ProbeResult] = []
    has_turned = False
    outdated_from = math.inf
    for each in probes:
        if not each.asked.runs_to_completion or not each.seen.queries:
            continue
        misled = _is_far(goal, each) and not counted and len(pilots) < MOST_PILOTS
        if each.asked.pilot or misled:
            if len(pilots) < _MOST_MISLED:
                leading = [one for one in leading if not _contradict(goal, one, each)]
            pilots.append(each)
            leading.append(each)
            leading, outdated_from = _without_outdated(goal, leading, outdated_from)
            continue
        counted.append(each)
        leads_up = _leads_up(goal, counted)
        if leads_up is not None and len(pilots) < _MOST_MISLED:
            # Earlier pilots beyond these may lead on once; where they misled again, none does.
            beyond = [] if has_turned else _beyond(leading, counted, up=leads_up)
            has_turned = True
            leading = [*beyond, *counted]
            pilots += counted
            counted = []
    return _ProbeRoles(tuple(pilots), tuple(leading), tuple(counted))


def _is_far(goal: Goal, tried: ProbeResult) -> bool:
    """Whether a probe was so far beyond the peak that it tells little of where that is."""
    return tried.seen.share > _FAR * goal.share


def _contradict(goal: Goal, one: ProbeResult, other: ProbeResult) -> bool:
    """Whether queries were late at one rate, and fewer at one clearly higher, which tells where."""
    low, high = sorted((one, other), key=lambda each: each.asked.milli_qps)
    is_clear = high.asked.milli_qps >= _LITTLE * low.asked.milli_qps
    more = low.seen.share > max(goal.share, high.seen.share)
    return is_clear and more and not _is_far(goal, high)


def _without_outdated(
    goal: Goal, pilots: list[ProbeResult], outdated_from: float
) -> tuple[list[ProbeResult], float]:
    """Leave out pilots that did well little below where the last two were both far beyond.

    Returns the others, and from which rate on they were left out. A second time, that must be a
    lower one: what saturates there was no faster before, and its best rates are to be kept.
    """
    if len(pilots) < 2 or not all(_is_far(goal, each) for each in pilots[-2:]):
        return pilots, outdated_from
    lowest = min(each.asked.milli_qps for each in pilots[-2:]) / _LITTLE
    if lowest * RESOLUTION >= outdated_from:
        return pilots, outdated_from
    left = [each for each in pilots if _is_far(goal, each) or each.asked.milli_qps < lowest]
    return left, lowest if len(left) < len(pilots) else outdated_from


def _leads_up(goal: Goal, probes: Sequence[ProbeResult]) -> bool | None:
    """Whether the peak is clearly above all these, or below; None where neither is clear."""
    for after, first, factor in _CLEARLY:
        if len(probes) != after:
            continue
        shares = [each.seen.share for each in probes[first:]]
        if max(shares) * factor <= goal.share:
            return True
        if min(shares) > factor * goal.share:
            return False
    return None


def _beyond(
    pilots: Sequence[ProbeResult], probes: Sequence[ProbeResult], *, up: bool
) -> list[ProbeResult]:
    rates = [each.asked.milli_qps for each in probes]
    if up:
        return [each for each in pilots if each.asked.milli_qps > max(rates)]
    return [each for each in pilots if each.asked.milli_qps < min(rates)]


def _counts(probes: Sequence[ProbeResult]) -> tuple[ProbeCount, ...]:
    return tuple(
        ProbeCount(each.asked.milli_qps / 1000, each.seen.queries, each.seen.overshoots)
        for each in probes
    )


def _judged_by(goal: Goal, at: PeakEstimate | None, found: SearchState) -> str | None:
    """Return the label of the step by which the search is judged: that nearest to the peak.

    Several have the same rate: of these the one whose share of overshoots is nearest to the goal's.
    """
    if at is not None:
        whole = [
            each for each in found.probes if each.asked.runs_to_completion and each.seen.queries
        ]

        def distance(tried: ProbeResult) -> tuple[float, float]:
            return abs(tried.asked.milli_qps / 1000 - at.qps), abs(tried.seen.share - goal.share)

        return min(whole, key=distance).label
    if found.probes:
        return found.probes[-1].label
    return None if found.alone is None else SINGLE_QUERY_STEP


def _probe_at(qps: float, *, runs_to_completion: bool = True, pilot: bool = False) -> ProbeAt:
    return ProbeAt(max(1, round(qps * 1000)), runs_to_completion, pilot)


def _probe_report(tried: ProbeResult, *, pilot: bool) -> Probe:
    return Probe(
        step=tried.label,
        seed=tried.seed,
        target_qps=tried.asked.milli_qps / 1000,
        within_bound=tried.kept,
        decided_by=tried.decided_by,
        ran_to_completion=tried.asked.runs_to_completion,
        pilot=pilot,
        queries=tried.seen.queries,
        overshoots=tried.seen.overshoots,
    )
