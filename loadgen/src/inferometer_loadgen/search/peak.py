"""Search for the peak: chooses the next rate, and concludes from all probes.

It has three parts:

1. Locating probes. From half the closed-loop throughput the rate is doubled (or halved) until one
   rate meets the bound and one does not; then the bracket is bisected. These probes end as soon as
   early stopping decides them. Their verdicts cannot be the result: early stopping errs on the safe
   side, and chance decides which of two near rates passes.
2. Pilots run to their last query on both sides of the best estimate (`estimate_peak`), each where
   those before lead. They cannot be the result either: a probe with too many overshoots by chance
   sends the next ones down, which makes the estimate look steep and certain.
3. Counted probes run at two fixed rates around the pilots' estimate, in turn. Only these determine
   the peak and its bracket.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_api.results.search import Peak, ProbeRecord
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
"""Ratio of the bracket's ends at which no more probes are needed."""
FEWEST_PILOTS, MOST_PILOTS = 4, 16
PILOT_BURSTS = 5
"""Bursts of overshoots that locate the peak well enough for rates on both sides of it."""
LOOKS = (8, 12, 18, 27, 40)
"""Numbers of probes at the two rates after which the search may end. They are few and fixed in
advance: a search that checked after each would end when chance makes its bracket narrow."""
_LOCATED = 1.12
_LOWEST = 1 / 200
"""Lowest rate as a share of the closed-loop throughput; queries hardly ever overlap there."""
_HIGHEST = 2.5
"""Highest rate as a multiple of the closed-loop throughput. With the same connections no server
sustains it, even one that the number of clients, or a cold start, made slow."""
_FIRST_STEP = 0.08
_LEAST_STEP, _MOST_STEP = 0.002, 0.15
_LOG_SHARE_APART = 0.85
"""Distance of probes from the estimate, in logarithms of the share: far enough for the slope, near
enough for a straight line."""
_FARTHEST_APART = 50.0
_FAR = 10
"""Multiple of the allowed share beyond which a probe says little about the peak."""
_CLEARLY = ((4, 0, 2.0), (LOOKS[0], 0, 1.0), (LOOKS[0], 4, 2.0))
"""(probes at the two rates, first ones to ignore, factor of the allowed share): if all these probes
are on one side of the peak by that factor, it is not between them, and the server changed."""
_LITTLE = 1.05
"""Ratio of rates below which one counts as little above another."""
_MAX_REASSESSED = 20
"""Number of pilots from which the two rates are no longer reassessed."""


@dataclass(frozen=True, slots=True)
class SingleQuery:
    """Next step: one query at a time, for the service time."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """Next step: as many clients as the connections allow, for the throughput."""


@dataclass(frozen=True, slots=True)
class ProbeAt:
    """Next step: a probe at a rate."""

    milli_qps: int
    runs_to_completion: bool
    """Whether it runs to its last query, even if it is decided before."""
    pilot: bool = False
    """Whether it only helps to choose the two rates."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe."""

    probe: ProbeAt
    counts: ObservedCounts
    decided_by: Decision
    label: str
    seed: int

    @property
    def within_bound(self) -> bool:
        """Whether early stopping passed."""
        return self.decided_by == "EnoughQueries"


@dataclass(frozen=True, slots=True)
class SearchState:
    """Everything that a search has measured so far."""

    alone: ObservedCounts | None = None
    service_time_ns: int | None = None
    """Percentile of the latency of queries one at a time."""
    closed_loop_qps: float | None = None
    probes: tuple[ProbeResult, ...] = ()


@dataclass(frozen=True, slots=True)
class _PeakLocation:
    """Rates between which the peak seems to lie, and the next rate to try."""

    low_qps: float | None
    high_qps: float | None
    next_qps: float | None
    """None: the bracket is narrow enough."""


@dataclass(frozen=True, slots=True)
class _ProbeRoles:
    """The probes that ran to their last query, in order, by role."""

    pilots: tuple[ProbeResult, ...]
    leading: tuple[ProbeResult, ...]
    """Pilots that determine the two rates; later pilots may have contradicted the others."""
    counted: tuple[ProbeResult, ...]
    """Probes that determine the peak."""


def next_step(goal: Goal, found: SearchState) -> SingleQuery | Saturation | ProbeAt | StopReason:
    """Return the next step, or why the search is over."""
    if found.alone is None:
        return SingleQuery()
    if exceeds_share(found.alone.timed, goal.share):
        return "CannotBeMet"
    if found.closed_loop_qps is None:
        return Saturation()
    return _next_probe(goal, found, found.closed_loop_qps)


def _next_probe(goal: Goal, found: SearchState, closed_loop_qps: float) -> ProbeAt | StopReason:
    if not closed_loop_qps:
        return "EndedEarly"  # no answer at all; the verdict has a rule for it
    place = _place(goal, closed_loop_qps, found.probes)
    if place.low_qps is not None and place.low_qps > closed_loop_qps * _HIGHEST:
        return "ProbesTooShort"  # over before a growing queue exceeds the bound
    if place.next_qps is not None:
        if place.next_qps < closed_loop_qps * _LOWEST:
            return "CannotBeMet"
        return _probe_at(place.next_qps, runs_to_completion=False)
    return _next_whole(goal, place, found.probes)


def peak_result(goal: Goal, found: SearchState, stopped: StopReason) -> Peak:
    """Return the part of the result document for a search that ended for this reason."""
    parts = _parts(goal, found.probes)
    # A bound below the service time has no peak, whatever chance makes of the probes.
    at = None if stopped == "CannotBeMet" else estimate_peak(_counts(parts.counted), goal.share)
    # The coverage of brackets is tested for these numbers of probes; fewer claim none.
    is_enough = len(parts.counted) >= LOOKS[0]
    bounds = at.bounds_qps if at is not None and is_enough else None
    low, high = _tentative_bounds(goal, found) if at is None else bounds or (None, None)
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


def _tentative_bounds(goal: Goal, found: SearchState) -> tuple[float | None, float | None]:
    """Return a rate that met the bound and a higher one that did not, if no probe contradicts it.

    They come from the last locating probes and from the whole probes, which prevail.
    """
    if found.closed_loop_qps is None:
        return None, None
    place = _place(goal, found.closed_loop_qps, found.probes)
    parts = _parts(goal, found.probes)
    good, late = _good_and_late(goal, _counts((*parts.pilots, *parts.counted)))
    within_bound, broken = [each.qps for each in good], [each.qps for each in late]
    lows = [*within_bound, *([] if place.low_qps is None else [place.low_qps])]
    highs = [*broken, *([] if place.high_qps is None else [place.high_qps])]
    return (
        max((qps for qps in lows if qps < min(broken, default=math.inf)), default=None),
        min((qps for qps in highs if qps > max(within_bound, default=0.0)), default=None),
    )


def _place(goal: Goal, closed_loop_qps: float, probes: Sequence[ProbeResult]) -> _PeakLocation:
    """Return the location that the locating probes, those before the first whole one, lead to."""
    low: float | None = None
    high: float | None = None
    rate = closed_loop_qps / 2
    for each in probes:
        if each.probe.runs_to_completion:
            break
        rate = each.probe.milli_qps / 1000
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


def _goes_up(goal: Goal, result: ProbeResult) -> bool:
    """Return whether the peak seems to lie above; an undecided probe is judged by its share."""
    if result.decided_by == "Unfinished":
        return result.counts.share <= goal.share
    return result.within_bound


def _next_whole(
    goal: Goal, place: _PeakLocation, probes: Sequence[ProbeResult]
) -> ProbeAt | StopReason:
    """Return the next pilot, or the next probe at the two rates that the pilots determined."""
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
    """Leave out pilots far beyond the peak, where the share approaches 1 and stops rising."""
    late = [each.share for each in pilots if each.share > share]
    limit = max(_FAR * share, min(late, default=0.0))
    return tuple(each for each in pilots if each.share <= limit)


def _is_located(goal: Goal, near: Sequence[ProbeCount], centre: PeakEstimate) -> bool:
    """Return whether there are enough pilots, and those on both sides are near the peak."""
    if len(near) < FEWEST_PILOTS or centre.bursts < PILOT_BURSTS:
        return False
    if max(each.share for each in near) <= _FAR * goal.share:
        return True
    good, late = _good_and_late(goal, near)
    return _lowest(late) <= RESOLUTION * _highest(good)


def _next_pilot(
    goal: Goal, pilots: Sequence[ProbeCount], near: Sequence[ProbeCount], at: PeakEstimate | None
) -> ProbeAt:
    """Return the next rate near the estimate, opposite to the mean of the rates so far.

    If all late pilots are far beyond the peak, there is no estimate: the gap is bisected.
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
    """Return the distance from the estimate: at most half the way to a pilot far beyond it."""
    step = min(_MOST_STEP, max(_LEAST_STEP, _LOG_SHARE_APART / at.slope))
    beyond = [each.qps for each in pilots if each not in near and each.qps > at.qps]
    if not beyond:
        return step
    return max(_LEAST_STEP, min(step, math.sqrt(min(beyond) / at.qps) - 1))


def _ended(goal: Goal, at: PeakEstimate | None, probes: int) -> StopReason | None:
    """Return why the search ends: a narrow bracket, or ends that a probe cannot distinguish."""
    if at is None:
        return "Indistinguishable"
    if at.bounds_qps is None:
        return None
    low, high = at.bounds_qps
    if high <= RESOLUTION * low:
        return "Resolved"
    apart = (high - low) / at.qps * at.slope
    variance = at.dispersion / (goal.query_limit * goal.share)
    # The farther apart the ends, the fewer overshoots at the lower one, and the larger its error.
    of_both = 2 * variance * math.cosh(min(apart, _FARTHEST_APART) / 2)
    by_chance = student_quantile((1 + CONFIDENCE) / 2, probes - 2) * math.sqrt(of_both)
    return "Indistinguishable" if apart < by_chance else None


def _towards(goal: Goal, counted: Sequence[ProbeCount]) -> float:
    """Return a rate beyond all tried so far, on the side where the peak must be.

    The step grows with the number of rates on the wrong side: the server may have changed since
    the peak was located.
    """
    good, late = _good_and_late(goal, counted)
    highest, lowest = _highest(counted), _lowest(counted)
    step = min(2.0, (1 + _FIRST_STEP) ** len({each.qps for each in counted}))
    if not good:
        return lowest / step
    if not late:
        return highest * step
    # Shares that fall with the rate are chance: widen the range of rates.
    wider = 1 + _FIRST_STEP
    return highest * wider if len(counted) % 2 else lowest / wider


def _good_and_late(
    goal: Goal, counted: Sequence[ProbeCount]
) -> tuple[list[ProbeCount], list[ProbeCount]]:
    """Separate probes within the allowed share from those beyond it."""
    good = [each for each in counted if each.share <= goal.share]
    return good, [each for each in counted if each.share > goal.share]


def _highest(counted: Sequence[ProbeCount]) -> float:
    return max(each.qps for each in counted)


def _lowest(counted: Sequence[ProbeCount]) -> float:
    return min(each.qps for each in counted)


def _parts(goal: Goal, probes: Sequence[ProbeResult]) -> _ProbeRoles:
    """Assign roles to the whole probes.

    A counted probe becomes a pilot if it shows that the two rates are wrong:

    * The first one, if it is far beyond the peak: the pilots have not found the saturation.
    * The first four or eight, if they all (or all but the first of eight) lie on one side of the
      peak: the server's speed changed. Earlier pilots then lead only if they lie on the other side
      of these probes, where the peak must be.

    A pilot that a later pilot contradicts leads no longer.
    """
    pilots: list[ProbeResult] = []
    leading: list[ProbeResult] = []
    counted: list[ProbeResult] = []
    has_turned = False
    outdated_from = math.inf
    for each in probes:
        if not each.probe.runs_to_completion or not each.counts.queries:
            continue
        is_too_far = _is_far(goal, each) and not counted and len(pilots) < MOST_PILOTS
        if each.probe.pilot or is_too_far:
            if len(pilots) < _MAX_REASSESSED:
                leading = [one for one in leading if not _contradict(goal, one, each)]
            pilots.append(each)
            leading.append(each)
            leading, outdated_from = _without_outdated(goal, leading, outdated_from)
            continue
        counted.append(each)
        leads_up = _leads_up(goal, counted)
        if leads_up is not None and len(pilots) < _MAX_REASSESSED:
            # Earlier pilots beyond these may lead once; after a second change, none does.
            beyond = [] if has_turned else _beyond(leading, counted, up=leads_up)
            has_turned = True
            leading = [*beyond, *counted]
            pilots += counted
            counted = []
    return _ProbeRoles(tuple(pilots), tuple(leading), tuple(counted))


def _is_far(goal: Goal, result: ProbeResult) -> bool:
    """Return whether a probe is too far beyond the peak to locate it."""
    return result.counts.share > _FAR * goal.share


def _contradict(goal: Goal, one: ProbeResult, other: ProbeResult) -> bool:
    """Return whether a clearly higher rate, not far beyond the peak, had fewer late queries."""
    low, high = sorted((one, other), key=lambda each: each.probe.milli_qps)
    is_clear = high.probe.milli_qps >= _LITTLE * low.probe.milli_qps
    more = low.counts.share > max(goal.share, high.counts.share)
    return is_clear and more and not _is_far(goal, high)


def _without_outdated(
    goal: Goal, pilots: list[ProbeResult], outdated_from: float
) -> tuple[list[ProbeResult], float]:
    """Leave out good pilots close to, or above, the last two if both were far beyond the peak.

    Returns the others, and the rate from which pilots were left out. A second time that rate must
    be lower: what saturates there was never faster, so its best rates are kept.
    """
    if len(pilots) < 2 or not all(_is_far(goal, each) for each in pilots[-2:]):
        return pilots, outdated_from
    lowest = min(each.probe.milli_qps for each in pilots[-2:]) / _LITTLE
    if lowest * RESOLUTION >= outdated_from:
        return pilots, outdated_from
    left = [each for each in pilots if _is_far(goal, each) or each.probe.milli_qps < lowest]
    return left, lowest if len(left) < len(pilots) else outdated_from


def _leads_up(goal: Goal, probes: Sequence[ProbeResult]) -> bool | None:
    """Return whether the peak is clearly above all these, or below; None if neither is clear."""
    for after, first, factor in _CLEARLY:
        if len(probes) != after:
            continue
        shares = [each.counts.share for each in probes[first:]]
        if max(shares) * factor <= goal.share:
            return True
        if min(shares) > factor * goal.share:
            return False
    return None


def _beyond(
    pilots: Sequence[ProbeResult], probes: Sequence[ProbeResult], *, up: bool
) -> list[ProbeResult]:
    rates = [each.probe.milli_qps for each in probes]
    if up:
        return [each for each in pilots if each.probe.milli_qps > max(rates)]
    return [each for each in pilots if each.probe.milli_qps < min(rates)]


def _counts(probes: Sequence[ProbeResult]) -> tuple[ProbeCount, ...]:
    return tuple(
        ProbeCount(each.probe.milli_qps / 1000, each.counts.queries, each.counts.overshoots)
        for each in probes
    )


def _judged_by(goal: Goal, at: PeakEstimate | None, found: SearchState) -> str | None:
    """Return the label of the step that judges the search: the whole probe nearest to the peak.

    Of several at that rate it is the one whose share of overshoots is nearest to the goal's.
    """
    if at is not None:
        whole = [
            each for each in found.probes if each.probe.runs_to_completion and each.counts.queries
        ]

        def distance(result: ProbeResult) -> tuple[float, float]:
            return abs(result.probe.milli_qps / 1000 - at.qps), abs(
                result.counts.share - goal.share
            )

        return min(whole, key=distance).label
    if found.probes:
        return found.probes[-1].label
    return None if found.alone is None else SINGLE_QUERY_STEP


def _probe_at(qps: float, *, runs_to_completion: bool = True, pilot: bool = False) -> ProbeAt:
    return ProbeAt(max(1, round(qps * 1000)), runs_to_completion, pilot)


def _probe_report(result: ProbeResult, *, pilot: bool) -> ProbeRecord:
    return ProbeRecord(
        step=result.label,
        seed=result.seed,
        target_qps=result.probe.milli_qps / 1000,
        within_bound=result.within_bound,
        decided_by=result.decided_by,
        ran_to_completion=result.probe.runs_to_completion,
        pilot=pilot,
        queries=result.counts.queries,
        overshoots=result.counts.overshoots,
    )
