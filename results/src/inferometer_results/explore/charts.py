"""Charts of the explorer: points of many results, drawn by the report's own SVG."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from inferometer_results.explore.batch_scaling import BatchScaling
from inferometer_results.explore.figure import ShownFigure
from inferometer_results.explore.model import MeasuredGroup
from inferometer_results.explore.outliers import NodeMedian
from inferometer_results.explore.trend import TimeSeries, TrendPoint
from inferometer_results.history.change_points import ChangePoint
from inferometer_results.history.trend import ChangeFinding, State
from inferometer_results.quantity import duration, significant, time_unit
from inferometer_results.report.axis import (
    ChartAxis,
    Floats,
    Tick,
    category_axis,
    linear_axis,
    log_axis,
)
from inferometer_results.report.chart import Chart, Line, Mark, ReferenceLine, Whiskers
from inferometer_results.report.palette import SERIES_COUNT

_MOST_MARKS = 9
_SPANS_DECADES = 8.0
"""Latencies whose largest is so many times the smallest are drawn on a logarithmic axis."""


def series_of(names: Sequence[str]) -> dict[str, int]:
    """Return the colour of each name: the first ones have their own, the others share grey."""
    distinct = list(dict.fromkeys(names))
    return {name: index + 1 if index < SERIES_COUNT else 0 for index, name in enumerate(distinct)}


def front_chart(
    groups: Sequence[MeasuredGroup], colours: Mapping[str, int], *, is_ranked: bool
) -> Chart | None:
    """Return latency against throughput of the groups that have both, with their front.

    Those that may not rank are grey. Only if the others are ranked, the fastest one is named.
    """
    drawn = [
        each
        for each in groups
        if each.newest["p99_nanoseconds"] and each.newest["samples_per_second"] > 0
    ]
    if not drawn:
        return None
    unit = time_unit([each.newest["p99_nanoseconds"] for each in drawn])
    marks: list[Mark] = []
    front = sorted((each for each in drawn if each.on_front), key=_rate)
    if len(front) > 1:
        marks.append(
            Line(
                np.array([_rate(each) for each in front]),
                np.array([unit.of(each.newest["p99_nanoseconds"]) for each in front]),
                0,
                dashed=True,
            )
        )
    ranked = [each for each in drawn if not each.excluded]
    coloured = [
        (colour, [each for each in ranked if each.stack == name])
        for name, colour in colours.items()
    ]
    marks += [
        Line(
            points_apart([_rate(each) for each in some]),
            points_apart([unit.of(each.newest["p99_nanoseconds"]) for each in some]),
            colour,
            values=texts_apart([_point_words(each) for each in some]),
            dots=True,
        )
        for colour, some in (*coloured, (0, [each for each in drawn if each.excluded]))
        if some
    ]
    summary = f"{len(drawn)} points, {len(ranked)} of them of results that may rank."
    if is_ranked and ranked:
        summary += f" Most inferences per second: {_point_words(max(ranked, key=_rate))}."
    latencies = [unit.of(each.newest["p99_nanoseconds"]) for each in drawn]
    is_wide = max(latencies) >= _SPANS_DECADES * min(latencies)
    return Chart(
        key="front",
        title="Latency against throughput",
        caption="Each point is a step under the same conditions on one node, by its newest result "
        "that ranks; grey points do not rank."
        + " The dashed line joins the points that no other one beats in both."
        * (len(front) > 1),
        summary=summary,
        x=linear_axis("Inferences/s", [_rate(each) for each in drawn]),
        y=log_axis(f"p99 ({unit.name}, logarithmic)", latencies)
        if is_wide
        else linear_axis(f"p99 ({unit.name})", latencies),
        marks=marks,
    )


def scaling_chart(
    scalings: Sequence[tuple[MeasuredGroup, BatchScaling]], colours: Mapping[str, int]
) -> Chart | None:
    """Return throughput by batch size for each sweep."""
    if not scalings:
        return None
    sizes = sorted({size for _, each in scalings for size in each.rates})
    places = {size: float(index) for index, size in enumerate(sizes)}
    marks: list[Mark] = [
        Line(
            np.array([places[size] for size in each.rates]),
            np.array(list(each.rates.values())),
            colours.get(group.stack, 0),
            values=tuple(
                f"{group.stack} on {group.node}, batch {size}: {significant(rate)}/s"
                for size, rate in each.rates.items()
            ),
            dots=True,
        )
        for group, each in scalings
    ]
    rates = [rate for _, each in scalings for rate in each.rates.values()]
    return Chart(
        key="scaling",
        title="Throughput by batch size",
        caption="Inferences per second of each step, by its newest valid result.",
        summary=f"Highest: {significant(max(rates))} inferences/s.",
        x=category_axis("Batch size (samples per query)", [str(size) for size in sizes]),
        y=linear_axis("Inferences/s", rates),
        marks=marks,
    )


def trend_chart(found: TimeSeries, figure: ShownFigure) -> Chart | None:
    """Return a figure over time, with numbered marks where something changed."""
    if not found.points:
        return None
    times = {each.row["started_at"]: start_seconds(each.row["started_at"]) for each in found.points}
    values = [each.value for each in found.points]
    counted = [each.value for each in found.counted]
    unit = figure.unit(values)
    marks: list[Mark] = []
    for is_excluded, colour in ((True, 0), (False, 1)):
        some = [each for each in found.points if bool(each.excluded) == is_excluded]
        if not some:
            continue
        x = [times[each.row["started_at"]] for each in some]
        y = [unit.of(each.value) for each in some]
        words = [
            f"{each.row['started_at'][:16].replace('T', ' ')}: {figure.text(each.value)}"
            f"{f' ({each.excluded})' if is_excluded else ''}"
            for each in some
        ]
        if is_excluded:
            marks.append(
                Line(points_apart(x), points_apart(y), colour, values=texts_apart(words), dots=True)
            )
        else:
            marks.append(Line(np.array(x), np.array(y), colour, values=tuple(words), dots=True))
    numbered = _numbered(found)
    several = [each for each in found.points if len(each.repeats) > 1]
    if several:
        marks.append(
            Whiskers(
                np.array([times[each.row["started_at"]] for each in several]),
                np.array([unit.of(min(each.repeats)) for each in several]),
                np.array([unit.of(max(each.repeats)) for each in several]),
                1,
            )
        )
    marks += [
        ReferenceLine("x", times[point.row["started_at"]], str(number), "bound" if bad else "guide")
        for number, point, bad in numbered
    ]
    left_out = len(_marked(found)) - len(numbered)
    return Chart(
        key="trend",
        title=f"{figure.heading} over time",
        caption="Grey points do not count: they are INVALID, retracted or profiled. Numbered lines "
        "are explained below; red ones are candidates for a change. Strokes reach from the "
        "lowest to the highest repeat."
        + f" {left_out} more changes of labels or conditions have no number."
        * (left_out > 0),
        summary=f"{len(counted)} results that count"
        + (
            f", from {figure.text(min(counted))} to {figure.text(max(counted))}."
            if counted
            else "."
        ),
        x=time_axis("Start of the run (UTC)", list(times.values())),
        y=linear_axis(
            f"{figure.name} ({unit.name})",
            [unit.of(value) for each in found.points for value in each.repeats],
        ),
        marks=marks,
    )


def numbered_changes(found: TimeSeries) -> list[tuple[int, str, str]]:
    """Return what the numbered marks mean: the number, when, and what changed."""
    listed = []
    for number, point, _ in _numbered(found):
        change = point.change
        parts = [] if change is None else [_change_words(change, point.judged)]
        parts += point.changed
        parts += point.tags
        listed.append((number, point.row["started_at"][:16].replace("T", " "), "; ".join(parts)))
    return listed


def nodes_chart(found: Sequence[NodeMedian], figure: ShownFigure) -> Chart | None:
    """Return the median of a figure on each node; outliers in another colour."""
    if not found:
        return None
    unit = figure.unit([each.median for each in found])
    marks: list[Mark] = []
    for is_outlier, colour in ((False, 1), (True, 2)):
        some = [index for index, each in enumerate(found) if each.is_outlier == is_outlier]
        if some:
            marks.append(
                Line(
                    points_apart([float(index) for index in some]),
                    points_apart([unit.of(found[index].median) for index in some]),
                    colour,
                    values=texts_apart(
                        [
                            f"{found[index].node}: {figure.text(found[index].median)}"
                            f"{', outlier' if is_outlier else ''}"
                            for index in some
                        ]
                    ),
                    dots=True,
                )
            )
    outliers = [each.node for each in found if each.is_outlier]
    return Chart(
        key="nodes",
        title=f"{figure.heading} by node",
        caption="The median of each node's valid results, in ascending order. Outliers have the "
        "second colour.",
        summary=f"{len(found)} nodes. Outliers: {', '.join(outliers) or 'none'}.",
        x=category_axis(
            "Node, by its number in the table", [str(index + 1) for index in range(len(found))]
        ),
        y=linear_axis(f"{figure.name} ({unit.name})", [unit.of(each.median) for each in found]),
        marks=marks,
    )


def _numbered(found: TimeSeries) -> list[tuple[int, TrendPoint, bool]]:
    """Return the points that are marked, each with its number and whether its level changes.

    Labels may be new with every run: changes of the level come first.
    """
    marked = _marked(found)
    by_weight = sorted(marked, key=lambda point: point.change is not None)
    chosen = {point.row["id"] for point in by_weight[-_MOST_MARKS:]}
    numbered = [point for point in marked if point.row["id"] in chosen]
    return [(number, point, point.change is not None) for number, point in enumerate(numbered, 1)]


def _marked(found: TimeSeries) -> list[TrendPoint]:
    """Return the points at which the level, the conditions or the labels change."""
    before: tuple[str, ...] | None = None
    marked = []
    for point in found.counted:
        is_new_tag = before is not None and bool(set(point.tags) - set(before))
        if point.change is not None or point.changed or is_new_tag:
            marked.append(point)
        before = point.tags
    return marked


def _change_words(change: ChangePoint, judged: tuple[State, ChangeFinding] | None) -> str:
    words = f"the level changes by {_percent(change.ratio, change.low, change.high)}"
    if judged is None:
        return f"{words}, a candidate"
    state, finding = judged
    measured = _percent(finding.ratio, finding.low, finding.high)
    return f"{words}, {state}: {finding.rounds} interleaved rounds show {measured}"


def _percent(ratio: float, low: float, high: float) -> str:
    """Return a ratio as a change, with its bounds: +9.1 % (+8.0 % to +10.2 %)."""
    middle, least, most = (f"{(each - 1) * 100:+.1f} %" for each in (ratio, low, high))
    return f"{middle} ({least} to {most})"


def _rate(group: MeasuredGroup) -> float:
    return float(group.newest["samples_per_second"])


def _point_words(group: MeasuredGroup) -> str:
    where = ", ".join(filter(None, (group.stack, group.node, group.step)))
    tail = duration(group.newest["p99_nanoseconds"])
    excluded = f" ({group.excluded})" if group.excluded else ""
    return f"{where}: {significant(_rate(group))}/s, p99 {tail}{excluded}"


def points_apart(values: Sequence[float]) -> Floats:
    """Return values with a gap after each, so that no line joins their points."""
    found = np.full(2 * len(values), np.nan)
    found[::2] = values
    return found


def texts_apart(texts: Sequence[str]) -> tuple[str, ...]:
    """Return texts of such points, the gaps without text."""
    return tuple(each for text in texts for each in (text, ""))


def start_seconds(started_at: str) -> float:
    """Return a time of a document in Unix time; 0 if it is none."""
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except ValueError:
        return 0.0


def time_axis(title: str, seconds: Sequence[float]) -> ChartAxis:
    """Return an axis of moments in Unix time."""
    low, high = min(seconds), max(seconds)
    if high <= low:
        low, high = low - 43200, high + 43200
    margin = (high - low) / 40
    form = "%m-%d %H:%M" if high - low < 3 * 86400 else "%Y-%m-%d"
    ticks = tuple(
        Tick(at, datetime.fromtimestamp(at, tz=UTC).strftime(form))
        for at in np.linspace(low, high, 4).tolist()
    )
    return ChartAxis(title, low - margin, high + margin, ticks)
