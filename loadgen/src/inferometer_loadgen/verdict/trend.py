"""Trend of figures over time: whether they rise or fall, by how much, beyond chance.

Kendall's test for a trend (Mann, Econometrica 13, 1945) over ten consecutive parts, and Sen's
slope (J. Am. Stat. Assoc. 63, 1968). Neither assumes a distribution of the figures. The parts last
several seconds each: with a long queue neighbouring seconds are similar, and the test would take
that for a trend.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

PARTS = 10
_CERTAIN = 37
"""Rising minus falling pairs, of 45: chance reaches this in 1 of 2,800 runs (exact, two-sided)."""


@dataclass(frozen=True, slots=True)
class SignificantTrend:
    """A significant rise or fall."""

    change: float
    """From the first part to the last, as a share of the median; negative if the figures fall."""


def trend(parts: Sequence[float]) -> SignificantTrend | None:
    """Return the trend of ten figures in order; None if it is not significant."""
    pairs = list(combinations(range(len(parts)), 2))
    rising = sum((parts[b] > parts[a]) - (parts[b] < parts[a]) for a, b in pairs)
    middle = median(parts)
    if abs(rising) < _CERTAIN or not middle:
        return None
    slope = median((parts[b] - parts[a]) / (b - a) for a, b in pairs)
    return SignificantTrend(slope * (len(parts) - 1) / middle)
