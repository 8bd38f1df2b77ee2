"""Nominal 95 % intervals cover the truth in about 95 of 100 runs of the real closed loop.

`make verify` repeats this with 1,000 runs; 200 distinguish 95 % from the 90 % of a wrong tail.
"""

from dataclasses import replace
from functools import cache
from math import log

import numpy as np
import pytest

from inferometer_api.results.result import Distribution
from inferometer_loadgen.search.repeats import repeat_figure
from support.drills import A_STEP, Drill
from support.simulated import Answer

SEED = 20_261_121
RUNS = 200
COVERED = (0.92, 0.98)
QUERIES = 1200
"""So many that the exact coverage of the percentiles below is 95.3 to 95.9 %."""
JUDGED = (50.0, 90.0, 95.0, 97.0, 99.0)
MEAN_NS = 5_000_000
REPEATS = 5


@cache
def distribution(run: int) -> Distribution:
    """Return the latencies of one client's run against exponential delays."""
    delays = np.random.default_rng([SEED, run]).exponential(MEAN_NS, QUERIES)
    whole = np.maximum(1, np.rint(delays)).astype(int).tolist()
    drill = Drill(
        lambda index, _: Answer(whole[index]),
        step=replace(A_STEP, min_queries=QUERIES, min_duration_ns=1),
        milli_qps=None,
    )
    found = drill.run().latency.distribution()
    assert found is not None
    assert found.count == QUERIES
    return found


@pytest.mark.parametrize("percentile", JUDGED)
def test_bounds_of_a_percentile_cover_it(percentile: float) -> None:
    """Over 200 runs the true percentile lies within its bounds in 92 to 98 of 100."""
    truth = -MEAN_NS * log(1 - percentile / 100)
    bounds = [
        next(each for each in distribution(run).percentiles if each.percentile == percentile)
        for run in range(RUNS)
    ]
    covered = np.mean(
        [(each.low_nanoseconds or 0) <= truth <= (each.high_nanoseconds or 0) for each in bounds]
    )
    assert COVERED[0] <= covered <= COVERED[1], f"seed {SEED}: {covered:.1%} of {RUNS} runs"


def test_intervals_over_repeats_cover_the_mean() -> None:
    """Over 200 times 5 repeats the mean lies within its interval in 92 to 98 of 100."""
    random = np.random.default_rng(SEED)
    values = random.normal(100, 5, (RUNS, REPEATS))
    figures = [repeat_figure("mean", "", each.tolist()) for each in values]
    covered = np.mean([(each.low or 0) <= 100 <= (each.high or 0) for each in figures])
    assert COVERED[0] <= covered <= COVERED[1], f"seed {SEED}: {covered:.1%} of {RUNS}"
