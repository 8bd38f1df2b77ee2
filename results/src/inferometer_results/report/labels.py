"""Placement of the labels of lines and references, without overlaps."""

from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from inferometer_results.report.chart import Area, Bars, Line, Note, ReferenceLine
from inferometer_results.report.elements import written
from inferometer_results.report.frame import (
    CHARACTER,
    NAME_CHARACTER,
    WIDTH,
    Frame,
    names,
    shortened,
)

_LABEL_GAP = 16.0
_LEGEND_Y = 14
"""As high as the label of the y axis, which is on the left."""
_LEGEND_DOT = 24.0
"""Room for the dot of a name."""


def guide_labels(frame: Frame) -> Iterator[Markup]:
    """Write the upright references' texts above the plot, and within it where two would overlap."""
    upright = [m for m in frame.chart.marks if isinstance(m, ReferenceLine) and m.axis == "x"]
    ends: list[float] = []
    for mark in sorted(upright, key=lambda mark: mark.value):
        x, room = float(frame.x(mark.value)), len(mark.text) * CHARACTER + 8
        turned = x + room > WIDTH
        start = x - room if turned else x
        row = next((i for i, end in enumerate(ends) if start >= end), len(ends))
        ends[row : row + 1] = [start + room]
        anchor, shift = (" end", -4) if turned else ("", 4)
        if row == 0:
            shift = 0
        y = frame.top - 6 if row == 0 else frame.top - 4 + row * _LABEL_GAP
        yield written(f"note {mark.tone}{anchor}", x + shift, y, mark.text)


def legend(frame: Frame) -> Iterator[Markup]:
    """Write the names of bars, and of lines without a place at their end, above the plot."""
    named = {
        mark.name: mark.series
        for mark in frame.chart.marks
        if isinstance(mark, Line | Bars) and mark.name and _has_legend(mark)
    }
    room = sum(len(name) * NAME_CHARACTER + _LEGEND_DOT for name in named)
    x = min(WIDTH, max(frame.right, len(frame.chart.y.label) * CHARACTER + room))
    for name, series in reversed(named.items()):
        yield written(f"name s{series} end", x, _LEGEND_Y, name)
        x -= len(name) * NAME_CHARACTER + 8
        yield Markup('<circle class="dot s{}" cx="{:.1f}" cy="{}" r="4"/>').format(
            series, x, _LEGEND_Y - 4
        )
        x -= _LEGEND_DOT - 8


def _has_legend(mark: Line | Bars) -> bool:
    return isinstance(mark, Bars) or mark.in_legend


def line_labels(frame: Frame) -> Iterator[Markup]:
    """Write each name at the end of its line, pushed apart where the ends are close."""
    labels = names(frame)
    heights = pushed_apart([name.y for name in labels], frame.top + 4, frame.bottom)
    for name, y in zip(labels, heights, strict=True):
        yield written(f"name {name.style}", name.x + 6, y + 4, shortened(name.text))
    for mark in frame.chart.marks:
        if isinstance(mark, Area) and mark.name:
            top = int(np.argmax(mark.heights))
            x = float(frame.x(mark.edges[top + 1]))
            y = float(frame.y(mark.base + mark.heights[top]))
            yield written(f"name s{mark.series}", x + 6, max(y + 8, frame.top + 8), mark.name)
        elif isinstance(mark, Note):
            yield written("note", frame.left + 4, float(frame.y(mark.y)), mark.text)


def pushed_apart(heights: list[float], top: float, bottom: float) -> list[float]:
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
