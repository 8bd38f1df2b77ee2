"""The time axis that all charts over time share.

The steps of a scenario follow each other in the order of measurement, without their warm-ups.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferometer_api.results.result import NodeSample, ScenarioResult, Step, UsageSample, Window
from inferometer_results.quantity import significant
from inferometer_results.report.axis import ChartAxis, Floats, linear_axis, span_axis
from inferometer_results.report.chart import TRACK_HEIGHT, Chart, Line, Mark, ReferenceLine, finite

MOST_POINTS = 150
"""The number of points that are distinguishable on an axis."""
_LEAST_GAP = 0.3
"""Of the usual time between two samples of a node."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A window, a usage sample or samples of a node; a break between two steps is neither."""

    at_milliseconds: float
    """The middle of the window, on the scenario's axis."""
    window: Window | None = None
    schedule_milliseconds: float = 0.0
    """How much of the window is within the schedule: not the drain that joined it."""
    usage: UsageSample | None = None
    samples_per_query: int = 1
    node: tuple[NodeSample, ...] = ()
    """Neighbouring points that share a place because they would not be distinguishable."""


@dataclass(frozen=True, slots=True)
class Words:
    """What is written about a chart."""

    key: str
    title: str
    caption: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments on a time axis in the unit that suits its length."""

    moments: tuple[Moment, ...]
    borders: tuple[tuple[float, str], ...]
    """Where (ms) each step starts and its label, where there is more than one."""
    end_milliseconds: float

    @property
    def x(self) -> Floats:
        """Return where the moments lie on the axis."""
        return np.array([self._in_unit(moment.at_milliseconds) for moment in self.moments])

    @property
    def dense(self) -> bool:
        """Return whether there are more moments than distinguishable points."""
        return len(self.moments) > MOST_POINTS

    def values(self, of: Callable[[Moment], float | None]) -> Floats:
        """Return a value of each moment, NaN if it has none."""
        return finite([of(moment) for moment in self.moments])

    def of_windows(self, value: Callable[[Window], float | None]) -> Floats:
        """Return a value of each window, NaN in a break."""
        return self.values(lambda m: None if m.window is None else value(m.window))

    def of_usage(self, value: Callable[[UsageSample], float | None]) -> Floats:
        """Return a value of each usage sample, NaN in a break."""
        return self.values(lambda m: None if m.usage is None else value(m.usage))

    def of_node(self, value: Callable[[NodeSample], float | None]) -> Floats:
        """Return a value of each moment, the mean over its samples; NaN if none has it."""

        def mean(moment: Moment) -> float | None:
            found = [each for sample in moment.node if (each := value(sample)) is not None]
            return statistics.fmean(found) if found else None

        return self.values(mean)

    def steps(self) -> Iterable[tuple[float, float]]:
        """Yield where each step begins and ends on the axis."""
        starts = [0.0, *(at for at, _ in self.borders[1:])]
        for start, end in itertools.pairwise([*starts, self.end_milliseconds]):
            yield self._in_unit(start), self._in_unit(end)

    def edges(self) -> Floats:
        """Return where the windows begin and end: one more than there are moments."""
        return np.array([self._in_unit(end) for end in (0.0, *map(_end, self.moments))])

    def window_length(self) -> str:
        """Return how long a window is, in words."""
        lengths = [m.window.duration_milliseconds for m in self.moments if m.window is not None]
        # The last window of a step may be shorter, or longer by what was left of a second.
        seconds = statistics.median_low(lengths or [0]) / 1000
        return f"in windows of {f'{int(seconds):,}' if seconds >= 1 else f'{seconds:.3g}'} s"

    def chart(self, words: Words, y: ChartAxis, marks: Sequence[Mark]) -> Chart:
        """Return a chart over this time."""
        borders = [ReferenceLine("x", self._in_unit(at), label) for at, label in self.borders]
        unit, _ = self._unit()
        return Chart(
            key=f"{words.key}-over-time",
            title=words.title,
            caption=words.caption,
            summary=" ".join(_range_of(mark, y) for mark in marks if isinstance(mark, Line)),
            x=span_axis(f"Time ({unit})", 0.0, self._in_unit(self.end_milliseconds)),
            y=y,
            marks=[*borders, *marks],
            positions=tuple(f"{significant(x)} {unit}" for x in self.x.tolist()),
            height=TRACK_HEIGHT,
            linked=True,
        )

    def line(self, name: str, values: Floats, series: int, unit: str) -> Line:
        """Return values of each moment as a line, named at its end and read in this unit."""
        words = words_of(name, values, lambda value: f"{significant(value)} {unit}")
        return Line(self.x, values, series, name, words, dense=self.dense)

    def lines_chart(self, words: Words, label: str, lines: Sequence[Line]) -> Chart | None:
        """Return a chart of these lines over an axis from zero; None if there is none."""
        if not lines:
            return None
        highest = np.concatenate([line.y for line in lines])
        return self.chart(words, linear_axis(label, highest.tolist()), lines)

    def _unit(self) -> tuple[str, float]:
        seconds = self.end_milliseconds / 1000
        if seconds <= 1000:
            return "s", 1.0
        return ("min", 60.0) if seconds <= 4 * 3600 else ("h", 3600.0)

    def _in_unit(self, milliseconds: float) -> float:
        return milliseconds / 1000 / self._unit()[1]


def of_windows(result: ScenarioResult) -> Timeline:
    """Return the timeline of a scenario's windows."""

    def moments(step: Step, start: float) -> Iterable[Moment]:
        for window in step.windows:
            begin, length = window.start_milliseconds, window.duration_milliseconds
            of_schedule = min(float(length), step.duration_nanoseconds / 1e6 - begin)
            yield Moment(
                start + begin + length / 2,
                window=window,
                schedule_milliseconds=max(0.0, of_schedule),
                samples_per_query=step.batch_size,
            )

    return _timeline(result, moments)


def of_usage(result: ScenarioResult) -> Timeline:
    """Return the timeline of a scenario's usage samples."""

    def moments(step: Step, start: float) -> Iterable[Moment]:
        for usage in step.usage:
            yield Moment(start + usage.at_milliseconds, usage=usage)

    return _timeline(result, moments)


def of_node(result: ScenarioResult, node: str) -> Timeline:
    """Return the timeline of a node's agent, thinned to distinguishable points."""

    def moments(step: Step, start: float) -> Iterable[Moment]:
        for telemetry in step.telemetry:
            for sample in _reporting(telemetry.samples) if telemetry.node == node else ():
                yield Moment(start + sample.at_milliseconds, node=(sample,))

    return _thinned(_timeline(result, moments))


def merged(timeline: Timeline) -> Timeline:
    """Return the timeline thinned to distinguishable points, adding the counts of neighbours."""
    together = max(1, math.ceil(len(timeline.moments) / MOST_POINTS))
    joined: list[Moment] = []
    for _, group in itertools.groupby(timeline.moments, key=lambda m: m.window is not None):
        step = list(group)
        joined += [_joined(step[at : at + together]) for at in range(0, len(step), together)]
    return replace(timeline, moments=tuple(joined))


def _reporting(samples: Sequence[NodeSample]) -> Iterator[NodeSample]:
    """Yield the samples of a step that belong on the axis."""
    # What is before the measurement, the idle time, has no place on it.
    inside = [sample for sample in samples if sample.at_milliseconds >= 0]
    gaps = [b.at_milliseconds - a.at_milliseconds for a, b in itertools.pairwise(inside)]
    least = _LEAST_GAP * statistics.median(gaps) if gaps else 0.0
    yield from inside[:1]
    # The one at the window's end may come at once after another: its rates are noise.
    yield from (each for gap, each in zip(gaps, inside[1:], strict=True) if gap >= least)


def _thinned(timeline: Timeline) -> Timeline:
    together = max(1, math.ceil(len(timeline.moments) / MOST_POINTS))
    thinned: list[Moment] = []
    for _, group in itertools.groupby(timeline.moments, key=lambda m: bool(m.node)):
        step = list(group)
        for at in range(0, len(step), together):
            some = step[at : at + together]
            middle = statistics.fmean(moment.at_milliseconds for moment in some)
            thinned.append(Moment(middle, node=tuple(s for moment in some for s in moment.node)))
    return replace(timeline, moments=tuple(thinned))


def words_of(name: str, values: Floats, word: Callable[[float], str]) -> tuple[str, ...]:
    """Return each value in words with its name, nothing if there is none."""
    return tuple(f"{name} {word(v)}" if math.isfinite(v) else "" for v in values.tolist())


def _timeline(
    result: ScenarioResult, of_step: Callable[[Step, float], Iterable[Moment]]
) -> Timeline:
    moments: list[Moment] = []
    borders: list[tuple[float, str]] = []
    start = 0.0
    for step in result.steps:
        if moments:
            moments.append(Moment(start))
        moments += of_step(step, start)
        borders.append((start, step.label))
        start += _length(step)
    several = tuple(borders) if len(borders) > 1 else ()
    return Timeline(tuple(moments), several, start)


def _length(step: Step) -> float:
    ends = [w.start_milliseconds + w.duration_milliseconds for w in step.windows]
    return max([step.duration_nanoseconds / 1e6, *map(float, ends)])


def _joined(moments: list[Moment]) -> Moment:
    windows = [moment.window for moment in moments if moment.window is not None]
    if len(windows) < 2:
        return moments[0]
    milliseconds = sum(window.duration_milliseconds for window in windows)
    scheduled = [window.scheduled for window in windows if window.scheduled is not None]
    whole = Window(
        start_milliseconds=windows[0].start_milliseconds,
        duration_milliseconds=milliseconds,
        scheduled=sum(scheduled) if len(scheduled) == len(windows) else None,
        succeeded=sum(window.succeeded for window in windows),
        failed=sum(window.failed for window in windows),
    )
    start = moments[0].at_milliseconds - windows[0].duration_milliseconds / 2
    return replace(
        moments[0],
        at_milliseconds=start + milliseconds / 2,
        window=whole,
        schedule_milliseconds=sum(moment.schedule_milliseconds for moment in moments),
    )


def _end(moment: Moment) -> float:
    half = moment.window.duration_milliseconds / 2 if moment.window is not None else 0.0
    return moment.at_milliseconds + half


def _range_of(line: Line, y: ChartAxis) -> str:
    present = line.y[np.isfinite(line.y)]
    low, high = significant(float(present.min())), significant(float(present.max()))
    return f"{line.name}: from {low} to {high}; {y.label}."
