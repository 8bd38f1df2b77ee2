"""Ranks of the order statistics that bound a percentile with confidence.

The bounds are distribution-free: the number of n observations below the true p-quantile is
binomial with n and p, whatever the distribution (David and Nagaraja, Order Statistics, 7.1).
"""

import math
from dataclasses import dataclass

import numpy as np

_TAIL = 0.025
_NORMAL_QUANTILE = 1.959963984540054
_EXACT_VARIANCE = 10_000.0
_REACH = 9.0
"""Standard deviations beyond which a binomial's mass cannot change a rank."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks among n sorted observations, from 1; None if n is too small for one."""

    low: int | None
    high: int | None


def rank_of(percentile: float, count: int) -> int:
    """Return the nearest rank of a percentile (in percent) among `count` observations."""
    # In whole thousandths of a percent, so that 99.9 % of 1,000 is 999 and not 1,000.
    return max(1, -(-count * round(percentile * 1000) // 100_000))


def confidence_ranks(percentile: float, count: int) -> Ranks:
    """Return the ranks whose observations bound a percentile with at least 95 % confidence.

    Up to a variance of 10,000 they are exact by the binomial's tails (at most 2.5 % on each side),
    above it by the normal quantile with Cornish and Fisher's correction for skew.
    """
    share = percentile / 100
    variance = count * share * (1 - share)
    if count == 0 or variance <= 0:
        return Ranks(None, None)
    if variance <= _EXACT_VARIANCE:
        low, high = _exact(share, count, math.sqrt(variance))
    else:
        low, high = _approximate(share, count, math.sqrt(variance))
    return Ranks(low if low >= 1 else None, high if high <= count else None)


def min_count(percentile: float) -> int:
    """Return the fewest observations that bound a percentile (in percent) on both sides."""
    # The outermost order statistics bound it once both tails beyond them are small enough.
    rarer = min(percentile, 100 - percentile) / 100
    return math.ceil(math.log(_TAIL) / math.log1p(-rarer))


def _exact(share: float, count: int, deviation: float) -> tuple[int, int]:
    first = max(0, math.floor(count * share - _REACH * deviation) - 20)
    last = min(count, math.ceil(count * share + _REACH * deviation) + 20)
    below = np.arange(first, last + 1, dtype=np.float64)
    at_first = (
        math.lgamma(count + 1)
        - math.lgamma(first + 1)
        - math.lgamma(count - first + 1)
        + first * math.log(share)
        + (count - first) * math.log1p(-share)
    )
    ratios = np.log((count - below[:-1]) / (below[:-1] + 1) * (share / (1 - share)))
    cumulated = np.exp(at_first + np.concatenate(([0.0], ratios.cumsum()))).cumsum()
    # low is the greatest rank l with P(B < l) <= 2.5 %, high the least h with P(B >= h) <= 2.5 %.
    low = first + int(np.searchsorted(cumulated, _TAIL, side="right"))
    high = first + int(np.searchsorted(cumulated, 1 - _TAIL, side="left")) + 1
    return low, high


def _approximate(share: float, count: int, deviation: float) -> tuple[int, int]:
    skew = (1 - 2 * share) * (_NORMAL_QUANTILE**2 - 1) / 6
    centre = count * share + skew
    low = math.floor(centre - _NORMAL_QUANTILE * deviation)
    high = math.ceil(centre + _NORMAL_QUANTILE * deviation) + 1
    return low, high
