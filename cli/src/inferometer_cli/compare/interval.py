"""Within which bounds does a figure lie, and what do two such figures say of their ratio?

Everything is 95 %. Bounds need not be symmetric: a ratio's are found from both figures' own by the
method of variance estimates recovery, on logarithms (Donner and Zou, Statistical Methods in
Medical Research 21, 2012).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

FEWEST_BATCHES = 5
MOST_BATCHES = 20

_STUDENT_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 0.975 quantile of Student's t with 1, 2, ... 30 degrees of freedom."""
_NORMAL_975 = 1.960


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
        return self.low is not None and self.high is not None

    @property
    def is_real(self) -> bool:
        """Whether no difference at all lies outside of the bounds."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def change(before: Estimate, after: Estimate) -> Change | None:
    """Return after / before; None where there is no such ratio, as of nothing to something."""
    if before.value <= 0 or after.value <= 0:
        return None
    ratio = after.value / before.value
    if not (_positive(before.low) and _positive(after.low) and before.high and after.high):
        return Change(ratio)
    down = math.hypot(_log(after.value, after.low), _log(before.high, before.value))
    up = math.hypot(_log(after.high, after.value), _log(before.value, before.low))
    return Change(ratio, ratio * math.exp(-down), ratio * math.exp(up))


def over_repeats(values: Sequence[float]) -> Estimate:
    """Return the mean of figures of independent repeats, at least two, with Student's bounds."""
    mean = fmean(values)
    half = student_975(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def by_batch_means(value: float, windows: Sequence[float]) -> Estimate:
    """Return a mean rate with bounds by the means of batches of its equally long windows.

    Neighbouring windows resemble each other; the means of 5 to 20 batches of them do much less
    (Law, Simulation Modeling and Analysis, 9.5.3). Fewer than 5 windows tell no bounds.
    """
    count = min(MOST_BATCHES, len(windows))
    if count < FEWEST_BATCHES:
        return Estimate(value)
    each = len(windows) // count
    # What does not fill a batch is left out at the begin, where a run is still the least steady.
    first = len(windows) - count * each
    means = [fmean(windows[at : at + each]) for at in range(first, len(windows), each)]
    half = student_975(count - 1) * stdev(means) / math.sqrt(count)
    return Estimate(value, value - half, value + half)


def student_975(degrees: int) -> float:
    """Return the 0.975 quantile of Student's t; beyond 30 degrees of freedom to 0.5 %."""
    if degrees <= len(_STUDENT_975):
        return _STUDENT_975[degrees - 1]
    # The first term of Cornish and Fisher's expansion.
    return _NORMAL_975 + (_NORMAL_975**3 + _NORMAL_975) / (4 * degrees)


def _positive(bound: float | None) -> float:
    return bound if bound is not None and bound > 0 else 0.0


def _log(high: float, low: float | None) -> float:
    return math.log(high / low) if low else 0.0
