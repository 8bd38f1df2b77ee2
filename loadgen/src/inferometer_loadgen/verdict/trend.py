"""Do figures rise or fall over time, by how much, and is that more than chance?

Kendall's test for a trend (Mann, Econometrica 13, 1945) over ten consecutive parts, and Sen's
slope (J. Am. Stat. Assoc. 63, 1968). Neither asks of which law the figures are. Parts of several
seconds each are taken, since neighbouring seconds are alike where a queue is long, which the test
would take for a trend.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

PARTS = 10
_CERTAIN = 37
"""Of 45 pairs, the rising less the falling: so many by chance in 1 of 2,800 (exact, both ways)."""


@dataclass(frozen=True, slots=True)
class Trend:
    """That figures rise or fall."""

    change: float
    """From the first to the last, as a share of the median; below 0 where they fall."""


def trend(parts: Sequence[float]) -> Trend | None:
    """Return the trend of ten figures in order; None where they have none that is certain."""
    pairs = list(combinations(range(len(parts)), 2))
    rising = sum((parts[b] > parts[a]) - (parts[b] < parts[a]) for a, b in pairs)
    middle = median(parts)
    if abs(rising) < _CERTAIN or not middle:
        return None
    slope = median((parts[b] - parts[a]) / (b - a) for a, b in pairs)
    return Trend(slope * (len(parts) - 1) / middle)
