"""Result of a search for the peak: what is confirmed, and what is known if nothing is."""

from collections.abc import Sequence

from inferometer_api.results.search import Peak, ProbeRecord
from inferometer_api.scenarios.step_setting import SINGLE_QUERY_STEP
from inferometer_loadgen.search.goal import Goal
from inferometer_loadgen.search.locating import LOCATED
from inferometer_loadgen.search.peak_regression import CONFIDENCE, PeakEstimate, estimate_peak
from inferometer_loadgen.search.probes import (
    ProbeResult,
    SearchState,
    StopReason,
    counts_of,
    kept_rates,
    missed_rates,
)
from inferometer_loadgen.search.roles import LOOKS, assign_roles


def peak_result(goal: Goal, found: SearchState, stopped: StopReason) -> Peak:
    """Return the part of the result document for a search that ended for this reason."""
    roles = assign_roles(goal, found.probes)
    # A bound below the service time has no peak, whatever chance makes of the probes.
    at = None
    if stopped != "CannotBeMet":
        at = estimate_peak(counts_of(roles.counted), goal.share)
    bracket = _bracket(goal, at, len(roles.counted), found.probes)
    qps = None if at is None or _is_refuted(goal, at.qps, found.probes) else at.qps
    low, high = bracket or _known_range(goal, stopped, qps, found.probes)
    return Peak(
        percentile=goal.percentile,
        latency_bound_nanoseconds=goal.bound_ns,
        qps=qps,
        low_qps=low,
        high_qps=high,
        confidence=None if bracket is None else CONFIDENCE,
        step=_judged_by(goal, at, found),
        stop_reason=stopped,
        closed_loop_qps=found.closed_loop_qps,
        service_time_nanoseconds=found.service_time_ns,
        probe_queries=goal.query_limit,
        probe_max_seconds=round(goal.max_seconds),
        probes=[_probe_report(goal, each, pilot=each in roles.pilots) for each in found.probes],
    )


def _bracket(
    goal: Goal, at: PeakEstimate | None, counted: int, probes: Sequence[ProbeResult]
) -> tuple[float, float] | None:
    """Return the bounds of the estimate; None if the probes do not confirm them.

    The coverage of brackets is tested for the numbers of probes in `LOOKS`; fewer claim none. A
    rate little above that kept the bound widens the bracket, and one far above refutes it.
    """
    if at is None or at.bounds_qps is None or counted < LOOKS[0]:
        return None
    low, high = at.bounds_qps
    if _is_refuted(goal, high, probes):
        return None
    return low, max(high, max(kept_rates(goal, probes), default=0) / 1000)


def _is_refuted(goal: Goal, qps: float, probes: Sequence[ProbeResult]) -> bool:
    """Return whether a probe kept the bound at a rate far above."""
    return max(kept_rates(goal, probes), default=0) > 1000 * LOCATED * qps


def _known_range(
    goal: Goal, stopped: StopReason, qps: float | None, probes: Sequence[ProbeResult]
) -> tuple[float | None, float | None]:
    """Return the highest rate that kept the bound, and the lowest above it that did not.

    The first is at most the estimate, if there is one: that has seen more queries.
    """
    if stopped == "ProbesTooShort":
        return None, None  # what such probes kept, they kept because they ended too soon
    kept = kept_rates(goal, probes)
    low = max((rate for rate in kept if qps is None or rate <= 1000 * qps), default=None)
    beyond = max([*kept, 1000 * (qps or 0)])
    high = min((rate for rate in missed_rates(goal, probes) if rate > beyond), default=None)
    return None if low is None else low / 1000, None if high is None else high / 1000


def _judged_by(goal: Goal, at: PeakEstimate | None, found: SearchState) -> str | None:
    """Return the label of the step that judges the search: the whole probe nearest to the peak.

    Of several at that rate it is the one whose share of overshoots is nearest to the goal's.
    """
    if at is not None:
        whole = [
            each for each in found.probes if each.probe.runs_to_completion and each.counts.queries
        ]

        def distance(result: ProbeResult) -> tuple[float, float]:
            return abs(result.qps - at.qps), abs(result.counts.share - goal.share)

        return min(whole, key=distance).label
    if found.probes:
        return found.probes[-1].label
    return None if found.alone is None else SINGLE_QUERY_STEP


def _probe_report(goal: Goal, result: ProbeResult, *, pilot: bool) -> ProbeRecord:
    return ProbeRecord(
        step=result.label,
        seed=result.seed,
        target_qps=result.qps,
        within_bound=result.within_bound(goal),
        decided_by=result.decided_by,
        ran_to_completion=result.probe.runs_to_completion,
        pilot=pilot,
        queries=result.counts.queries,
        overshoots=result.counts.overshoots,
    )
