"""Histograms of times, from which every percentile can be read, in constant memory.

They are those of the hdrhistogram package, with 3 significant digits from 1 ns to 1 h. Counts are
added in blocks with numpy, which computes the bucket of a value as the package does.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types
from numpy.typing import NDArray

from inferometer_api.results.result import Distribution, PercentileValue
from inferometer_loadgen.record.order_statistics import confidence_ranks, rank_of

HOUR_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3
PERCENTILES = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9, 99.99)

_SUB_BUCKET_BITS = 11
_HALF_BITS = _SUB_BUCKET_BITS - 1
_HALF = 1 << _HALF_BITS
_BELOW_ONE_STEP = 2 * _HALF - 1
BUCKETS = 33_792
"""Counters of a histogram from 1 ns to 1 h with 3 significant digits."""

Integers = NDArray[np.int64]


def bucket_of(nanoseconds: Integers) -> Integers:
    """Return the index of the counter for each value from 0 to 1 h, in nanoseconds.

    It equals `HdrHistogram._counts_index_for`: the exponent by which a value exceeds 2,047, and its
    leading 11 bits.
    """
    # frexp's exponent is the bit length; it is exact, since an hour is far below 2**53.
    _, lengths = np.frexp((nanoseconds | _BELOW_ONE_STEP).astype(np.float64))
    exponents = lengths.astype(np.int64) - _SUB_BUCKET_BITS
    indices: Integers = (exponents << _HALF_BITS) + (nanoseconds >> exponents)
    return indices


def highest_of(bucket: int) -> int:
    """Return the highest value of a counter, in nanoseconds."""
    exponent = max(0, (bucket >> _HALF_BITS) - 1)
    leading = bucket - (exponent << _HALF_BITS)
    return ((leading + 1) << exponent) - 1


def counters_from(bounds_seconds: Sequence[float]) -> Integers:
    """Return the first counter of each bucket of a classic histogram: one more than its bounds.

    All values of a counter are taken as its highest, as in a percentile. Those of the last bucket
    are above every bound.
    """
    bounds = np.rint(np.asarray(bounds_seconds) * 1e9).astype(np.int64)
    counters = bucket_of(bounds)
    reached = np.array([highest_of(int(counter)) for counter in counters]) == bounds
    return np.concatenate(([0], counters + reached))


@dataclass(frozen=True, slots=True)
class Sparse:
    """The counters of a histogram that are not 0: ascending indices, and counts."""

    buckets: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]

    def compact(self) -> "Sparse":
        """Return the same counters in less than half the memory, for counts below 2**32."""
        return Sparse(self.buckets.astype(np.uint16), self.counts.astype(np.uint32))

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    def combine(self, other: "Sparse") -> "Sparse":
        """Return the sum of both."""
        buckets, inverse = np.unique(
            np.concatenate((self.buckets, other.buckets)), return_inverse=True
        )
        counts = np.zeros(len(buckets), dtype=np.int64)
        np.add.at(counts, inverse, np.concatenate((self.counts, other.counts)))
        return Sparse(buckets, counts)

    def at_percentile(self, percentile: float) -> int | None:
        """Return a percentile (in percent) as the highest value of its counter; None if empty."""
        if not len(self.counts):
            return None
        cumulated = self.counts.cumsum()
        place = int(np.searchsorted(cumulated, rank_of(percentile, int(cumulated[-1]))))
        return highest_of(int(self.buckets[place]))


EMPTY = Sparse(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class Histogram:
    """A distribution of times in nanoseconds with its exact count, least, greatest and sum.

    A time above 1 h counts as 1 h.
    """

    def __init__(self) -> None:
        self._hdr = HdrHistogram(1, HOUR_NS, SIGNIFICANT_DIGITS)
        self._counts = np.frombuffer(self._hdr.counts, dtype=np.int64)
        self.count = 0
        self.sum_ns = 0
        self.min_ns = sys.maxsize
        self.max_ns = 0

    def add(self, nanoseconds: Integers) -> None:
        """Record a block of times; one below 0 counts as 0."""
        if not len(nanoseconds):
            return
        values = np.clip(nanoseconds, 0, HOUR_NS)
        np.add.at(self._counts, bucket_of(values), 1)
        self._add_totals(len(values), int(values.sum()), int(values.min()), int(values.max()))

    def merge(self, other: "Histogram") -> None:
        """Add another histogram without loss."""
        if other.count:
            self._counts += other._counts  # noqa: SLF001 - one and the same class
            self._add_totals(other.count, other.sum_ns, other.min_ns, other.max_ns)

    def gained_since(self, known: Integers) -> Sparse:
        """Return the counts added since `known`, an array of `BUCKETS`, and update that array."""
        grown = self._counts - known
        buckets = np.flatnonzero(grown).astype(np.int64)
        known[buckets] = self._counts[buckets]
        return Sparse(buckets, grown[buckets])

    def add_counted(self, gained: Sparse, sum_ns: int, min_ns: int, max_ns: int) -> None:
        """Add counters of another histogram with their exact sum, least and greatest value."""
        self._counts[gained.buckets] += gained.counts
        self._add_totals(gained.total, sum_ns, min_ns, max_ns)

    def _add_totals(self, count: int, sum_ns: int, min_ns: int, max_ns: int) -> None:
        self.count += count
        self.sum_ns += sum_ns
        self.min_ns = min(self.min_ns, min_ns)
        self.max_ns = max(self.max_ns, max_ns)

    def sparse(self) -> Sparse:
        """Return the counters that are not 0."""
        buckets = np.flatnonzero(self._counts).astype(np.int64)
        return Sparse(buckets, self._counts[buckets])

    def counts_from(self, counters: Integers) -> list[int]:
        """Return the number of values in each bucket; `counters` comes from `counters_from`."""
        counts: list[int] = np.add.reduceat(self._counts, counters).tolist()
        return counts

    def at_percentile(self, percentile: float) -> int | None:
        """Return a percentile (in percent) by nearest rank, in nanoseconds; None if empty."""
        value = self.sparse().at_percentile(percentile)
        return None if value is None else min(value, self.max_ns)

    def encode(self) -> str:
        """Return the histogram in HdrHistogram's V2 encoding, compressed, base64."""
        self._hdr.total_count = self.count
        self._hdr.min_value = self.min_ns
        self._hdr.max_value = self.max_ns
        encoded: bytes = self._hdr.encode()
        return encoded.decode("ascii")

    def distribution(self) -> Distribution | None:
        """Return it for the result document; None if empty."""
        if not self.count:
            return None
        return Distribution(
            count=self.count,
            min_nanoseconds=self.min_ns,
            mean_nanoseconds=round(self.sum_ns / self.count),
            max_nanoseconds=self.max_ns,
            percentiles=list(self._percentiles()),
            histogram=self.encode(),
        )

    def _percentiles(self) -> Iterable[PercentileValue]:
        sparse = self.sparse()
        cumulated = sparse.counts.cumsum()

        def at_rank(rank: int | None) -> int | None:
            if rank is None:
                return None
            bucket = int(sparse.buckets[np.searchsorted(cumulated, rank)])
            return min(highest_of(bucket), self.max_ns)

        for percentile in PERCENTILES:
            ranks = confidence_ranks(percentile, self.count)
            value = at_rank(rank_of(percentile, self.count))
            yield PercentileValue(
                percentile=percentile,
                nanoseconds=value or 0,
                low_nanoseconds=at_rank(ranks.low),
                high_nanoseconds=at_rank(ranks.high),
            )
