"""The layout of a chart: the plot area and the room for the labels around it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from inferometer_results.report.axis import Floats
from inferometer_results.report.chart import Band, Chart, Line, ReferenceLine

WIDTH = 480.0
CHARACTER = 7.6
"""Room for one character of the largest text that the page uses (on phones)."""
NAME_CHARACTER = 9.4
"""The same for names, which are bold."""
TOP = 40.0
BOTTOM = 44.0
_MOST_ROOM = 150.0


@dataclass(frozen=True, slots=True)
class Margins:
    """The room around the data: tick labels on the left, names of lines on the right."""

    left: float
    right: float

    @classmethod
    def of(cls, chart: Chart) -> Self:
        """Return the room that a chart's own words take."""
        longest = max((len(tick.text) for tick in chart.y.ticks), default=1)
        lengths = [len(name.text) for name in names(Frame(chart, cls(0.0, 0.0)))]
        last = len(chart.x.ticks[-1].text) if chart.x.ticks else 1
        room = max(max(lengths, default=0) * NAME_CHARACTER + 14, last * CHARACTER / 2 + 2, 12)
        left = min(_MOST_ROOM, longest * CHARACTER + 10)
        return cls(max(left, 24.0), min(_MOST_ROOM, room))

    @classmethod
    def shared(cls, charts: Iterable[Chart]) -> Self | None:
        """Return the room that suffices for each of the charts; None if there is none."""
        each = [cls.of(chart) for chart in charts]
        if not each:
            return None
        return cls(max(one.left for one in each), max(one.right for one in each))


@dataclass(frozen=True, slots=True)
class Frame:
    """Where in the box the data lie."""

    chart: Chart
    margins: Margins

    @property
    def left(self) -> float:
        """Return where the plot begins."""
        return self.margins.left

    @property
    def right(self) -> float:
        """Return where the plot ends."""
        return WIDTH - self.margins.right

    @property
    def top(self) -> float:
        """Return the plot's upper edge."""
        return TOP

    @property
    def bottom(self) -> float:
        """Return the plot's lower edge."""
        return self.chart.height - BOTTOM

    def x(self, values: Floats | float) -> Floats:
        """Return where values of the x axis lie."""
        return self.left + self.chart.x.position(values) * (self.right - self.left)

    def y(self, values: Floats | float) -> Floats:
        """Return where values of the y axis lie."""
        return self.bottom - self.chart.y.position(values) * (self.bottom - self.top)


@dataclass(frozen=True, slots=True)
class Name:
    """A label next to the plot, at the height of what it names."""

    text: str
    style: str
    x: float
    y: float


def names(frame: Frame) -> list[Name]:
    """Return the labels next to the plot: the names of lines, bands and level references."""
    found = []
    for mark in frame.chart.marks:
        match mark:
            case Line(in_legend=True):
                pass
            case Line() | Band() if mark.name:
                height = mark.y if isinstance(mark, Line) else (mark.low + mark.high) / 2
                present = np.flatnonzero(np.isfinite(height) & np.isfinite(mark.x))
                if len(present):
                    x, y = frame.x(mark.x[present[-1]]), frame.y(height[present[-1]])
                    found.append(Name(mark.name, f"s{mark.series}", float(x), float(y)))
            case ReferenceLine(axis="y"):
                y = frame.y(mark.value)
                found.append(Name(mark.text, mark.tone, frame.right, float(y)))
            case _:
                pass
    return sorted(found, key=lambda name: name.y)


def shortened(text: str) -> str:
    """Return a name that fits next to the plot; the pointer shows the whole."""
    most = int((_MOST_ROOM - 14) / NAME_CHARACTER)
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
