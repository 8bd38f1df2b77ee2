"""Trimmed means of repeated measurements, and confidence intervals of their medians."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from inferometer_api.statistics import half_width

_TRIMMED_SHARE = 0.2
_CONFIDENCE = 0.95
_FEWEST_FOR_NEXT = 3
_OF_SPREAD = 1.96 / 1.349
"""Half of the 95 % interval of a normal distribution, by the distance of its quartiles."""


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


def next_interval(values: Sequence[float]) -> Interval:
    """Return the mean, and the interval in which one more such value lies with 95 %.

    It is the prediction interval of Student's t, mean ± t s sqrt(1 + 1/n), of values that are
    distributed normally with the standard deviation s. Fewer than 3 values have no bounds. Raises
    ValueError without values.
    """
    if not values:
        raise ValueError("there are no values")
    mean, count = fmean(values), len(values)
    if count < _FEWEST_FOR_NEXT:
        return Interval(mean)
    half = half_width(stdev(values), count) * math.sqrt(count + 1)
    return Interval(mean, mean - half, mean + half)


def _lower_rank(count: int) -> int | None:
    """Return the index of the lower bound in the ordered values; None if there are too few."""
    tail, found = 0.0, None
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if tail > (1 - _CONFIDENCE) / 2:
            break
        found = rank
    return found


def spread_interval(value: float, spread: float | None) -> Interval:
    """Return the interval of a value that was measured once among many of a known spread.

    `spread` is the distance of the quartiles of single rounds, q. The interval is the value
    ± 1.96 / 1.349 q, that of a single round: a median of rounds varies less within one measurement,
    and more from one to the next. It is not below 0. Without a spread there are no bounds.
    """
    if spread is None:
        return Interval(value)
    half = _OF_SPREAD * spread
    return Interval(value, max(value - half, 0.0), value + half)


def total(parts: Iterable[Interval]) -> Interval:
    """Return the sum of some figures: their half-widths add up.

    This covers the sum with 95 % whatever the errors of the parts have in common, since the
    standard deviation of a sum is at most the sum of the standard deviations. Without bounds of a
    part the sum has none.
    """
    every = list(parts)
    lows = [each.low for each in every if each.low is not None]
    highs = [each.high for each in every if each.high is not None]
    value = sum(each.value for each in every)
    if len(lows) < len(every) or len(highs) < len(every):
        return Interval(value)
    return Interval(value, sum(lows), sum(highs))


def minus(one: Interval, other: Interval) -> Interval:
    """Return `one` - `other`; as in `total` the half-widths add up."""
    value = one.value - other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Interval(value)
    return Interval(value, one.low - other.high, one.high - other.low)


def share(part: Interval, whole: Interval) -> Interval:
    """Return `part` / `whole`, with one of them at its low and the other at its high end.

    As in `total` this covers the share with 95 % or more. Without bounds of one of them there are
    none. Raises ZeroDivisionError if the whole, or its low end, is 0.
    """
    value = part.value / whole.value
    if part.low is None or part.high is None or whole.low is None or whole.high is None:
        return Interval(value)
    return Interval(value, part.low / whole.high, part.high / whole.low)


def rest(part: Interval) -> Interval:
    """Return what a share leaves of 1."""
    if part.low is None or part.high is None:
        return Interval(1 - part.value)
    return Interval(1 - part.value, 1 - part.high, 1 - part.low)


def difference(after: Sequence[float], before: Sequence[float]) -> Interval:
    """Return the median of the paired differences `after` - `before`, with its interval.

    Values of one index are of one round, so that slow changes of the machine affect both alike.
    Raises ValueError if the lengths differ, or without values.
    """
    return median_interval([second - first for second, first in zip(after, before, strict=True)])
