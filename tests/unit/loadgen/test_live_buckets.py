"""Classic histograms of live metrics agree with the HdrHistograms."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.metrics.definitions import LATENCY_BUCKETS, LOAD_LAG
from inferometer_loadgen.record.histogram import Histogram, Integers, counters_from

LEAST_NS, MOST_NS = 50_000, 60_000_000_000
COUNTERS = counters_from(LATENCY_BUCKETS)


def histogram_of(nanoseconds: Sequence[int] | Integers) -> Histogram:
    """Record some latencies."""
    found = Histogram()
    found.add(np.asarray(nanoseconds, dtype=np.int64))
    return found


def histogram_quantile(quantile: float, counts: Sequence[int]) -> float:
    """Return what PromQL's function of that name does, in seconds."""
    cumulated = list(accumulate(counts))
    rank = quantile * cumulated[-1]
    at = bisect_left(cumulated, rank)
    if at == len(LATENCY_BUCKETS):
        return LATENCY_BUCKETS[-1]
    begin = LATENCY_BUCKETS[at - 1] if at else 0.0
    before = cumulated[at - 1] if at else 0
    return begin + (LATENCY_BUCKETS[at] - begin) * (rank - before) / counts[at]


def bucket_at(seconds: float) -> int:
    """Return the classic bucket of a value, allowing for the last bit of a bound."""
    return bisect_left(LATENCY_BUCKETS, seconds * (1 - 1e-12))


@st.composite
def distributions(draw: st.DrawFn) -> Integers:
    """Draw 1,000 latencies or more from 50 us to 60 s: of one law or of two, of any width."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1000, 3000))
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        middle = draw(st.floats(np.log(LEAST_NS), np.log(MOST_NS)))
        width = draw(st.sampled_from([0.0, 0.001, 0.05, 0.5, 2.0]))
        parts.append(np.exp(random.normal(middle, width, count)))
    chosen = random.integers(0, len(parts), count)
    values = np.choose(chosen, parts)
    latencies: Integers = np.clip(values, LEAST_NS, MOST_NS).astype(np.int64)
    return latencies


@given(distributions(), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_quantiles_are_within_one_bucket(latencies: Integers, quantile: float) -> None:
    """A quantile that Prometheus computes is at most one bucket from the HdrHistogram's."""
    recorded = histogram_of(latencies)
    exact_ns = recorded.at_percentile(quantile * 100)
    assert exact_ns is not None
    estimate = histogram_quantile(quantile, recorded.counts_from(COUNTERS))
    assert abs(bucket_at(estimate) - bucket_at(exact_ns / 1e9)) <= 1


@given(st.lists(st.integers(0, 3_600_000_000_000), min_size=1, max_size=50))
def test_every_latency_is_in_its_bucket(latencies: list[int]) -> None:
    """Each counts once, in the bucket of the highest value that the HdrHistogram has for it."""
    expected = [0] * (len(LATENCY_BUCKETS) + 1)
    for latency in latencies:
        stands_for = histogram_of([latency]).sparse().at_percentile(100.0)
        assert stands_for is not None
        expected[bisect_left(LATENCY_BUCKETS, stands_for / 1e9)] += 1
    assert histogram_of(latencies).counts_from(COUNTERS) == expected


@pytest.mark.parametrize(
    ("nanoseconds", "bucket"),
    [
        (0, 0),
        (1, 0),
        (LEAST_NS - 100, 0),
        (MOST_NS - 100_000_000, len(LATENCY_BUCKETS) - 1),
        (MOST_NS + 100_000_000, len(LATENCY_BUCKETS)),
        (3_600_000_000_000, len(LATENCY_BUCKETS)),
    ],
)
def test_what_is_out_of_range_is_in_the_outer_buckets(nanoseconds: int, bucket: int) -> None:
    """Below 50 us is the first bucket, above 60 s the last, which has no bound."""
    assert histogram_of([nanoseconds]).counts_from(COUNTERS)[bucket] == 1


def test_the_first_counters_of_buckets_rise() -> None:
    """No bucket is so narrow that it has no counter of its own, also of dispatch lags."""
    for buckets in (LATENCY_BUCKETS, LOAD_LAG.buckets):
        assert (np.diff(counters_from(buckets)) > 0).all()


def test_an_empty_histogram_has_empty_buckets() -> None:
    """Before the first query every bucket is 0."""
    assert Histogram().counts_from(COUNTERS) == [0] * (len(LATENCY_BUCKETS) + 1)
