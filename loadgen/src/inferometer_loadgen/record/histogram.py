"""How are times kept so that every percentile can be told and nothing grows with their number?

A histogram is the hdrhistogram package's, with 3 significant digits from 1 ns to 1 h. Its counts
are fed in blocks by numpy: the bucket of a value is found as the package finds it.
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
    """Return the index of the counter for each value of 0 to 1 h.

    That is `HdrHistogram._counts_index_for`: the exponent by which a value exceeds 2,047, and the
    leading 11 bits that are left.
    """
    # frexp's exponent is the bit length; it is exact, since an hour is far below 2**53.
    _, lengths = np.frexp((nanoseconds | _BELOW_ONE_STEP).astype(np.float64))
    exponents = lengths.astype(np.int64) - _SUB_BUCKET_BITS
    indices: Integers = (exponents << _HALF_BITS) + (nanoseconds >> exponents)
    return indices


def highest_of(bucket: int) -> int:
    """Return the highest value that a counter stands for, in nanoseconds."""
    exponent = max(0, (bucket >> _HALF_BITS) - 1)
    leading = bucket - (exponent << _HALF_BITS)
    return ((leading + 1) << exponent) - 1


def counters_from(bounds_seconds: Sequence[float]) -> Integers:
    """Return the first counter of each bucket of a classic histogram: one more than its bounds.

    A counter's values are taken for the highest of them, as in a percentile. The last bucket's
    are above every bound.
    """
    bounds = np.rint(np.asarray(bounds_seconds) * 1e9).astype(np.int64)
    counters = bucket_of(bounds)
    reached = np.array([highest_of(int(counter)) for counter in counters]) == bounds
    return np.concatenate(([0], counters + reached))


@dataclass(frozen=True, slots=True)
class Sparse:
    """The counters of a histogram that are not 0: their indices, rising, and their counts."""

    buckets: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]

    def compact(self) -> "Sparse":
        """Return the same in less than half the memory, for counts below 2**32."""
        return Sparse(self.buckets.astype(np.uint16), self.counts.astype(np.uint32))

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    def combine(self, other: "Sparse") -> "Sparse":
        """Return both together."""
        buckets, inverse = np.unique(
            np.concatenate((self.buckets, other.buckets)), return_inverse=True
        )
        counts = np.zeros(len(buckets), dtype=np.int64)
        np.add.at(counts, inverse, np.concatenate((self.counts, other.counts)))
        return Sparse(buckets, counts)

    def at_percentile(self, percentile: float) -> int | None:
        """Return the highest value equivalent to a percentile's; None where nothing is counted."""
        if not len(self.counts):
            return None
        cumulated = self.counts.cumsum()
        place = int(np.searchsorted(cumulated, rank_of(percentile, int(cumulated[-1]))))
        return highest_of(int(self.buckets[place]))


EMPTY = Sparse(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class Histogram:
    """A distribution of times in nanoseconds with its exact count, least, greatest and sum.

    A time beyond 1 h counts as 1 h.
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
        """Add all that another histogram holds, without loss."""
        if other.count:
            self._counts += other._counts  # noqa: SLF001 - one and the same class
            self._add_totals(other.count, other.sum_ns, other.min_ns, other.max_ns)

    def gained_since(self, known: Integers) -> Sparse:
        """Return what was counted beyond `known`, all `BUCKETS` of them, and bring that up."""
        grown = self._counts - known
        buckets = np.flatnonzero(grown).astype(np.int64)
        known[buckets] = self._counts[buckets]
        return Sparse(buckets, grown[buckets])

    def add_counted(self, gained: Sparse, sum_ns: int, min_ns: int, max_ns: int) -> None:
        """Add counters of another histogram with the exact sum, least and greatest of them."""
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
        """Return how many values each of the buckets has that `counters_from` told."""
        counts: list[int] = np.add.reduceat(self._counts, counters).tolist()
        return counts

    def at_percentile(self, percentile: float) -> int | None:
        """Return a percentile (in percent) by its nearest rank; None where nothing is counted."""
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
        """Return it as the result document has it; None where nothing is counted."""
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
