"""Figures of repeated measurements: trimmed means and intervals of medians."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

_TRIMMED_SHARE = 0.2
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the bounds of its 95 % confidence interval; none if there are too few."""

    value: float
    low: float | None = None
    high: float | None = None


def trimmed_mean(values: Sequence[float], share: float = _TRIMMED_SHARE) -> float:
    """Return the mean without the smallest and the largest floor(`share` * n) values.

    XSP and DLBricks merge runs so, with a share of 0.2. Nothing is dropped if floor(share * n) is
    0. Raises ValueError without values.
    """
    if not values:
        raise ValueError("there are no values to merge")
    dropped = math.floor(share * len(values))
    return fmean(sorted(values)[dropped : len(values) - dropped])


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with the bounds of order statistics, at least 95 % by the binomial tail.

    Fewer than 6 values have no bounds. Raises ValueError without values.
    """
    if not values:
        raise ValueError("there are no values")
    ordered = sorted(values)
    rank = _lower_rank(len(ordered))
    if rank is None:
        return Interval(median(ordered))
    return Interval(median(ordered), ordered[rank], ordered[-1 - rank])


def _lower_rank(count: int) -> int | None:
    """Return the largest rank, from 0, that is below the median with the confidence wanted."""
    tail, found = 0.0, None
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if tail > (1 - _CONFIDENCE) / 2:
            break
        found = rank
    return found


def difference(after: Sequence[float], before: Sequence[float]) -> Interval:
    """Return the median of the paired differences `after` - `before`, with its interval.

    Pairs are runs of one round, so that what changes slowly on the machine affects both alike.
    """
    return median_interval([second - first for second, first in zip(after, before, strict=True)])
