"""SVG drawings of charts.

A drawing is 480 units wide, and the page scales it. Colours and text sizes come from the page's
style sheet.
"""

from collections.abc import Iterator
from typing import assert_never

import numpy as np
from markupsafe import Markup

from inferometer_results.report.chart import (
    Area,
    Band,
    Bars,
    Chart,
    Line,
    Mark,
    Note,
    ReferenceLine,
    Whiskers,
)
from inferometer_results.report.elements import (
    Truths,
    attribute_text,
    path,
    steps_through,
    stroke,
    written,
)
from inferometer_results.report.frame import CHARACTER, WIDTH, Frame, Margins
from inferometer_results.report.labels import guide_labels, legend, line_labels

_LINKED = Markup(' data-linked=""')
_DOT = Markup('<circle class="dot s%d" cx="%.1f" cy="%.1f" r="%s"/>')


def draw(chart: Chart, prefix: str, margins: Margins | None = None) -> Markup:
    """Return the chart as one <svg> element whose ids begin with the prefix.

    With `margins` its plot lies where those of other charts with them lie.
    """
    frame = Frame(chart, margins or Margins.of(chart))
    key = f"{prefix}-{chart.key}"
    parts = [
        Markup(
            '<svg class="chart" viewBox="0 0 {w:.0f} {h:.0f}" role="img" '
            'aria-labelledby="{key}-t {key}-d" data-x="{x}"{linked}>'
            '<title id="{key}-t">{title}</title><desc id="{key}-d">{summary}</desc>'
        ).format(
            w=WIDTH,
            h=chart.height,
            key=key,
            x=attribute_text(chart.positions),
            linked=_LINKED if chart.linked else "",
            title=chart.title,
            summary=chart.summary,
        ),
        *_axes(frame),
        *(part for mark in chart.marks for part in _mark(frame, mark)),
        *guide_labels(frame),
        *line_labels(frame),
        *legend(frame),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def _axes(frame: Frame) -> Iterator[Markup]:
    chart = frame.chart
    for tick in chart.y.ticks:
        y = float(frame.y(tick.value))
        if chart.y.gridded:
            yield stroke("grid", frame.left, y, frame.right, y)
        yield written("tick end", frame.left - 6, y + 4, tick.text)
    yield stroke("base", frame.left, frame.bottom, frame.right, frame.bottom)
    for tick, shown in zip(chart.x.ticks, _without_overlap(frame), strict=True):
        x = float(frame.x(tick.value))
        if chart.x.gridded:
            yield stroke("grid", x, frame.bottom, x, frame.bottom + 4)
        if shown:
            yield written("tick middle", x, frame.bottom + 18, tick.text)
    yield written("axis", 2, 14, chart.y.label)
    yield written("axis end", frame.right, chart.height - 6, chart.x.label)


def _without_overlap(frame: Frame) -> list[bool]:
    shown, end = [], -np.inf
    for tick in frame.chart.x.ticks:
        middle, half = float(frame.x(tick.value)), len(tick.text) * CHARACTER / 2
        shown.append(middle - half > end)
        if shown[-1]:
            end = middle + half + 4
    return shown


def _mark(frame: Frame, mark: Mark) -> Iterator[Markup]:
    match mark:
        case Line():
            yield from _line(frame, mark)
        case Area():
            yield from _area(frame, mark)
        case Band():
            yield from _band(frame, mark)
        case Bars():
            yield from _bars(frame, mark)
        case Whiskers():
            for x, low, high in zip(mark.x, mark.low, mark.high, strict=True):
                if not np.isfinite([low, high]).all():
                    continue
                at = float(frame.x(x))
                ends = float(frame.y(low)), float(frame.y(high))
                yield stroke(f"whisker s{mark.series}", at, ends[0], at, ends[1])
        case ReferenceLine():
            yield from _reference(frame, mark)
        case Note():
            return
        case _:
            assert_never(mark)


def _line(frame: Frame, line: Line) -> Iterator[Markup]:
    xs, ys = frame.x(line.x), frame.y(line.y)
    present = np.isfinite(line.x) & np.isfinite(line.y)
    manner = f"{' dashed' if line.dashed else ''}{' dense' if line.dense else ''}"
    style = "unseen" if line.unseen else f"line s{line.series}{manner}"
    yield path(style, steps_through(xs, ys, present), line.name, line.values, present)
    if line.unseen:
        return
    dotted = present if line.dots else present & ~_joined(present)
    radius = 3 if line.dots else 1.6
    for x, y in zip(xs[dotted].tolist(), ys[dotted].tolist(), strict=True):
        yield _DOT % (line.series, x, y, radius)


def _joined(present: Truths) -> Truths:
    """Return which points have a neighbour, so that a line goes through them."""
    padded = np.pad(present, 1)
    return np.asarray(padded[:-2] | padded[2:])


def _area(frame: Frame, area: Area) -> Iterator[Markup]:
    xs = frame.x(area.edges)
    tops = frame.y(area.base + area.heights)
    base = float(frame.y(area.base))
    outline = "".join(
        f"V{top:.1f}H{x:.1f}" for top, x in zip(tops.tolist(), xs[1:].tolist(), strict=True)
    )
    shape = f"M{float(xs[0]):.1f},{base:.1f}{outline}V{base:.1f}"
    style = f"area s{area.series}" if area.filled else f"line s{area.series}"
    yield Markup('<path class="{}" d="{}"/>').format(style, shape)
    # The pointer finds bins by their middles, on a line that is not seen.
    middles = "".join(
        f"{'L' if index else 'M'}{x:.1f},{y:.1f}"
        for index, (x, y) in enumerate(zip((xs[:-1] + xs[1:]) / 2, tops, strict=True))
    )
    everywhere = np.ones(len(tops), dtype=np.bool_)
    if area.values:
        yield path("unseen", middles, area.name, area.values, everywhere)


def _band(frame: Frame, band: Band) -> Iterator[Markup]:
    xs, lows, highs = frame.x(band.x), frame.y(band.low), frame.y(band.high)
    present = np.isfinite(band.x) & np.isfinite(band.low) & np.isfinite(band.high)
    for run in _runs(present):
        forth = steps_through(xs[run], highs[run], present[run])
        back = steps_through(xs[run][::-1], lows[run][::-1], present[run]).replace("M", "L", 1)
        yield Markup('<path class="layer s{}" d="{}Z"/>').format(band.series, forth + back)
    line = steps_through(xs, highs, present)
    yield path(f"line s{band.series}", line, band.name, band.values, present)


def _runs(present: Truths) -> Iterator[slice]:
    """Yield the stretches of points that are all present."""
    edges = np.flatnonzero(np.diff(np.pad(present.astype(np.int8), 1)))
    for start, end in edges.reshape(-1, 2).tolist():
        yield slice(start, end)


def _bars(frame: Frame, bars: Bars) -> Iterator[Markup]:
    width = min(56.0, 0.62 * float(frame.x(1.0) - frame.x(0.0)))
    bases = np.zeros(len(bars.heights)) if bars.base is None else bars.base
    drawn = zip(bases, bars.heights, bars.values, strict=True)
    for index, (start, height, value) in enumerate(drawn):
        if not np.isfinite(height):
            continue
        x, y = float(frame.x(float(index))), float(frame.y(start + height))
        base = frame.bottom if bars.base is None else float(frame.y(start))
        yield Markup(
            '<rect class="bar s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
            "<title>{}</title></rect>"
        ).format(bars.series, x - width / 2, y, width, max(0.0, base - y), value)
        if bars.written:
            yield written("value middle", x, y - 5, value)


def _reference(frame: Frame, reference: ReferenceLine) -> Iterator[Markup]:
    style = f"reference {reference.tone}"
    match reference.axis:
        case "x":
            x = float(frame.x(reference.value))
            yield stroke(style, x, frame.top, x, frame.bottom)
        case "y":
            y = float(frame.y(reference.value))
            yield stroke(style, frame.left, y, frame.right, y)
        case _:
            assert_never(reference.axis)
