"""Histograms equal those of the hdrhistogram package, and percentiles have correct bounds."""

import math

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_loadgen.record.histogram import (
    BUCKETS,
    EMPTY,
    HOUR_NS,
    PERCENTILES,
    Histogram,
    Sparse,
    bucket_of,
    highest_of,
)
from inferometer_loadgen.record.order_statistics import confidence_ranks, min_count, rank_of

TIMES = st.one_of(
    st.integers(0, HOUR_NS),
    st.integers(0, 10_000),
    st.integers(0, 41).map(lambda bits: 1 << bits),
    st.integers(1, 41).map(lambda bits: (1 << bits) - 1),
)


def histogram_of(times: list[int]) -> Histogram:
    """Return a histogram of these times."""
    histogram = Histogram()
    histogram.add(np.array(times, dtype=np.int64))
    return histogram


@settings(max_examples=50)
@given(st.lists(TIMES, max_size=60))
def test_counts_are_the_packages(times: list[int]) -> None:
    """A block of times is counted exactly as `record_value` counts each of them."""
    reference = HdrHistogram(1, HOUR_NS, 3)
    for time in times:
        assert reference.record_value(time)
    histogram = histogram_of(times)
    assert bytes(histogram._hdr.counts) == bytes(reference.counts)
    assert histogram.count == reference.total_count
    decoded = HdrHistogram.decode(histogram.encode())
    assert decoded.total_count == len(times)
    for percentile in PERCENTILES if times else ():
        assert decoded.get_value_at_percentile(percentile) == reference.get_value_at_percentile(
            percentile
        )


@given(st.integers(0, BUCKETS - 1))
def test_a_bucket_holds_its_highest_value(bucket: int) -> None:
    """The highest value of a counter is counted there, and the next one is not."""
    highest = highest_of(bucket)
    assert bucket_of(np.array([highest, highest + 1], dtype=np.int64)).tolist() == [
        bucket,
        bucket + 1,
    ]


@given(st.lists(TIMES, min_size=1, max_size=200))
def test_percentiles_are_within_a_thousandth(times: list[int]) -> None:
    """A percentile is the nearest rank's time, at most 0.1 % above it."""
    found = histogram_of(times).distribution()
    assert found is not None
    ordered = sorted(times)
    assert found.min_nanoseconds == ordered[0]
    assert found.max_nanoseconds == ordered[-1]
    assert found.mean_nanoseconds == round(sum(times) / len(times))
    for value in found.percentiles:
        exact = ordered[rank_of(value.percentile, len(times)) - 1]
        assert exact <= value.nanoseconds <= max(exact, math.ceil(exact * 1.001))


@settings(max_examples=30)
@given(st.lists(TIMES, max_size=50), st.lists(TIMES, max_size=50))
def test_merging_loses_nothing(left: list[int], right: list[int]) -> None:
    """Two histograms merged are the histogram of all their times."""
    merged = histogram_of(left)
    merged.merge(histogram_of(right))
    whole = histogram_of(left + right)
    assert merged.encode() == whole.encode()
    assert merged.distribution() == whole.distribution()
    joined = histogram_of(left).sparse().combine(histogram_of(right).sparse())
    assert joined.buckets.tolist() == whole.sparse().buckets.tolist()
    assert joined.counts.tolist() == whole.sparse().counts.tolist()


def test_an_empty_histogram_has_no_figures() -> None:
    """Without times there is no distribution and no percentile, rather than zeros."""
    assert Histogram().distribution() is None
    assert Histogram().at_percentile(50) is None
    assert EMPTY.at_percentile(50) is None
    assert Sparse(EMPTY.buckets, EMPTY.counts).total == 0


def test_times_beyond_the_range_are_kept_at_its_ends() -> None:
    """Times above an hour count as an hour, negative ones as 0; none is lost."""
    histogram = histogram_of([-5, 2 * HOUR_NS])
    assert histogram.count == 2
    assert (histogram.min_ns, histogram.max_ns) == (0, HOUR_NS)


@pytest.mark.parametrize(
    ("percentile", "count", "rank"),
    [(50, 1, 1), (50, 4, 2), (99, 100, 99), (99, 101, 100), (99.9, 1000, 999), (99.99, 1, 1)],
)
def test_the_rank_of_a_percentile_is_the_nearest(percentile: float, count: int, rank: int) -> None:
    """The rank is the least that covers the percentile, without rounding errors."""
    assert rank_of(percentile, count) == rank


def tails(percentile: float, count: int, rank: int) -> float:
    """Return the probability that fewer than `rank` of `count` are below the percentile."""
    share = percentile / 100
    return math.fsum(
        math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(rank)
    )


@given(st.sampled_from(PERCENTILES), st.integers(1, 900))
def test_bounds_are_the_binomials(percentile: float, count: int) -> None:
    """Each bound leaves at most 2.5 % of the binomial outside, and the next rank would not."""
    ranks = confidence_ranks(percentile, count)
    if ranks.low is None:
        assert tails(percentile, count, 1) > 0.025
    else:
        assert tails(percentile, count, ranks.low) <= 0.025 * (1 + 1e-9)
        assert tails(percentile, count, ranks.low + 1) > 0.025 * (1 - 1e-9)
    if ranks.high is None:
        assert 1 - tails(percentile, count, count) > 0.025 * (1 - 1e-9)
    else:
        assert 1 - tails(percentile, count, ranks.high) <= 0.025 * (1 + 1e-9)
        assert 1 - tails(percentile, count, ranks.high - 1) > 0.025 * (1 - 1e-9)


@pytest.mark.parametrize("percentile", [50.0, 99.0, 99.9])
def test_large_samples_have_the_same_bounds_by_approximation(percentile: float) -> None:
    """At the switch from exact to approximate bounds, both agree within two ranks."""
    share = percentile / 100
    count = round(10_000 / (share * (1 - share)))
    below, above = confidence_ranks(percentile, count - 1), confidence_ranks(percentile, count + 9)
    for exact, near in ((below.low, above.low), (below.high, above.high)):
        assert exact is not None
        assert near is not None
        assert abs(near - exact - 10 * share) <= 2


def test_bounds_have_their_nominal_coverage() -> None:
    """Of 2,000 samples of a known law at least 95 % have the true P90 within their bounds."""
    random = np.random.Generator(np.random.PCG64(3))
    truth = -math.log(0.1) * 1e6
    ranks = confidence_ranks(90, 200)
    assert ranks.low is not None
    assert ranks.high is not None
    samples = np.sort(random.exponential(1e6, (2000, 200)), axis=1)
    covered = (samples[:, ranks.low - 1] <= truth) & (truth <= samples[:, ranks.high - 1])
    assert covered.mean() > 0.945


@pytest.mark.parametrize("percentile", [50.0, 90.0, 95.0, 97.0, 99.0, 99.9, 99.99])
def test_the_min_count_is_the_first_that_bounds_a_percentile_on_both_sides(
    percentile: float,
) -> None:
    """With the minimum count both confidence bounds exist, and with one fewer they do not."""
    enough = confidence_ranks(percentile, min_count(percentile))
    too_few = confidence_ranks(percentile, min_count(percentile) - 1)
    assert None not in (enough.low, enough.high)
    assert None in (too_few.low, too_few.high)
