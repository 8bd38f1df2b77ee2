"""Latencies of several results as one: their histograms are added, percentiles never averaged."""

from collections.abc import Iterable, Sequence

import numpy as np

from inferometer_results.report.histogram import FilledBuckets, decode


def merge(histograms: Iterable[FilledBuckets]) -> FilledBuckets | None:
    """Return the sum of histograms: the counts of equal buckets are added; None without any.

    The buckets of one histogram never overlap those of another in part: all have bounds of the
    same grid (HdrHistogram with 3 significant digits and one unit).
    """
    found = list(histograms)
    if not found:
        return None
    low = np.concatenate([each.low for each in found])
    high = np.concatenate([each.high for each in found])
    counts = np.concatenate([each.counts for each in found])
    starts, first, where = np.unique(low, return_index=True, return_inverse=True)
    return FilledBuckets(starts, high[first], np.bincount(where, weights=counts).astype(np.float64))


def merged_percentiles(
    encoded: Iterable[str], percentiles: Sequence[float]
) -> tuple[int, list[float]] | None:
    """Return how many queries several encoded histograms hold, and percentiles (ns) over them all.

    None if one of them is empty or damaged: then the sum would leave queries out.
    """
    found = [decode(each) for each in encoded]
    readable = [each for each in found if each is not None]
    whole = merge(readable)
    if whole is None or len(readable) < len(found):
        return None
    shares = np.array(percentiles) / 100
    return whole.total, [float(each) for each in whole.at_shares(shares)]
