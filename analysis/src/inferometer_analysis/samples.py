"""Trimmed means of repeated measurements, and confidence intervals of their medians."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

_TRIMMED_SHARE = 0.2
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the bounds of its 95 % confidence interval; None with too few values."""

    value: float
    low: float | None = None
    high: float | None = None


def trimmed_mean(values: Sequence[float], share: float = _TRIMMED_SHARE) -> float:
    """Return the mean without the smallest and the largest floor(`share` * n) values.

    XSP and DLBricks merge runs with this mean and a share of 0.2. No value is dropped if
    floor(share * n) is 0. Raises ValueError without values.
    """
    if not values:
        raise ValueError("there are no values to merge")
    dropped = math.floor(share * len(values))
    return fmean(sorted(values)[dropped : len(values) - dropped])


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with its confidence interval, whose bounds are two of the values.

    By the binomial distribution the interval covers the median with at least 95 %, whatever the
    distribution of the values. Fewer than 6 values have no bounds. Raises ValueError without
    values.
    """
    if not values:
        raise ValueError("there are no values")
    ordered = sorted(values)
    rank = _lower_rank(len(ordered))
    if rank is None:
        return Interval(median(ordered))
    return Interval(median(ordered), ordered[rank], ordered[-1 - rank])


def _lower_rank(count: int) -> int | None:
    """Return the index of the lower bound in the ordered values; None if there are too few."""
    tail, found = 0.0, None
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if tail > (1 - _CONFIDENCE) / 2:
            break
        found = rank
    return found


def difference(after: Sequence[float], before: Sequence[float]) -> Interval:
    """Return the median of the paired differences `after` - `before`, with its interval.

    Values of one index are of one round, so that slow changes of the machine affect both alike.
    Raises ValueError if the lengths differ, or without values.
    """
    return median_interval([second - first for second, first in zip(after, before, strict=True)])
