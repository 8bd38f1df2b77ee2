"""The peak that findPeak finds is the rate at which the percentile just keeps the bound."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from inferometer_api.results.search import Peak
from inferometer_loadgen.search.goal import make_goal
from inferometer_loadgen.verdict.measurement import ScenarioConditions
from inferometer_loadgen.verdict.rules.search import peak_not_found
from support.noisy_searches import noisy_searches
from support.queues import Queue, sojourns
from support.searched_queues import SearchedQueue, true_peak

SEED = 20_261_122
SERVICE_SECONDS = 0.004
COVERED = (0.93, 0.97)
UNBIASED = 0.02
MANY = 0.97
"""Where probes see many bursts of overshoots so many of the searches claim a bracket."""
_TWO_ERRORS = 2


@dataclass(frozen=True, slots=True)
class Known:
    """A queue with known times, and the goal of its searches."""

    kind: Literal["M/D/1", "M/M/1"]
    services: float
    """The bound, in mean services."""
    percentile: float
    queries: int
    """Of a probe."""
    claims: float
    """The least share of the searches that claim a bracket."""
    searches: int = 1000

    @property
    def queue(self) -> Queue:
        """Return the queue; its own utilisation is not used, since the search sets the rate."""
        return Queue(self.kind, 0.5, SERVICE_SECONDS)

    @property
    def bound_seconds(self) -> float:
        """The bound."""
        return self.services * SERVICE_SECONDS

    @property
    def peak(self) -> float:
        """The rate at which just so many are beyond the bound."""
        return true_peak(self.queue, self.percentile, self.bound_seconds)

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"{self.kind} P{self.percentile:g} {self.services:g} services {self.queries} queries"


CASES = (
    Known("M/D/1", 5.5, 99.0, 8192, MANY),
    Known("M/M/1", 15, 99.0, 8192, MANY),
    Known("M/D/1", 5.5, 99.0, 1024, 0.5),
    Known("M/M/1", 15, 99.0, 1024, 0.2),
    Known("M/D/1", 3, 99.0, 512, 0.5),
    Known("M/M/1", 6, 90.0, 1024, MANY),
    Known("M/M/1", 3, 50.0, 256, MANY),
    Known("M/M/1", 20, 99.9, 8192, 0.2),
    # So few claim a bracket that a thousand searches would note nothing of what they cover.
    Known("M/M/1", 50, 99.0, 8192, 0.0, searches=3000),
)


@pytest.mark.parametrize("known", CASES[:2], ids=lambda known: known.name)
def test_the_truth_is_true(known: Known) -> None:
    """At the rate that theory gives, 1 in 100 of simulated times is beyond the bound."""
    random = np.random.default_rng(SEED)
    shape = (200, 22_000)
    arrivals = random.exponential(1 / known.peak, shape).cumsum(axis=-1)
    times = sojourns(arrivals, known.queue.service_times(random, shape))[:, 2000:]
    shares = (times > known.bound_seconds).mean(axis=-1)
    error = shares.std(ddof=1) / len(shares) ** 0.5
    assert abs(shares.mean() - 0.01) < 3.3 * error  # 99.9 of 100 times


@pytest.mark.parametrize("known", CASES, ids=lambda known: known.name)
def test_the_peak_is_unbiased_and_its_bracket_covers_it(
    note: Callable[[str], None], known: Known
) -> None:
    """Over 1,000 searches the mean is within 2 % of the truth, and 95 of 100 brackets hold it.

    A search that cannot support its bracket claims none and says so; where many do so, the limits
    for the others are wider by two standard errors of what so many brackets can show.
    """
    goal = make_goal(known.percentile, round(known.bound_seconds * 1e9), known.queries, 600)
    searched = SearchedQueue(known.queue, goal)
    peaks = [searched.search(SEED, run) for run in range(known.searches)]
    truth = known.peak
    found = np.array([peak.qps for peak in peaks if peak.qps is not None])
    claimed = [peak for peak in peaks if peak.confidence is not None]
    holds = [(each.low_qps or 0) <= truth <= (each.high_qps or 0) for each in claimed]
    covered = sum(holds) / max(1, len(holds))
    error = found.mean() / truth - 1
    probes = np.mean([len(peak.probes) for peak in peaks])
    note(
        f"seed {SEED}, peak at {truth * SERVICE_SECONDS:.1%}: mean error {error:+.2%}, spread "
        f"{found.std() / truth:.1%}, {covered:.1%} of {len(claimed)} brackets cover it; "
        f"{probes:.0f} probes; {dict(Counter(peak.stop_reason for peak in peaks))}"
    )
    assert abs(error) < UNBIASED
    assert {peak.confidence for peak in claimed} <= {0.95}
    assert len(claimed) >= known.claims * known.searches
    assert all(_has_reason(peak) for peak in peaks if peak.confidence is None)
    margin = 0.0
    if len(claimed) < MANY * known.searches:
        margin = _TWO_ERRORS * (0.95 * 0.05 / max(1, len(claimed))) ** 0.5
    assert COVERED[0] - margin <= covered <= COVERED[1] + margin


def test_a_busy_neighbour_misleads_no_search(note: Callable[[str], None]) -> None:
    """Over 1,000 searches next to one, what is reported as known is true, and says something."""
    found = noisy_searches(1000, SEED)
    note(f"seed {SEED}: {found}")
    assert found.contradicted == 0
    assert found.too_low <= 120
    assert found.too_high == 0


def _has_reason(peak: Peak) -> bool:
    """Return whether a search without a bracket is refused by name, with a sentence."""
    broken = list(peak_not_found(ScenarioConditions("findPeak", peak=peak)))
    return (
        peak.stop_reason == "Indistinguishable" and "do not bracket the peak" in broken[0].sentence
    )
