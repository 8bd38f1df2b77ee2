"""Early stopping of MLPerf LoadGen: queries required to know that a percentile meets a bound.

It follows early_stopping.cc, with its confidence of 0.99 and its tolerance of 0. Among n queries
the number beyond the bound is binomial. The percentile p meets the bound if t or fewer of n beyond
it would have a probability below 1 % were exactly 1 - p of all queries beyond it:
I_p(n - t, t + 1) < 0.01, the regularised incomplete beta function.
"""

from functools import lru_cache
from math import ceil, exp, isqrt, lgamma, log, log1p

import numpy as np

from inferometer_api.spec.mlperf import CONFIDENCE

_SIGNIFICANCE = 1 - CONFIDENCE


def tail_probability(passing: int, overshoots: int, percentile: float) -> float:
    """Return the probability of so few overshoots if the percentile were exactly at the bound.

    `passing` (at least 1) queries meet the bound; `percentile` is in percent. The formula is
    I_x(a, b) = x^a (1 - x)^(b - 1) / (a B(a, b)) * 2F1(1, 1 - b; 1 + a; x / (x - 1))
    (https://dlmf.nist.gov/8.17.E8 with 15.8.E1). Its series is finite, since b is an integer.
    """
    share = percentile / 100
    first = (
        passing * log(share)
        + overshoots * log1p(-share)
        + lgamma(passing + overshoots + 1)
        - lgamma(passing + 1)
        - lgamma(overshoots + 1)
    )
    # Terms fall like a normal distribution: beyond 12 standard deviations they are negligible.
    count = min(overshoots, 12 * isqrt(overshoots) + 50)
    index = np.arange(count, dtype=np.float64)
    ratios = (overshoots - index) / (passing + 1 + index) * (share / (1 - share))
    return exp(first) * (1.0 + float(ratios.cumprod().sum()))


def meets_bound(queries: int, overshoots: int, percentile: float) -> bool:
    """Return whether these queries and overshoots show that the percentile meets the bound."""
    passing = queries - overshoots
    if passing <= overshoots * percentile / (100 - percentile):
        return False
    return tail_probability(passing, overshoots, percentile) < _SIGNIFICANCE


@lru_cache(maxsize=4096)
def min_passing_queries(overshoots: int, percentile: float) -> int:
    """Return how many queries must meet the bound in addition to so many overshoots.

    It equals LoadGen's MinPassingQueriesFinder for the percentile (in percent, between 0 and 100),
    a confidence of 0.99 and a tolerance of 0.
    """
    share = percentile / 100
    low = int(overshoots * share / (1 - share))  # too few: no better than the percentile
    high = low + ceil(log(_SIGNIFICANCE) / log(share)) + 1
    while not meets_bound(high + overshoots, overshoots, percentile):
        low, high = high, low + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        if meets_bound(middle + overshoots, overshoots, percentile):
            high = middle
        else:
            low = middle
    return high


def required_queries(overshoots: int, percentile: float) -> int:
    """Return the total number of queries required with so many overshoots among them."""
    return overshoots + min_passing_queries(overshoots, percentile)


def max_overshoots(queries: int, percentile: float) -> int | None:
    """Return how many of the queries may exceed the bound; None if there are too few queries."""
    if not meets_bound(queries, 0, percentile):
        return None
    low, high = 0, queries
    while high - low > 1:
        middle = (low + high) // 2
        if meets_bound(queries, middle, percentile):
            low = middle
        else:
            high = middle
    return low
