"""How does a chart look as SVG?

Everything is placed in a box of 480 by 280 units which the page scales; colours and text sizes are
the page's, by class. Text of the document is escaped by markupsafe.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from inferometer_cli.report.axis import Floats
from inferometer_cli.report.chart import Area, Bars, Chart, Line, Mark, Reference, Whiskers

Truths = npt.NDArray[np.bool_]

_WIDTH = 480.0
_HEIGHT = 280.0
_TOP = 40.0
_BOTTOM = 44.0
_CHARACTER = 7.6
"""Room for one character of the largest text that the page uses (on phones)."""
_LABEL_GAP = 16.0
_MOST_ROOM = 130.0


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where in the box the data lie."""

    chart: Chart
    left: float
    right: float

    @property
    def top(self) -> float:
        return _TOP

    @property
    def bottom(self) -> float:
        return _HEIGHT - _BOTTOM

    def x(self, values: Floats | float) -> Floats:
        return self.left + self.chart.x.position(values) * (self.right - self.left)

    def y(self, values: Floats | float) -> Floats:
        return self.bottom - self.chart.y.position(values) * (self.bottom - self.top)


def draw(chart: Chart, prefix: str) -> Markup:
    """Return the chart as one <svg> element whose ids begin with the prefix."""
    frame = _frame(chart)
    key = f"{prefix}-{chart.key}"
    parts = [
        Markup(
            '<svg class="chart" viewBox="0 0 {w:.0f} {h:.0f}" role="img" '
            'aria-labelledby="{key}-t {key}-d" data-x="{x}">'
            '<title id="{key}-t">{title}</title><desc id="{key}-d">{summary}</desc>'
        ).format(
            w=_WIDTH,
            h=_HEIGHT,
            key=key,
            x=_listed(chart.positions),
            title=chart.title,
            summary=chart.summary,
        ),
        *_axes(frame),
        *(part for mark in chart.marks for part in _mark(frame, mark)),
        *_guide_labels(frame),
        *_line_labels(frame),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def _frame(chart: Chart) -> _Frame:
    longest = max((len(tick.text) for tick in chart.y.ticks), default=1)
    names = [len(name.text) for name in _names(_Frame(chart, 0.0, _WIDTH))]
    last = len(chart.x.ticks[-1].text) if chart.x.ticks else 1
    room = max(max(names, default=0) * _CHARACTER + 10, last * _CHARACTER / 2 + 2, 12)
    left = min(_MOST_ROOM, longest * _CHARACTER + 10)
    return _Frame(chart, max(left, 24.0), _WIDTH - min(_MOST_ROOM, room))


def _axes(frame: _Frame) -> Iterator[Markup]:
    chart = frame.chart
    for tick in chart.y.ticks:
        y = float(frame.y(tick.value))
        if chart.y.gridded:
            yield _stroke("grid", frame.left, y, frame.right, y)
        yield _text("tick end", frame.left - 6, y + 4, tick.text)
    yield _stroke("base", frame.left, frame.bottom, frame.right, frame.bottom)
    for tick, shown in zip(chart.x.ticks, _without_overlap(frame), strict=True):
        x = float(frame.x(tick.value))
        if chart.x.gridded:
            yield _stroke("grid", x, frame.bottom, x, frame.bottom + 4)
        if shown:
            yield _text("tick middle", x, frame.bottom + 18, tick.text)
    yield _text("axis", 2, 14, chart.y.label)
    yield _text("axis end", frame.right, _HEIGHT - 6, chart.x.label)


def _without_overlap(frame: _Frame) -> list[bool]:
    shown, end = [], -np.inf
    for tick in frame.chart.x.ticks:
        middle, half = float(frame.x(tick.value)), len(tick.text) * _CHARACTER / 2
        shown.append(middle - half > end)
        if shown[-1]:
            end = middle + half + 4
    return shown


def _mark(frame: _Frame, mark: Mark) -> Iterator[Markup]:
    match mark:
        case Line():
            yield from _line(frame, mark)
        case Area():
            yield from _area(frame, mark)
        case Bars():
            yield from _bars(frame, mark)
        case Whiskers():
            for x, low, high in zip(mark.x, mark.low, mark.high, strict=True):
                if not np.isfinite([low, high]).all():
                    continue
                at = float(frame.x(x))
                ends = float(frame.y(low)), float(frame.y(high))
                yield _stroke(f"whisker s{mark.series}", at, ends[0], at, ends[1])
        case Reference():
            yield from _reference(frame, mark)
        case _:
            assert_never(mark)


def _line(frame: _Frame, line: Line) -> Iterator[Markup]:
    xs, ys = frame.x(line.x), frame.y(line.y)
    present = np.isfinite(line.x) & np.isfinite(line.y)
    steps, pen_down = [], False
    for x, y, here in zip(xs.tolist(), ys.tolist(), present.tolist(), strict=True):
        if here:
            steps.append(f"{'L' if pen_down else 'M'}{x:.1f},{y:.1f}")
        pen_down = here
    manner = f"{' dashed' if line.dashed else ''}{' dense' if line.dense else ''}"
    style = f"line s{line.series}{manner}"
    yield _path(style, "".join(steps), line.name, line.values, present)
    dotted = present if line.dots else present & ~_joined(present)
    radius = 3 if line.dots else 1.6
    for x, y in zip(xs[dotted].tolist(), ys[dotted].tolist(), strict=True):
        yield Markup('<circle class="dot s{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>').format(
            line.series, x, y, radius
        )


def _joined(present: Truths) -> Truths:
    """Return which points have a neighbour, so that a line goes through them."""
    padded = np.pad(present, 1)
    return np.asarray(padded[:-2] | padded[2:])


def _area(frame: _Frame, area: Area) -> Iterator[Markup]:
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
        yield _path("unseen", middles, area.name, area.values, everywhere)


def _bars(frame: _Frame, bars: Bars) -> Iterator[Markup]:
    width = min(56.0, 0.62 * float(frame.x(1.0) - frame.x(0.0)))
    base = frame.bottom
    for index, (height, value) in enumerate(zip(bars.heights, bars.values, strict=True)):
        x, y = float(frame.x(float(index))), float(frame.y(height))
        yield Markup(
            '<rect class="bar s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
            "<title>{}</title></rect>"
        ).format(bars.series, x - width / 2, y, width, max(0.0, base - y), value)
        if bars.written:
            yield _text("value middle", x, y - 5, value)


def _reference(frame: _Frame, reference: Reference) -> Iterator[Markup]:
    style = f"reference {reference.tone}"
    match reference.axis:
        case "x":
            x = float(frame.x(reference.value))
            yield _stroke(style, x, frame.top, x, frame.bottom)
        case "y":
            y = float(frame.y(reference.value))
            yield _stroke(style, frame.left, y, frame.right, y)
        case _:
            assert_never(reference.axis)


def _guide_labels(frame: _Frame) -> Iterator[Markup]:
    """Write the upright references' texts above the plot, and within it where two would overlap."""
    upright = [m for m in frame.chart.marks if isinstance(m, Reference) and m.axis == "x"]
    ends: list[float] = []
    for mark in sorted(upright, key=lambda mark: mark.value):
        x, room = float(frame.x(mark.value)), len(mark.text) * _CHARACTER + 8
        turned = x + room > _WIDTH
        start = x - room if turned else x
        row = next((i for i, end in enumerate(ends) if start >= end), len(ends))
        ends[row : row + 1] = [start + room]
        anchor, shift = (" end", -4) if turned else ("", 4)
        if row == 0:
            shift = 0
        y = frame.top - 6 if row == 0 else frame.top - 4 + row * _LABEL_GAP
        yield _text(f"note {mark.tone}{anchor}", x + shift, y, mark.text)


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    style: str
    x: float
    y: float


def _names(frame: _Frame) -> list[_Name]:
    """Return what is written beside the plot: the names of lines and of level references."""
    names = []
    for mark in frame.chart.marks:
        if isinstance(mark, Line) and mark.name:
            present = np.flatnonzero(np.isfinite(mark.y) & np.isfinite(mark.x))
            if len(present):
                x, y = frame.x(mark.x[present[-1]]), frame.y(mark.y[present[-1]])
                names.append(_Name(mark.name, f"s{mark.series}", float(x), float(y)))
        elif isinstance(mark, Reference) and mark.axis == "y":
            y = frame.y(mark.value)
            names.append(_Name(mark.text, mark.tone, frame.right, float(y)))
    return sorted(names, key=lambda name: name.y)


def _line_labels(frame: _Frame) -> Iterator[Markup]:
    """Write each name at the end of its line, pushed apart where the ends are close."""
    names = _names(frame)
    heights = _pushed_apart([name.y for name in names], frame.top + 4, frame.bottom)
    for name, y in zip(names, heights, strict=True):
        yield _text(f"name {name.style}", name.x + 6, y + 4, name.text)
    for mark in frame.chart.marks:
        if isinstance(mark, Area) and mark.name:
            top = int(np.argmax(mark.heights))
            x = float(frame.x(mark.edges[top + 1]))
            y = float(frame.y(mark.base + mark.heights[top]))
            yield _text(f"name s{mark.series}", x + 6, max(y + 8, frame.top + 8), mark.name)


def _pushed_apart(heights: list[float], top: float, bottom: float) -> list[float]:
    """Return ascending heights moved as little as lets each stand clear of the next."""
    # Isotonic regression by pooling: neighbours too close share the mean of their wishes.
    pools: list[tuple[float, int]] = []
    for index, height in enumerate(heights):
        mean, size = height - index * _LABEL_GAP, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        pools.append((mean, size))
    highest = max(top, bottom - (len(heights) - 1) * _LABEL_GAP)
    means = [min(max(mean, top), highest) for mean, size in pools for _ in range(size)]
    return [mean + index * _LABEL_GAP for index, mean in enumerate(means)]


def _path(style: str, steps: str, name: str, values: tuple[str, ...], present: Truths) -> Markup:
    hover = Markup("")
    if values:
        indices = "" if present.all() else ",".join(map(str, np.flatnonzero(present).tolist()))
        listed = _listed([v for v, here in zip(values, present, strict=True) if here])
        hover = Markup(' data-n="{}" data-v="{}" data-i="{}"').format(name, listed, indices)
    return Markup('<path class="{}" d="{}"{}/>').format(style, steps, hover)


def _listed(texts: Sequence[str]) -> str:
    return "|".join(text.replace("|", "/") for text in texts)


def _stroke(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<path class="{}" d="M{:.1f},{:.1f}L{:.1f},{:.1f}"/>').format(
        style, x1, y1, x2, y2
    )


def _text(style: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(
        style, x, y, escape(text)
    )
