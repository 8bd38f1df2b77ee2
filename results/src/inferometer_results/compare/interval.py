"""Within which bounds does a figure lie, and what do two such figures say of their ratio?

Everything is 95 %. Bounds need not be symmetric: a ratio's are found from both figures' own by the
method of variance estimates recovery, on logarithms (Donner and Zou, Statistical Methods in
Medical Research 21, 2012).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

FEWEST_WINDOWS = 10
_WINDOWS_EACH, _FEWEST_BATCHES, _MOST_BATCHES = 6, 5, 20

_STUDENT_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 0.975 quantile of Student's t with 1, 2, ... 30 degrees of freedom."""
_NORMAL_975 = 1.960
_WIDEST = math.log(1e6)
"""Bounds a million times apart from their figure tell nothing."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its bounds; None where there is too little to know one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """How many times the first figure the second one is, with bounds where both are known."""

    ratio: float
    low: float | None = None
    high: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether it can be told if there is a difference at all."""
        return self.is_real or (self.low is not None and self.high is not None)

    @property
    def is_real(self) -> bool:
        """Whether one of the bounds leaves no room for no difference at all."""
        lower = self.high is not None and self.high < 1
        return lower or (self.low is not None and self.low > 1)


def change(before: Estimate, after: Estimate) -> Change | None:
    """Return after / before; None where there is no such ratio, as of nothing to something.

    Each bound of the ratio takes one bound of each figure, so that one may be known alone.
    """
    if before.value <= 0 or after.value <= 0:
        return None
    ratio = after.value / before.value
    down = _distance(after.value, after.low, before.high, before.value)
    up = _distance(after.high, after.value, before.value, before.low)
    return Change(
        ratio,
        None if down is None else ratio * math.exp(-down),
        None if up is None else ratio * math.exp(up),
    )


def over_repeats(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of figures of independent repeats, with Student's bounds.

    At least two, all above zero; on logarithms, as ratios are compared.
    """
    logs = [math.log(value) for value in values]
    middle = fmean(logs)
    half = student_975(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    if half > _WIDEST:
        return Estimate(math.exp(middle))
    return Estimate(*map(math.exp, (middle, middle - half, middle + half)))


def by_batch_means(value: float, windows: Sequence[float], step: float) -> Estimate:
    """Return a mean rate with bounds by the means of batches of its equally long windows.

    Neighbouring windows resemble each other, the means of batches of them less (Law, Simulation
    Modeling and Analysis, 9.5.3); by what is left of their resemblance the bounds are widened.
    They are no closer than one query more or less, which changes a window's rate by `step`. Fewer
    than 10 windows tell no bounds.
    """
    length = len(windows)
    if length < FEWEST_WINDOWS:
        return Estimate(value)
    count = min(_MOST_BATCHES, max(_FEWEST_BATCHES, length // _WINDOWS_EACH))
    edges = [round(at * length / count) for at in range(count + 1)]
    means = [fmean(windows[low:high]) for low, high in pairwise(edges)]
    half = student_975(count - 1) * stdev(means) / math.sqrt(count) * _widening(means)
    half = max(half, step / length)
    return Estimate(value, value - half, value + half)


def _widening(means: Sequence[float]) -> float:
    """Return by how much a resemblance of neighbours, above what chance gives, widens bounds."""
    middle, count = fmean(means), len(means)
    apart = [mean - middle for mean in means]
    scatter = sum(each * each for each in apart)
    if not scatter:
        return 1.0
    # Of independent means this is -1 / count on average.
    alike = sum(one * other for one, other in pairwise(apart)) / scatter + 1 / count
    alike = min(0.9, max(0.0, alike))
    return math.sqrt((1 + alike) / (1 - alike))


def student_975(degrees: int) -> float:
    """Return the 0.975 quantile of Student's t; beyond 30 degrees of freedom to 0.5 %."""
    if degrees <= len(_STUDENT_975):
        return _STUDENT_975[degrees - 1]
    # The first term of Cornish and Fisher's expansion.
    return _NORMAL_975 + (_NORMAL_975**3 + _NORMAL_975) / (4 * degrees)


def _distance(
    high: float | None, low: float | None, other_high: float | None, other_low: float | None
) -> float | None:
    """Return how far two pairs of figures are apart together, on logarithms; None where unknown."""
    if high is None or other_high is None or not low or not other_low or min(low, other_low) <= 0:
        return None
    return math.hypot(math.log(high / low), math.log(other_high / other_low))
