"""Confidence intervals of figures: over the repeats of a scenario, or within one window.

The confidence is 95 % everywhere. Bounds need not be symmetric.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from inferometer_api.statistics import geometric_mean, half_width

FEWEST_WINDOWS = 10
_WINDOWS_EACH, _FEWEST_BATCHES, _MOST_BATCHES = 6, 5, 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its bounds; a bound is None if there is too little data for it."""

    value: float
    low: float | None = None
    high: float | None = None


def over_repeats(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of independent repeats, with bounds by Student's t."""
    return Estimate(*geometric_mean(values))


def by_batch_means(value: float, windows: Sequence[float], step: float) -> Estimate:
    """Return a mean rate with bounds by batch means over its equally long windows.

    Neighbouring windows are correlated, the means of batches of windows less so (Law, Simulation
    Modeling and Analysis, 9.5.3); the remaining correlation widens the bounds. They are at least as
    wide as one query more or less, which changes a window's rate by `step`. With fewer than 10
    windows there are no bounds.
    """
    length = len(windows)
    if length < FEWEST_WINDOWS:
        return Estimate(value)
    count = min(_MOST_BATCHES, max(_FEWEST_BATCHES, length // _WINDOWS_EACH))
    edges = [round(at * length / count) for at in range(count + 1)]
    means = [fmean(windows[low:high]) for low, high in pairwise(edges)]
    half = max(half_width(stdev(means), count) * _widening(means), step / length)
    return Estimate(value, value - half, value + half)


def _widening(means: Sequence[float]) -> float:
    """Return the factor by which correlation of neighbours, beyond chance, widens the bounds."""
    middle, count = fmean(means), len(means)
    apart = [mean - middle for mean in means]
    scatter = sum(each * each for each in apart)
    if not scatter:
        return 1.0
    # For independent means this is -1 / count on average.
    alike = sum(one * other for one, other in pairwise(apart)) / scatter + 1 / count
    alike = min(0.9, max(0.0, alike))
    return math.sqrt((1 + alike) / (1 - alike))
