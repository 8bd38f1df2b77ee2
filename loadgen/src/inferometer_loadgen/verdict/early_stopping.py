"""How many queries does it take to know that a percentile keeps a bound, some being beyond it?

MLPerf LoadGen's early stopping (early_stopping.cc), with its confidence and its tolerance of 0.
Among n queries the number beyond the bound is binomial. A percentile p is taken to keep the bound
where t or fewer of n beyond it would be less likely than 1 % if just 1 - p of all queries were:
I_p(n - t, t + 1) < 0.01, the regularised incomplete beta function.
"""

from functools import lru_cache
from math import ceil, exp, isqrt, lgamma, log, log1p

import numpy as np

from inferometer_api.spec.mlperf import CONFIDENCE

_ODDS = 1 - CONFIDENCE


def odds(passing: int, overshoots: int, percentile: float) -> float:
    """Return how likely so few overshoots or fewer are if the percentile were just at the bound.

    `passing` (at least 1) queries keep it. By I_x(a, b) = x^a (1 - x)^(b - 1) / (a B(a, b)) *
    2F1(1, 1 - b; 1 + a; x / (x - 1)) (https://dlmf.nist.gov/8.17.E8 with 15.8.E1), whose series
    ends by itself, since b is whole.
    """
    share = percentile / 100
    first = (
        passing * log(share)
        + overshoots * log1p(-share)
        + lgamma(passing + overshoots + 1)
        - lgamma(passing + 1)
        - lgamma(overshoots + 1)
    )
    # Terms fall as those of a normal law do: beyond 12 standard deviations nothing is left.
    count = min(overshoots, 12 * isqrt(overshoots) + 50)
    index = np.arange(count, dtype=np.float64)
    ratios = (overshoots - index) / (passing + 1 + index) * (share / (1 - share))
    return exp(first) * (1.0 + float(ratios.cumprod().sum()))


def keeps(queries: int, overshoots: int, percentile: float) -> bool:
    """Tell whether so many queries with so many overshoots show that the percentile keeps."""
    passing = queries - overshoots
    if passing <= overshoots * percentile / (100 - percentile):
        return False
    return odds(passing, overshoots, percentile) < _ODDS


@lru_cache(maxsize=4096)
def min_passing_queries(overshoots: int, percentile: float) -> int:
    """Return how many queries must keep the bound beside so many overshoots.

    That is what LoadGen's MinPassingQueriesFinder returns for the percentile (in percent, between
    0 and 100), a confidence of 0.99 and a tolerance of 0.
    """
    share = percentile / 100
    low = int(overshoots * share / (1 - share))  # too few: no better than the percentile itself
    high = low + ceil(log(_ODDS) / log(share)) + 1
    while not keeps(high + overshoots, overshoots, percentile):
        low, high = high, low + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        if keeps(middle + overshoots, overshoots, percentile):
            high = middle
        else:
            low = middle
    return high


def required_queries(overshoots: int, percentile: float) -> int:
    """Return how many queries it takes in all, with so many overshoots among them."""
    return overshoots + min_passing_queries(overshoots, percentile)


def most_overshoots(queries: int, percentile: float) -> int | None:
    """Return how many of the queries may be beyond the bound; None where they are too few."""
    if not keeps(queries, 0, percentile):
        return None
    low, high = 0, queries
    while high - low > 1:
        middle = (low + high) // 2
        if keeps(queries, middle, percentile):
            low = middle
        else:
            high = middle
    return low
