"""How far from its mean may a figure lie by chance, where its spread is estimated too?"""

import math
from functools import lru_cache

_HALVINGS = 60
_BEYOND_ALL = 1000.0


@lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t, for a probability from 0.5 to 0.9995.

    `freedom` is the degrees of freedom, at least 1. By halving over the distribution function,
    a finite sum for whole degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, _BEYOND_ALL
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if 0.5 + _within(middle, freedom) / 2 < probability:
            low = middle
        else:
            high = middle
    return high


def _within(distance: float, freedom: int) -> float:
    """Return the probability that t lies within so much of 0."""
    angle = math.atan(distance / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    term = cosine if is_odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if is_odd else 2, freedom, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total
