"""Compares a recorded distribution with the exact times, which only a virtual clock knows."""

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from inferometer_loadgen.record.histogram import Histogram
from support.agreement import latencies, nearest_rank
from support.oracle_process import Integers

SECOND = 1_000_000_000


def assert_exact(found: Histogram, times: Integers) -> None:
    """Assert that a histogram holds exactly these times, each within its own counter.

    The counters are read by the hdrhistogram package, and percentiles by nearest rank.
    """
    expected = np.sort(times)
    distribution = found.distribution()
    assert distribution is not None
    ours = latencies(distribution)
    assert len(ours.low) == len(expected)
    assert (ours.low <= expected).all()
    assert (expected <= ours.high).all()
    assert distribution.count == len(expected)
    assert distribution.min_nanoseconds == expected[0]
    assert distribution.max_nanoseconds == expected[-1]
    assert abs(distribution.mean_nanoseconds - expected.mean()) <= 1
    for each in distribution.percentiles:
        high = int(ours.high[nearest_rank(each.percentile, len(expected)) - 1])
        assert each.nanoseconds == min(high, expected[-1]), each.percentile


def poisson_schedule(seed: int, rate: float, count: int) -> Integers:
    """Return Poisson arrivals as documented, made anew: exponential gaps of PCG64(seed).

    Each gap is rounded to a nanosecond; the first arrival comes after the first gap.
    """
    gaps = Generator(PCG64(SeedSequence(seed))).standard_exponential(count)
    offsets: Integers = np.rint(gaps * (SECOND * 1000 / round(rate * 1000))).astype(np.int64)
    return offsets.cumsum()


def within(offsets: Integers, seconds: float) -> Integers:
    """Return the arrivals of a window of this length."""
    offsets_within: Integers = offsets[offsets < round(seconds * SECOND)]
    return offsets_within
