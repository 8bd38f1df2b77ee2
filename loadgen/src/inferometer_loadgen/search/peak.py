"""Search for the peak: chooses the next step from what was measured, and decides when to end.

It has four parts:

1. Locating probes (`locate`). From half the closed-loop throughput the rate is doubled (or halved)
   until one rate meets the bound and one does not; then the bracket is bisected. These probes end
   as soon as early stopping decides them. Their verdicts cannot be the result: early stopping errs
   on the safe side, and chance decides which of two near rates passes.
2. Pilots run to their last query on both sides of the best estimate (`PilotEstimate`), each where
   those before lead. They cannot be the result either: a probe with too many overshoots by chance
   sends the next ones down, which makes the estimate look steep and certain.
3. Counted probes run at two fixed rates around the pilots' estimate, in turn. Only these determine
   the peak and its bracket.
4. Checks. A rate above the bracket at which a probe kept the bound is tried again. If it keeps the
   bound again, far above, the server was slow while the counted probes ran: the search goes on
   from there.
"""

import math
from collections.abc import Sequence

from inferometer_api.statistics import student_quantile
from inferometer_loadgen.search.goal import Goal, exceeds_share
from inferometer_loadgen.search.locating import (
    PeakLocation,
    cuts_off_first,
    ends_too_soon,
    limit_hit,
    locate,
)
from inferometer_loadgen.search.peak_regression import (
    CONFIDENCE,
    PeakEstimate,
    estimate_peak,
)
from inferometer_loadgen.search.pilots import estimate_from
from inferometer_loadgen.search.probes import (
    ProbeAt,
    ProbeResult,
    Saturation,
    SearchState,
    SingleQuery,
    StopReason,
    counts_of,
    kept_rates,
    probe_at,
)
from inferometer_loadgen.search.roles import LITTLE, LOOKS, MOST_PILOTS, RESOLUTION, assign_roles

_OF_THROUGHPUT = {"ProbesTooShort", "ProbesCutOff"}
"""Ends that a throughput much below the server's own may have caused."""
_CLOSED_LOOPS = 2
"""How often the throughput is measured before it is believed to cause such an end."""
_FARTHEST_APART = 50.0


def next_step(goal: Goal, found: SearchState) -> SingleQuery | Saturation | ProbeAt | StopReason:
    """Return the next step, or why the search is over."""
    if found.alone is None:
        return SingleQuery()
    if exceeds_share(found.alone.timed, goal.share):
        return "CannotBeMet"
    if found.closed_loop_qps is None:
        return Saturation()
    ask = _next_probe(goal, found, found.closed_loop_qps)
    if ask in _OF_THROUGHPUT and found.closed_loops < _CLOSED_LOOPS:
        return Saturation(found.closed_loops + 1)
    return ask


def _next_probe(goal: Goal, found: SearchState, closed_loop_qps: float) -> ProbeAt | StopReason:
    if not closed_loop_qps:
        return "EndedEarly"  # no answer at all; the verdict has a rule for it
    if not found.probes and cuts_off_first(goal, closed_loop_qps):
        return "ProbesCutOff"
    # Whole probes may lead there as well, if other work spoiled those that located the peak.
    if any(ends_too_soon(each / 1000, closed_loop_qps) for each in kept_rates(goal, found.probes)):
        return "ProbesTooShort"
    place = locate(goal, closed_loop_qps, found.probes)
    limit = limit_hit(goal, closed_loop_qps, place)
    if limit is not None:
        return limit
    if place.next_qps is not None:
        return probe_at(place.next_qps, runs_to_completion=False)
    return _next_whole(goal, place, found.probes)


def _next_whole(
    goal: Goal, place: PeakLocation, probes: Sequence[ProbeResult]
) -> ProbeAt | StopReason:
    """Return the next pilot, probe at the two rates that the pilots determined, or check."""
    roles = assign_roles(goal, probes)
    if not roles.leading:
        return probe_at(place.middle_qps, pilot=True)
    counted = counts_of(roles.counted)
    if len(counted) in LOOKS:
        at = estimate_peak(counted, goal.share)
        ended = _ended(goal, at, len(counted))
        if ended is not None or len(counted) == LOOKS[-1]:
            return _check(goal, at, probes) or ended or "Indistinguishable"
    again = None if counted else _contradicted(goal, roles.leading, probes)
    if again is not None:
        return again
    estimate = estimate_from(goal, counts_of(roles.leading))
    if estimate.is_located:
        return estimate.next_counted(len(counted))
    return "Indistinguishable" if len(roles.leading) >= MOST_PILOTS else estimate.next_pilot()


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


def _check(goal: Goal, at: PeakEstimate | None, probes: Sequence[ProbeResult]) -> ProbeAt | None:
    """Return a probe at the highest rate above the bracket that kept the bound.

    None if there is no such rate, or if it was tried since the last counted probe.
    """
    if at is None or at.bounds_qps is None:
        return None
    kept = [rate for rate in kept_rates(goal, probes) if rate / 1000 > at.bounds_qps[1]]
    if not kept or _is_tried_since(kept[-1], _last_counted(probes), probes):
        return None
    return ProbeAt(kept[-1], runs_to_completion=True, pilot=True)


def _contradicted(
    goal: Goal, leading: Sequence[ProbeResult], probes: Sequence[ProbeResult]
) -> ProbeAt | None:
    """Return a probe at the highest rate that kept the bound, if a pilot clearly below missed it.

    Either that pilot was spoiled, or the server is slower now. None if it was tried since.
    """
    kept = kept_rates(goal, probes)
    if not kept:
        return None
    late = [
        each
        for each in leading
        if each.counts.share > goal.share and each.probe.milli_qps * LITTLE <= kept[-1]
    ]
    if not late or _is_tried_since(kept[-1], probes.index(late[-1]), probes):
        return None
    return ProbeAt(kept[-1], runs_to_completion=True, pilot=True)


def _last_counted(probes: Sequence[ProbeResult]) -> int:
    return max(
        index
        for index, each in enumerate(probes)
        if each.probe.runs_to_completion and not each.probe.pilot
    )


def _is_tried_since(milli_qps: int, index: int, probes: Sequence[ProbeResult]) -> bool:
    """Return whether a whole probe ran at a rate after the probe with this index."""
    return any(
        each.probe.runs_to_completion and each.probe.milli_qps == milli_qps
        for each in probes[index + 1 :]
    )
