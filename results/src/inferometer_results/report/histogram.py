"""Decoder of HdrHistograms, with counts and percentiles."""

from dataclasses import dataclass

import numpy as np
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types

from inferometer_results.report.axis import Floats


@dataclass(frozen=True, slots=True)
class FilledBuckets:
    """The times that a histogram holds, as its buckets that hold any, in ascending order."""

    low: Floats
    """Lower bound of each bucket in nanoseconds, shape [buckets]."""
    high: Floats
    """Upper bound (exclusive) of each bucket in nanoseconds, shape [buckets]."""
    counts: Floats
    """Times in each bucket, shape [buckets]."""

    @property
    def total(self) -> int:
        """Return how many times there are."""
        return int(self.counts.sum())

    def share_between(self, edges: Floats) -> Floats:
        """Return which share of the times lies between each edge (ns) and the next.

        What lies outside counts to the first and the last bin. A bucket's times are taken as
        spread evenly over it, so that bins finer than the histogram's 3 significant digits show
        no comb.
        """
        ends = np.cumsum(self.counts)
        bounds = np.column_stack([self.low, self.high]).ravel()
        below = np.interp(edges, bounds, np.column_stack([ends - self.counts, ends]).ravel())
        below[0], below[-1] = 0.0, ends[-1]
        return np.asarray(np.diff(below) / ends[-1], dtype=np.float64)

    def at_shares(self, shares: Floats) -> Floats:
        """Return the time (ns) at each share of the queries: the smallest that so many keep."""
        ranks = np.clip(np.ceil(shares * self.total - 1e-9), 1, self.total)
        return np.asarray(self.high[np.searchsorted(np.cumsum(self.counts), ranks)] - 1)


def decode(encoded: str) -> FilledBuckets | None:
    """Return what a histogram in base64 V2 encoding holds, None if it is empty or damaged."""
    try:
        histogram = HdrHistogram.decode(encoded)
        counts = np.frombuffer(histogram.counts, dtype=np.uint64)
    except Exception:  # noqa: BLE001 - a damaged text raises half a dozen unrelated kinds
        return None
    held = np.flatnonzero(counts)
    if not len(held):
        return None
    bucket = (held >> histogram.sub_bucket_half_count_magnitude) - 1
    within = held & (histogram.sub_bucket_half_count - 1)
    sub_bucket = np.where(bucket < 0, within, within + histogram.sub_bucket_half_count)
    width = np.exp2(np.maximum(bucket, 0) + histogram.unit_magnitude)
    low = sub_bucket * width
    return FilledBuckets(low, low + width, counts[held].astype(np.float64))
