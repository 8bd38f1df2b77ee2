"""Description of a chart: axes, marks and captions.

`svg.py` draws it without a plotting library. matplotlib took 1.6 s to import, and 35 to 180 ms and
55 kB for each chart: too much for a report of three scenarios (some 25 charts). Its colours and
text sizes would not follow the page's theme and width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from inferometer_results.report.axis import ChartAxis, Floats

Tone = Literal["bound", "guide"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; NaN breaks it. Its name is written at its end."""

    x: Floats
    y: Floats
    series: int
    """1 to `palette.SERIES_COUNT`; 0 is grey."""
    name: str = ""
    values: tuple[str, ...] = ()
    """Each point in words, shown next to the pointer."""
    dashed: bool = False
    dense: bool = False
    """So many points that the line is drawn thin."""
    dots: bool = False
    in_legend: bool = False
    """Its name is written above the plot: its points may lie anywhere."""
    unseen: bool = False
    """Only its values are shown, next to the pointer."""


@dataclass(frozen=True, slots=True)
class Area:
    """Bins as a filled shape over a base line: bin i lies from edges[i] to edges[i + 1]."""

    edges: Floats
    heights: Floats
    series: int
    base: float = 0.0
    values: tuple[str, ...] = ()
    """Each bin in words, shown next to the pointer."""
    filled: bool = True
    name: str = ""
    """Written at its highest bin."""


@dataclass(frozen=True, slots=True)
class Band:
    """What lies between two lines, as a layer of a stack; NaN breaks it."""

    x: Floats
    low: Floats
    high: Floats
    series: int
    name: str = ""
    """Written at its end."""
    values: tuple[str, ...] = ()
    """Each point in words, shown next to the pointer."""


@dataclass(frozen=True, slots=True)
class Note:
    """A word within the plot, at the left of this height."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars at categories 0, 1, 2, ..., each with its value written above it."""

    heights: Floats
    series: int
    values: tuple[str, ...]
    written: bool = True
    base: Floats | None = None
    """Where each bar begins, in a stack; None: at the axis."""
    name: str = ""
    """Written above the plot, once for all bars with it."""


@dataclass(frozen=True, slots=True)
class Whiskers:
    """Bounds, drawn as vertical strokes."""

    x: Floats
    low: Floats
    high: Floats
    series: int


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A value that the reader compares with, drawn across the chart."""

    axis: Literal["x", "y"]
    value: float
    text: str
    tone: Tone = "guide"


Mark = Line | Area | Band | Bars | Note | Whiskers | ReferenceLine

HEIGHT = 280.0
TRACK_HEIGHT = 210.0
"""Of charts over time, which stand close so that one is read against the other."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its title, what it shows in a sentence, and its two axes."""

    key: str
    """Unique within the scenario: latency-over-time."""
    title: str
    caption: str
    summary: str
    """What a person who cannot see the chart should know: figures in a sentence."""
    x: ChartAxis
    y: ChartAxis
    marks: Sequence[Mark]
    positions: tuple[str, ...] = field(default=())
    """Each point of the x axis in words, shared by all lines, shown next to the pointer."""
    height: float = HEIGHT
    linked: bool = False
    """Whether its x axis is that of all other linked charts of its scenario: they share margins,
    and a pointer over one shows the same moment in each."""


def finite(values: Sequence[float | None]) -> Floats:
    """Return the values as floats, NaN if there is none."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
