"""Is the peak that findPeak finds the rate at which the percentile just keeps the bound?"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from inferometer_loadgen.search.goal import goal_of
from support.queues import Queue, sojourns
from support.searched_queues import SearchedQueue, true_peak

SEED = 20_261_121
SEARCHES = 1000
SERVICE_SECONDS = 0.004
PERCENTILE = 99.0
COVERED = (0.93, 0.97)
UNBIASED = 0.02
FEW_BURSTS = {("M/M/1", 1024)}


@dataclass(frozen=True, slots=True)
class Known:
    """A queue whose times are known, and a bound that puts the peak at a usual utilisation."""

    kind: Literal["M/D/1", "M/M/1"]
    bound_seconds: float

    @property
    def queue(self) -> Queue:
        """Its utilisation matters to nobody here: the search sets the rate."""
        return Queue(self.kind, 0.5, SERVICE_SECONDS)

    @property
    def peak(self) -> float:
        """The rate at which just 1 in 100 is beyond the bound."""
        return true_peak(self.queue, PERCENTILE, self.bound_seconds)


KNOWN = {"M/D/1": Known("M/D/1", 0.022), "M/M/1": Known("M/M/1", 0.060)}


@pytest.mark.parametrize("kind", KNOWN)
def test_the_truth_is_true(kind: str) -> None:
    """At the rate that theory tells, 1 in 100 of simulated times is beyond the bound."""
    known = KNOWN[kind]
    random = np.random.default_rng(SEED)
    shape = (200, 22_000)
    arrivals = random.exponential(1 / known.peak, shape).cumsum(axis=-1)
    times = sojourns(arrivals, known.queue.service_times(random, shape))[:, 2000:]
    shares = (times > known.bound_seconds).mean(axis=-1)
    error = shares.std(ddof=1) / len(shares) ** 0.5
    assert abs(shares.mean() - 0.01) < 3.3 * error  # 99.9 of 100 times


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("queries", [1024, 8192])
def test_the_peak_is_unbiased_and_its_bracket_covers_it(
    tell: Callable[[str], None], kind: str, queries: int
) -> None:
    """Over 1,000 searches the mean is within 2 % of the truth, and 95 of 100 brackets hold it.

    With few queries at M/M/1 a probe sees about one burst of overshoots, too few to know their
    spread: a quarter of the brackets claims nothing there, and the others are told, not judged.
    """
    known = KNOWN[kind]
    goal = goal_of(PERCENTILE, round(known.bound_seconds * 1e9), queries, 60)
    searched = SearchedQueue(known.queue, goal)
    peaks = [searched.search(SEED, run) for run in range(SEARCHES)]
    truth = known.peak
    found = np.array([peak.qps for peak in peaks if peak.qps is not None])
    claimed = [peak for peak in peaks if peak.confidence is not None]
    covered = np.mean(
        [(each.low_qps or 0) <= truth <= (each.high_qps or np.inf) for each in claimed]
    )
    error = found.mean() / truth - 1
    stopped = Counter(peak.stopped for peak in peaks)
    tell(
        f"seed {SEED}, peak at {truth * SERVICE_SECONDS:.1%}: mean error {error:+.2%}, spread "
        f"{found.std() / truth:.1%}, {covered:.1%} of {len(claimed)} brackets cover it; "
        f"{dict(stopped)}"
    )
    assert len(found) == SEARCHES
    assert abs(error) < UNBIASED
    assert {peak.confidence for peak in claimed} == {0.95}
    if (kind, queries) not in FEW_BURSTS:
        assert len(claimed) > 0.98 * SEARCHES
        assert COVERED[0] <= covered <= COVERED[1]
