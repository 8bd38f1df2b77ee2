"""Searches on a machine whose neighbour is busy now and then, and what they get wrong."""

from dataclasses import dataclass

from inferometer_api.results.search import Peak
from inferometer_loadgen.search.goal import make_goal
from support.queues import Queue
from support.searched_queues import Neighbour, SearchedQueue, true_peak

_SERVICE_SECONDS = 0.004
_BOUND_SECONDS = 5.5 * _SERVICE_SECONDS
_PERCENTILE = 90.0
_QUERIES = 1000
_NEIGHBOUR = Neighbour(busy_seconds=5, idle_seconds=45, slowdown=3)
"""Busy for a tenth of the time, in which a server of twice the rate would not keep the bound."""
_PROBE_SECONDS, _MAX_SECONDS = 15, 300
_FAR_BELOW, _FAR_ABOVE = 0.7, 1.3


@dataclass(frozen=True, slots=True)
class Misled:
    """How many of so many searches misled."""

    searches: int
    with_bracket: int
    too_low: int
    """The rate that is said to be kept at least is below 0.7 of the peak of the idle machine, or a
    bracket ends below 0.9 of it."""
    too_high: int
    """The rate that is said to be kept at least is above 1.3 of it."""
    contradicted: int
    """A probe kept the bound above the bracket, and no later one at its rate missed it."""


def noisy_searches(count: int, seed: int) -> Misled:
    """Search so often next to a busy neighbour."""
    queue = Queue("M/D/1", 0.5, _SERVICE_SECONDS)
    goal = make_goal(_PERCENTILE, round(_BOUND_SECONDS * 1e9), _QUERIES, _PROBE_SECONDS)
    searched = SearchedQueue(queue, goal, _NEIGHBOUR, _MAX_SECONDS)
    truth = true_peak(queue, _PERCENTILE, _BOUND_SECONDS)
    peaks = [searched.search(seed, run) for run in range(count)]
    return Misled(
        searches=count,
        with_bracket=sum(peak.confidence is not None for peak in peaks),
        too_low=sum(_is_too_low(peak, truth) for peak in peaks),
        too_high=sum((peak.low_qps or 0) > _FAR_ABOVE * truth for peak in peaks),
        contradicted=sum(is_contradicted(peak) for peak in peaks),
    )


def _is_too_low(peak: Peak, truth: float) -> bool:
    if peak.confidence is not None:
        return (peak.high_qps or 0) < 0.9 * truth
    return (peak.low_qps or 0) < _FAR_BELOW * truth


def kept_rates_of(peak: Peak) -> set[float]:
    """Return the rates that kept the bound, without those that a later whole probe refutes."""
    allowed = 1 - peak.percentile / 100
    kept: set[float] = set()
    for each in peak.probes:
        if each.within_bound:
            kept.add(each.target_qps)
        elif each.ran_to_completion and each.overshoots > allowed * each.queries:
            kept.discard(each.target_qps)
    return kept


def is_contradicted(peak: Peak) -> bool:
    """Return whether a rate that kept the bound lies above the upper end that is reported."""
    return peak.high_qps is not None and max(kept_rates_of(peak), default=0) > peak.high_qps
