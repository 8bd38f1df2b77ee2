"""Chart axes: scales, ticks and their labels."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_PERCENT_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)

_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class Tick:
    """A value written along an axis."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """A range of values, linear or logarithmic, with its ticks and what it shows."""

    label: str
    low: float
    high: float
    ticks: tuple[Tick, ...]
    logarithmic: bool = False
    gridded: bool = True

    def position(self, values: Floats | float) -> Floats:
        """Return where values lie: 0 at the axis' start, 1 at its end, and bounded to it."""
        numbers = np.asarray(values, dtype=np.float64)
        low, high = self.low, self.high
        if self.logarithmic:
            numbers = np.log(np.maximum(numbers, self.low))
            low, high = math.log(low), math.log(high)
        return np.clip((numbers - low) / (high - low), 0.0, 1.0)


def linear_axis(label: str, values: Iterable[float], *, whole: bool = False) -> ChartAxis:
    """Return an axis from 0 over all finite values that ends on a round number.

    With `whole` its ticks are whole numbers, as counts are.
    """
    high = _extent(values)[1]
    if high < _LEAST:  # nothing at all, below zero, or too little to be divided
        high = 1.0
    step = _round_step(high / 4)
    step = max(1.0, round(step)) if whole else step
    last = max(1, math.ceil(high / step - 1e-9))
    ticks = tuple(_tick(index * step) for index in range(last + 1))
    return ChartAxis(label, 0.0, last * step, ticks)


def span_axis(label: str, low: float, high: float) -> ChartAxis:
    """Return an axis over just this range, with ticks at the round numbers within."""
    if high <= low:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    step = _round_step((high - low) / 5)
    inner = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return ChartAxis(label, low, high, tuple(_tick(index * step) for index in inner))


def log_axis(label: str, values: Iterable[float]) -> ChartAxis:
    """Return a logarithmic axis over all positive values that ends on 1, 2 or 5 of a decade."""
    low, high = _extent(value for value in values if value > 0)
    low, high = (low, high) if low > 0 else (1.0, 10.0)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    grid = [factor * 10.0**decade for decade in decades for factor in (1, 2, 5)]
    start = max(value for value in [*grid, 10.0 ** decades[0]] if value <= low * (1 + 1e-9))
    end = min(value for value in [*grid, 10.0 ** (decades[-1] + 1)] if value >= high * (1 - 1e-9))
    if end <= start:
        end = start * 10
    shown = [value for value in grid if start * (1 - 1e-9) <= value <= end * (1 + 1e-9)]
    if math.log10(end / start) > 2.2:
        shown = [value for value in shown if _is_decade(value)]
    return ChartAxis(label, start, end, tuple(_tick(value) for value in shown), logarithmic=True)


def log_span_axis(label: str, low: float, high: float) -> ChartAxis:
    """Return a logarithmic axis over just this range, with ticks at 1, 2 and 5 of a decade."""
    wide = log_axis(label, [low, high])
    if high <= low:
        return wide
    inner = tuple(tick for tick in wide.ticks if low <= tick.value <= high)
    return replace(wide, low=low, high=high, ticks=inner)


def percentile_axis(label: str, count: int) -> ChartAxis:
    """Return the axis 1 / (1 - p) on which each further nine takes the same room."""
    end = max(4.0, 2.0 * count)
    ticks = [Tick(1 / (1 - percent / 100), f"{percent:.6g}") for percent in _PERCENT_TICKS]
    shown = tuple(tick for tick in ticks if tick.value <= end)
    return ChartAxis(label, 1.0, end, shown, logarithmic=True)


def category_axis(label: str, names: list[str]) -> ChartAxis:
    """Return an axis on which the names stand side by side at 0, 1, 2, ..."""
    ticks = tuple(Tick(index, name) for index, name in enumerate(names))
    return ChartAxis(label, -0.5, len(names) - 0.5, ticks, gridded=False)


def plain(value: float) -> str:
    """Return a round number as it is written at a tick."""
    return f"{value:,.10g}"


def _tick(value: float) -> Tick:
    rounded = float(f"{value:.10g}")
    return Tick(rounded, plain(rounded))


def _round_step(rough: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(
        factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * 0.999
    )


def _is_decade(value: float) -> bool:
    return abs(math.log10(value) - round(math.log10(value))) < 1e-9


def _extent(values: Iterable[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)
