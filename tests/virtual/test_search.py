"""findPeak finds the rate at which the percentile of a known queue just keeps the bound.

`make verify` repeats this with 1,000 searches of nine queues.
"""

import numpy as np
import pytest

from inferometer_loadgen.search.goal import make_goal
from support.noisy_searches import noisy_searches
from support.queues import Queue
from support.searched_queues import SearchedQueue, true_peak

SEED = 20_261_122
SEARCHES = 50
SERVICE_SECONDS = 0.004
CASES = {
    "M/D/1": (Queue("M/D/1", 0.5, SERVICE_SECONDS), 5.5),
    "M/M/1": (Queue("M/M/1", 0.5, SERVICE_SECONDS), 15.0),
}
"""Queues, whose own utilisation does not matter here, and the bound in mean services."""


@pytest.mark.parametrize("kind", CASES)
def test_the_peak_is_unbiased_and_its_bracket_covers_it(kind: str) -> None:
    """Over 50 searches the mean is within 1 % of the truth, and 90 to 100 % of brackets hold it."""
    queue, services = CASES[kind]
    bound_seconds = services * SERVICE_SECONDS
    truth = true_peak(queue, 99.0, bound_seconds)
    searched = SearchedQueue(queue, make_goal(99.0, round(bound_seconds * 1e9), 8192, 600))
    peaks = [searched.search(SEED, run) for run in range(SEARCHES)]
    found = np.array([peak.qps for peak in peaks if peak.qps is not None])
    holds = [
        (peak.low_qps or 0) <= truth <= (peak.high_qps or 0)
        for peak in peaks
        if peak.confidence is not None
    ]
    summary = (
        f"seed {SEED}: mean error {found.mean() / truth - 1:+.2%}, {sum(holds)} of {len(holds)}"
    )
    assert len(found) >= SEARCHES - 1, summary
    assert abs(found.mean() / truth - 1) < 0.01, summary
    assert len(holds) >= 0.95 * SEARCHES, summary
    assert sum(holds) >= 0.9 * len(holds), summary


def test_a_busy_neighbour_misleads_no_search() -> None:
    """Over 100 searches next to one, what is reported as known is true, and says something."""
    found = noisy_searches(100, SEED)
    assert found.contradicted == 0, found
    assert found.too_low <= 15, found
    assert found.too_high == 0, found
