"""Charts of latency: distribution, percentiles, dispatch lag."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferometer_api.results.result import Distribution, ScenarioResult, Step
from inferometer_results.quantity import DASH, Unit, significant, time_unit
from inferometer_results.report.axis import (
    ChartAxis,
    Floats,
    Tick,
    linear_axis,
    log_axis,
    log_span_axis,
    percentile_axis,
    span_axis,
)
from inferometer_results.report.chart import (
    Area,
    Chart,
    Line,
    Mark,
    ReferenceLine,
    Whiskers,
    finite,
)
from inferometer_results.report.histogram import FilledBuckets, decode
from inferometer_results.report.palette import SERIES_COUNT

_SPANS_DECADES = 8.0
"""Times whose largest is so many times the smallest are drawn on a logarithmic axis."""
_CURVE_POINTS = 160
_BOUND_IN_SIGHT = 3.0
"""A bound this many times above all latencies is in the caption instead of the chart."""


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """The latency bound of a percentile."""

    nanoseconds: int
    percentile: float


@dataclass(frozen=True, slots=True)
class _Times:
    name: str
    summary: Distribution
    recorded: FilledBuckets


def distribution_chart(result: ScenarioResult) -> Chart | None:
    """Return the histogram of latency and service time, or a row for each of several steps."""
    times = _latencies(result)
    if not times:
        return None
    if len(times) > 1:
        return _ridges(times)
    only, unit = times[0], _unit(times)
    service = _recorded("service time", result.steps[0].service_time)
    shown = [only, service] if service is not None else [only]
    edges = _edges(shown, unit)
    shares = [each.recorded.share_between(edges * unit.size) * 100 for each in shown]
    latency = Area(edges, shares[0], 1, values=_bin_words("latency", edges, shares[0], unit))
    marks: list[Mark] = [latency]
    if service is not None:
        words = _bin_words("service time", edges, shares[1], unit)
        marks.append(Area(edges, shares[1], 2, values=words, filled=False, name="service time"))
    marks += [
        ReferenceLine("x", unit.of(value.nanoseconds), f"p{value.percentile:g}")
        for value in only.summary.percentiles
        if value.percentile in {50.0, 99.0}
    ]
    return Chart(
        key="distribution",
        title="Latency distribution",
        caption="Share of the answered queries in each range of latency."
        + (" The outline is the service time: from sending to the whole reply." if service else ""),
        summary=_spread(only.summary, unit),
        x=_time_axis("Latency", edges, unit),
        y=linear_axis("Share of queries (%)", np.concatenate(shares)),
        marks=marks,
    )


def percentile_chart(result: ScenarioResult, bound: LatencyBound | None) -> Chart | None:
    """Return latency by percentile with the bound; each further nine has the same width."""
    times = _latencies(result)
    if not times:
        return None
    unit = _unit(times)
    lines = [_curve(each, index, unit) for index, each in enumerate(times, 1)]
    service = _recorded("service", result.steps[0].service_time) if len(times) == 1 else None
    if service is not None:
        lines[0] = _curve(_Times("latency", times[0].summary, times[0].recorded), 1, unit)
        lines.append(replace(_curve(service, 2, unit), dashed=True))
    marks: list[Mark] = [*(_bounds(each, n, unit) for n, each in enumerate(times, 1)), *lines]
    values = np.concatenate([line.y for line in lines])
    references, bound_note = bound_marks(bound, unit, float(values.max()))
    if bound is not None and references:
        at = 1 / (1 - bound.percentile / 100)
        references.append(ReferenceLine("x", at, f"p{bound.percentile:g}"))
        values = np.append(values, unit.of(bound.nanoseconds))
    return Chart(
        key="percentiles",
        title="Latency by percentile",
        caption="The latency that the given share of the answered queries did not exceed. Pale "
        f"strokes are 95 % bounds within this window.{bound_note}",
        summary=" ".join(_spread(each.summary, unit, each.name) for each in times),
        x=percentile_axis("Percentile of queries (%)", max(t.summary.count for t in times)),
        y=_value_axis("Latency", values, unit),
        marks=[*references, *marks],
    )


def lag_chart(result: ScenarioResult) -> Chart | None:
    """Return the dispatch lag by percentile, in an open loop."""
    times = _recorded("", result.steps[0].dispatch_lag) if len(result.steps) == 1 else None
    if times is None:
        return None
    summary = times.summary
    lowest = min(
        (each.nanoseconds for each in summary.percentiles), default=summary.min_nanoseconds
    )
    unit = time_unit([lowest, summary.max_nanoseconds])
    line = _curve(times, 3, unit)
    return Chart(
        key="lag",
        title="Dispatch lag by percentile",
        caption="The delay of the load generator itself. It is part of the latency.",
        summary=_spread(times.summary, unit),
        x=percentile_axis("Percentile of queries (%)", times.summary.count),
        y=_value_axis("Dispatch lag", line.y, unit),
        marks=[line],
    )


def bound_marks(bound: LatencyBound | None, unit: Unit, highest: float) -> tuple[list[Mark], str]:
    """Return the bound as a mark, and its part of the caption; `highest` is the chart's maximum."""
    if bound is None:
        return [], ""
    if unit.of(bound.nanoseconds) > highest * _BOUND_IN_SIGHT:
        return [], f" The bound, {unit.named(bound.nanoseconds)}, is above the chart."
    text = f"\N{LESS-THAN OR EQUAL TO} {unit.named(bound.nanoseconds)}"
    note = f" The dashed line is the bound of the p{bound.percentile:g}."
    return [ReferenceLine("y", unit.of(bound.nanoseconds), text, "bound")], note


def picked(steps: Sequence[Step]) -> list[Step]:
    """Return at most as many steps as there are colours, spread evenly, first and last included."""
    if len(steps) <= SERIES_COUNT:
        return list(steps)
    places = np.linspace(0, len(steps) - 1, SERIES_COUNT).round().astype(int)
    return [steps[place] for place in places.tolist()]


def _latencies(result: ScenarioResult) -> list[_Times]:
    answered = [step for step in result.steps if step.latency is not None]
    found = (_recorded(step.label, step.latency) for step in picked(answered))
    return [times for times in found if times is not None]


def _recorded(name: str, distribution: Distribution | None) -> _Times | None:
    recorded = decode(distribution.histogram) if distribution is not None else None
    if distribution is None or recorded is None:
        return None
    return _Times(name, distribution, recorded)


def _unit(times: Sequence[_Times]) -> Unit:
    return time_unit(
        value
        for each in times
        for value in (each.summary.min_nanoseconds, each.summary.max_nanoseconds)
    )


def _ridges(times: list[_Times]) -> Chart:
    unit = _unit(times)
    # Each row has a part of the common axis only, so that its bins must be finer.
    edges = _edges(times, unit, finer=3)
    marks: list[Mark] = []
    for row, each in enumerate(reversed(times)):
        shares = each.recorded.share_between(edges * unit.size) * 100
        words = _bin_words(each.name, edges, shares, unit)
        series = len(times) - row
        marks.append(Area(edges, 0.86 * shares / shares.max(), series, float(row), words))
    ticks = tuple(Tick(row + 0.25, each.name) for row, each in enumerate(reversed(times)))
    return Chart(
        key="distribution",
        title="Latency distribution",
        caption="Share of the answered queries in each range of latency, each row with its own "
        "scale.",
        summary=" ".join(_spread(each.summary, unit, each.name) for each in times),
        x=_time_axis("Latency", edges, unit),
        y=ChartAxis("Step", 0.0, float(len(times)), ticks, gridded=False),
        marks=marks,
    )


def _edges(times: Sequence[_Times], unit: Unit, *, finer: int = 1) -> Floats:
    low = min(float(each.recorded.low[0]) for each in times)
    high = max(float(each.recorded.high[-1]) for each in times)
    count = max(each.recorded.total for each in times)
    bins = finer * int(np.clip(2 * count ** (1 / 3), 12, 72))
    low, high = unit.of(max(low, 1.0)), unit.of(high)
    if high / low >= _SPANS_DECADES:
        return np.geomspace(low, high, bins + 1)
    return np.linspace(low, high, bins + 1)


def _time_axis(label: str, edges: Floats, unit: Unit) -> ChartAxis:
    low, high = float(edges[0]), float(edges[-1])
    if high / low >= _SPANS_DECADES:
        return log_span_axis(f"{label} ({unit.name}, logarithmic)", low, high)
    room = 0.02 * (high - low)
    return span_axis(f"{label} ({unit.name})", max(0.0, low - room), high + room)


def _value_axis(label: str, values: Floats, unit: Unit) -> ChartAxis:
    present = values[np.isfinite(values) & (values > 0)]
    if len(present) and present.max() / present.min() >= 3 * _SPANS_DECADES:
        return log_axis(f"{label} ({unit.name}, logarithmic)", present.tolist())
    return linear_axis(f"{label} ({unit.name})", values.tolist())


def _curve(times: _Times, series: int, unit: Unit) -> Line:
    total = times.recorded.total
    # The query of rank k stands at the share (k - 0.5) / n, so that the largest has a place too.
    x = np.geomspace(1.0, 2.0 * total, _CURVE_POINTS)
    shares = 1 - 1 / x
    nanoseconds = times.recorded.at_shares(shares)
    words = tuple(
        f"{_percent(share)} %: {unit.named(value)}"
        for share, value in zip(shares.tolist(), nanoseconds.tolist(), strict=True)
    )
    return Line(x, nanoseconds / unit.size, series, times.name, words)


def _percent(share: float) -> str:
    digits = max(1, int(np.ceil(-np.log10(max(1 - share, 1e-12)))) - 1)
    return f"{100 * share:.{digits}f}"


def _bounds(times: _Times, series: int, unit: Unit) -> Whiskers:
    known = [
        value for value in times.summary.percentiles if value.is_bounded and value.percentile < 100
    ]
    return Whiskers(
        x=np.array([1 / (1 - value.percentile / 100) for value in known]),
        low=finite([value.low_nanoseconds for value in known]) / unit.size,
        high=finite([value.high_nanoseconds for value in known]) / unit.size,
        series=series,
    )


def _bin_words(name: str, edges: Floats, shares: Floats, unit: Unit) -> tuple[str, ...]:
    return tuple(
        f"{name} {significant(low)}{DASH}{significant(high)} {unit.name}: {significant(share)} %"
        for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True)
    )


def _spread(summary: Distribution, unit: Unit, name: str = "") -> str:
    known = {value.percentile: value.nanoseconds for value in summary.percentiles}
    figures = ", ".join(
        f"p{percentile:g} {unit.named(known[percentile])}"
        for percentile in (50.0, 99.0)
        if percentile in known
    )
    lead = f"{name}: from" if name else "From"
    low, high = unit.named(summary.min_nanoseconds), unit.named(summary.max_nanoseconds)
    return f"{lead} {low} to {high}{', ' if figures else ''}{figures}."
