"""Marks for the median and 99th percentile of several steps, with their 95 % bounds."""

from collections.abc import Sequence
from typing import NamedTuple

from inferometer_api.results.result import Step, nanoseconds_at, percentile_of
from inferometer_results.quantity import Unit, time_unit
from inferometer_results.report.axis import ChartAxis, Floats, linear_axis, log_axis
from inferometer_results.report.chart import Line, Mark, Whiskers, finite

_SPANS_DECADES = 24.0
_PERCENTILES = ((50.0, 1), (99.0, 2))


class Latencies(NamedTuple):
    """Lines and strokes over the steps' places, and an axis on which all of them are."""

    marks: list[Mark]
    axis: ChartAxis
    unit: Unit
    known: list[int]
    """Every percentile that is drawn, in nanoseconds."""


def latency_marks(steps: Sequence[Step], x: Floats) -> Latencies | None:
    """Return what is drawn of the steps' latencies at these places, None if they have none."""
    found = {p: [nanoseconds_at(step.latency, p) for step in steps] for p, _ in _PERCENTILES}
    known = [value for values in found.values() for value in values if value is not None]
    if not known:
        return None
    unit = time_unit(known)
    marks: list[Mark] = []
    shown = [unit.of(value) for value in known]
    for percentile, series in _PERCENTILES:
        bounds = [_bounds(step, percentile) for step in steps]
        low, high = zip(*bounds, strict=True)
        shown += [unit.of(bound) for pair in bounds for bound in pair if bound is not None]
        marks.append(Whiskers(x, finite(low) / unit.size, finite(high) / unit.size, series))
        words = tuple(f"p{percentile:g} {unit.named(value)}" for value in found[percentile])
        values = finite(found[percentile]) / unit.size
        marks.append(Line(x, values, series, f"p{percentile:g}", words, dots=True))
    label = f"Latency of a query ({unit.name}"
    wide = max(shown) / max(min(shown), 1e-12) >= _SPANS_DECADES
    axis = log_axis(f"{label}, logarithmic)", shown) if wide else linear_axis(f"{label})", shown)
    return Latencies(marks, axis, unit, known)


def _bounds(step: Step, percentile: float) -> tuple[int | None, int | None]:
    found = percentile_of(step.latency, percentile)
    if found is None or not found.is_bounded:
        return (None, None)
    return (found.low_nanoseconds, found.high_nanoseconds)
