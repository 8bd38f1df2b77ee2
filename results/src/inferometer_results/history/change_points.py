"""Change points of a series of figures, found run by run with a bounded window.

The method is a window-limited generalized likelihood ratio (Willsky and Jones, IEEE Transactions on
Automatic Control 21, 1976; Lai, Journal of the Royal Statistical Society B 57, 1995). After each
run, every division of the last 50 runs into a part before and the 3 to 10 newest runs is tested by
Student's t of the logarithms. Two things keep it calm on real machines:

* Values are clipped to four robust standard deviations around the median of the part before (Huber,
  Annals of Mathematical Statistics 35, 1964), so that a single outlier is no change. Where it
  changed is where the runs as they are deviate least from the medians on both sides.
* The standard error grows by the correlation of neighbouring runs, sqrt((1 + r) / (1 - r)).

A change point is never taken back or moved by later runs: a series is judged as it grows.
docs/explanation/regressions.md compares the method with those of others.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inferometer_api.judgement import DEFAULT_MARGIN
from inferometer_api.statistics import student_quantile

FEWEST_BEFORE, MOST_BEFORE = 10, 40
"""How many runs show what was usual."""
FEWEST_AFTER, MOST_AFTER = 3, 10
"""How many runs show that it has changed."""
PROMISED_CHANGE = 0.05
"""The change that is found within `MOST_AFTER` runs, or the series cannot be judged."""
_FALSE_CANDIDATES = 0.001
"""The two-sided probability of each test on a series without a change."""
_CONFIDENCE = 0.95
_POWER = 0.8
_CLIPPED = 4.0
_QUARTILES_APART = 1.349
"""The interquartile range of the normal distribution, in standard deviations."""
_MOST_CORRELATION = 0.9
_FINEST = 0.0005
"""Figures have three significant digits: a smaller spread is that of their rounding."""

Logs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A place at which the level of a series changes."""

    at: int
    """The index of the first run after the change."""
    seen_at: int
    """The index of the run with which it was found."""
    ratio: float
    """The level until the next change point, divided by the level before."""
    low: float
    high: float
    """The bounds of the ratio at a confidence of 95 %."""


@dataclass(frozen=True, slots=True)
class SeriesAnalysis:
    """The change points of a series, and what can be found in its last part."""

    changes: tuple[ChangePoint, ...]
    runs: int
    """How many runs there are since the last change point."""
    variation: float | None
    """Their standard deviation as a fraction; None if there are fewer than `FEWEST_BEFORE`."""
    detectable: float | None
    """The smallest change that is found within `MOST_AFTER` runs with a probability of 0.8."""

    @property
    def can_judge(self) -> bool:
        """Whether a change of `PROMISED_CHANGE` would be found."""
        return self.detectable is not None and self.detectable <= PROMISED_CHANGE


@dataclass(frozen=True, slots=True)
class _Spread:
    """How far the runs of one level scatter."""

    median: float
    scale: float
    """Robust standard deviation, by the interquartile range."""
    inflation: float
    """By how much the correlation of neighbours widens the standard error of a mean."""


def find_change_points(values: Sequence[float], known: Collection[int] = ()) -> SeriesAnalysis:
    """Return the change points of a series of positive figures in the order of time.

    `known` are indexes at which a level is known to change, because a person said so: there the
    series begins anew. Adding runs never changes the indexes that were found before.
    """
    logs: Logs = np.log(np.asarray(values, dtype=np.float64))
    start = 0
    places: list[tuple[int, int]] = []
    for newest in range(len(logs)):
        found = newest if newest in known else _division(logs[start : newest + 1], start)
        if found:
            places.append((found, newest))
            start = found
    return SeriesAnalysis(
        _measured_changes(logs, places), len(logs) - start, *_sensitivity(logs[start:])
    )


def _division(segment: Logs, start: int) -> int | None:
    """Return the index of the first run of a new level, None if there is none."""
    if len(segment) < FEWEST_BEFORE + FEWEST_AFTER:
        return None
    window = segment[-(MOST_BEFORE + MOST_AFTER) :]
    first = max(FEWEST_BEFORE, len(window) - MOST_AFTER)
    spread = _spread(window[:first])
    splits = np.arange(first, len(window))
    scores = _scores(_clipped(window, spread), splits) / spread.inflation
    best = int(np.argmax(scores))
    if len(window) - int(splits[best]) < FEWEST_AFTER:
        return None
    if scores[best] <= student_quantile(1 - _FALSE_CANDIDATES / 2, len(window) - 2):
        return None
    split = _place(window, splits)
    if len(window) - split < FEWEST_AFTER:
        return None
    change = _level(window[split:], spread.scale) - _level(window[:split], spread.scale)
    if abs(change) <= math.log1p(DEFAULT_MARGIN):
        return None
    return start + len(segment) - len(window) + split


def _scores(window: Logs, splits: npt.NDArray[np.int64]) -> Logs:
    """Return Student's t of the means on both sides of each split."""
    count = len(window)
    sums, squares = np.cumsum(window), np.cumsum(window**2)
    before, after = sums[splits - 1], sums[-1] - sums[splits - 1]
    within = squares[-1] - before**2 / splits - after**2 / (count - splits)
    finest = 1e-12 * count
    error = np.sqrt(np.maximum(within, finest) / (count - 2) * (1 / splits + 1 / (count - splits)))
    scores: Logs = np.abs(after / (count - splits) - before / splits) / error
    return scores


def _place(window: Logs, splits: npt.NDArray[np.int64]) -> int:
    """Return the split at which the runs deviate least from the medians on both sides of it.

    They are not clipped: next to a doubling, a run that is low by chance is one of those before.
    """

    def deviation(split: int) -> float:
        sides = (window[:split], window[split:])
        return sum(float(np.abs(side - np.median(side)).sum()) for side in sides)

    return min(map(int, splits), key=deviation)


def _spread(runs: Logs) -> _Spread:
    median = float(np.median(runs))
    low, high = np.quantile(runs, [0.25, 0.75])
    scale = max(_FINEST, float(high - low) / _QUARTILES_APART)
    apart = np.clip((runs - median) / scale, -_CLIPPED, _CLIPPED)
    apart = apart - apart.mean()
    scatter = float(apart @ apart)
    # For independent runs this is -1 / count on average.
    alike = 0.0 if not scatter else float(apart[:-1] @ apart[1:]) / scatter + 1 / len(runs)
    alike = min(_MOST_CORRELATION, max(0.0, alike))
    return _Spread(median, scale, math.sqrt((1 + alike) / (1 - alike)))


def _clipped(runs: Logs, spread: _Spread) -> Logs:
    """Return how many standard deviations each run is from the median, at most `_CLIPPED`."""
    clipped: Logs = np.clip((runs - spread.median) / spread.scale, -_CLIPPED, _CLIPPED)
    return clipped


def _level(runs: Logs, scale: float) -> float:
    """Return the mean, of which outliers move little."""
    median = float(np.median(runs))
    reach = _CLIPPED * scale
    return median + float(np.clip(runs - median, -reach, reach).mean())


def _measured_changes(logs: Logs, places: Sequence[tuple[int, int]]) -> tuple[ChangePoint, ...]:
    """Return each change point with the ratio of the levels on both sides of it."""
    edges = [0, *(at for at, _ in places), len(logs)]
    found = []
    for number, (at, seen_at) in enumerate(places, 1):
        before = logs[max(edges[number - 1], at - MOST_BEFORE) : at]
        after = logs[at : edges[number + 1]]
        spreads = [_spread(before), _spread(after)]
        change = _level(after, spreads[1].scale) - _level(before, spreads[0].scale)
        half = _half_width(before, spreads[0], len(after))
        found.append(
            ChangePoint(
                at, seen_at, math.exp(change), math.exp(change - half), math.exp(change + half)
            )
        )
    return tuple(found)


def _half_width(before: Logs, spread: _Spread, after: int) -> float:
    freedom = max(1, len(before) - 1)
    quantile = student_quantile((1 + _CONFIDENCE) / 2, freedom)
    return quantile * _deviation(before, spread) * math.sqrt(1 / len(before) + 1 / after)


def _deviation(runs: Logs, spread: _Spread) -> float:
    """Return the standard deviation of the logarithms, for the error of a mean."""
    clipped = _clipped(runs, spread)
    if len(clipped) < 2:
        return _FINEST
    return max(_FINEST, float(clipped.std(ddof=1)) * spread.scale) * spread.inflation


def _sensitivity(segment: Logs) -> tuple[float | None, float | None]:
    """Return by how much a level varies, and which change of it would be found."""
    if len(segment) < FEWEST_BEFORE:
        return None, None
    before = segment[-MOST_BEFORE:]
    spread = _spread(before)
    error = _deviation(before, spread) * math.sqrt(1 / len(before) + 1 / MOST_AFTER)
    freedom = len(before) + MOST_AFTER - 2
    shown = student_quantile(1 - _FALSE_CANDIDATES / 2, freedom) * error
    threshold = max(shown, math.log1p(DEFAULT_MARGIN))
    detectable = math.expm1(threshold + student_quantile(_POWER, freedom) * error)
    return float(before.std(ddof=1)), detectable
