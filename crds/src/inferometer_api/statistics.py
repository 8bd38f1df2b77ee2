"""Quantiles of Student's t distribution, for confidence intervals with an estimated spread."""

import math
from functools import lru_cache

_HALVINGS = 60
_LARGEST_QUANTILE = 1000.0


@lru_cache(maxsize=1024)
def student_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution.

    `probability` is from 0.5 to 0.9995 (to 0.999999 from 2 degrees of freedom on),
    `degrees_of_freedom` at least 1. The quantile is found by bisection of the distribution
    function, a finite sum for whole degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, _LARGEST_QUANTILE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if 0.5 + _probability_within(middle, degrees_of_freedom) / 2 < probability:
            low = middle
        else:
            high = middle
    return high


def _probability_within(distance: float, degrees_of_freedom: int) -> float:
    """Return the probability that t lies between -distance and distance."""
    angle = math.atan(distance / math.sqrt(degrees_of_freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees_of_freedom % 2
    term = cosine if is_odd else 1.0
    total = term if degrees_of_freedom > 1 else 0.0
    for k in range(3 if is_odd else 2, degrees_of_freedom, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total
