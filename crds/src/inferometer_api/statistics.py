"""Student's t distribution, and the means of a few values with their intervals."""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev

_HALVINGS = 70
_LARGEST_QUANTILE = 1e6
_WIDEST = math.log(1e6)
"""Bounds a million times away from their figure are useless."""


def geometric_mean(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the geometric mean of independent values with its 95 % bounds.

    The bounds are Student's t of the logarithms, because variants are compared by their ratio and
    no figure is negative. They are None if there is one value, or if they are of no use. If a value
    is 0, the mean is 0.
    """
    if min(values) <= 0:
        return 0.0, None, None
    logs = [math.log(value) for value in values]
    middle = fmean(logs)
    if len(logs) < 2:
        return math.exp(middle), None, None
    half = half_width(stdev(logs), len(logs))
    if half > _WIDEST:
        return math.exp(middle), None, None
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def half_width(deviation: float, count: int) -> float:
    """Return half of the 95 % interval of the mean of `count` values with a standard deviation."""
    return student_quantile(0.975, count - 1) * deviation / math.sqrt(count)


@lru_cache(maxsize=1024)
def student_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution.

    `probability` is from 0.5 to 0.9999995 (to 1 - 1e-12 from 2 degrees of freedom on),
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
