"""How did a scenario go over time?

The steps of a scenario stand one after another on one time axis; their warm-ups are left out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from inferometer_api.result import ScenarioResult, Step, UsageSample, Window
from inferometer_cli.headline import is_open_loop
from inferometer_cli.quantity import byte_unit, significant, time_unit
from inferometer_cli.report.axis import Axis, Floats, linear_axis, log_axis, span_axis
from inferometer_cli.report.chart import Chart, Line, Mark, Reference, finite
from inferometer_cli.report.latency_charts import Bound

_SPANS_DECADES = 24.0
_BOUND_IN_SIGHT = 3.0


@dataclass(frozen=True, slots=True)
class _Clock:
    """The unit of the time axis."""

    name: str
    seconds: float

    def of(self, milliseconds: float) -> float:
        return milliseconds / 1000 / self.seconds


@dataclass(frozen=True, slots=True)
class _Row:
    """What stands at one moment; a break between two steps has no value at all."""

    at_milliseconds: float
    window: Window | None = None
    usage: UsageSample | None = None
    samples_per_query: int = 1


def rate_chart(result: ScenarioResult) -> Chart | None:
    """Return the achieved rate over time, against the scheduled one in open loop."""
    rows = _windows(result)
    if not rows:
        return None
    batched = any(step.batch_size > 1 for step in result.steps)
    unit = "samples/s" if batched else "queries/s"
    achieved = _of_windows(rows, _achieved)
    marks: list[Mark] = []
    if any(is_open_loop(step) for step in result.steps):
        scheduled = _of_windows(rows, _scheduled)
        words = _words("scheduled", scheduled, unit)
        marks.append(Line(_x(rows, result), scheduled, 0, "scheduled", words, dashed=True))
    words = _words("achieved", achieved, unit)
    marks.append(Line(_x(rows, result), achieved, 1, "achieved", words))
    return _chart(
        result,
        rows,
        key="rate",
        title="Scheduled and achieved rate" if len(marks) > 1 else "Achieved rate",
        caption=f"{'Inferences' if batched else 'Queries'} answered per second, window by window.",
        y=linear_axis(f"Rate ({unit})", _all_y(marks)),
        marks=marks,
    )


def latency_chart(result: ScenarioResult, bound: Bound | None) -> Chart | None:
    """Return the latency of each window: median, 99th percentile and maximum."""
    rows = _windows(result)
    series: list[tuple[str, int, Callable[[Window], float | None]]] = [
        ("max", 0, lambda window: window.max_nanoseconds),
        ("p99", 2, lambda window: window.p99_nanoseconds),
        ("p50", 1, lambda window: window.p50_nanoseconds),
    ]
    found = {name: _of_windows(rows, lambda row, of=of: _get(row, of)) for name, _, of in series}
    known = np.concatenate([*found.values(), np.empty(0)])
    known = known[np.isfinite(known)]
    if not len(known):
        return None
    unit = time_unit([float(known.min()), float(known.max())])
    marks: list[Mark] = []
    for name, colour, _ in series:
        words = tuple(f"{name} {unit.named(v) if np.isfinite(v) else '–'}" for v in found[name])
        marks.append(Line(_x(rows, result), found[name] / unit.size, colour, name, words))
    values = known / unit.size
    if bound is not None and unit.of(bound.nanoseconds) <= values.max() * _BOUND_IN_SIGHT:
        text = f"bound {unit.named(bound.nanoseconds)}"
        marks.append(Reference("y", unit.of(bound.nanoseconds), text, "bound"))
        values = np.append(values, unit.of(bound.nanoseconds))
    label = f"Latency ({unit.name})"
    wide = values.max() / max(values.min(), 1e-12) >= _SPANS_DECADES
    return _chart(
        result,
        rows,
        key="latency",
        title="Latency over time",
        caption="Median, 99th percentile and maximum of the queries answered in each window.",
        y=log_axis(f"{label[:-1]}, logarithmic)", values) if wide else linear_axis(label, values),
        marks=marks,
    )


def error_chart(result: ScenarioResult) -> Chart | None:
    """Return failed queries over time, where there is any."""
    rows = _windows(result)
    failed = _of_windows(rows, lambda row: None if row.window is None else row.window.failed)
    if not np.nansum(failed):
        return None
    words = tuple(f"{v:.0f} failed" if np.isfinite(v) else "" for v in failed)
    return _chart(
        result,
        rows,
        key="errors",
        title="Errors over time",
        caption="Queries that failed in each window; they are in no latency.",
        y=linear_axis("Failed queries", failed),
        marks=[Line(_x(rows, result), failed, 2, "failed", words)],
    )


def cpu_chart(result: ScenarioResult) -> Chart | None:
    """Return the CPU that server and load generator used, in cores."""
    rows = _usages(result)
    server = _of_usages(rows, lambda usage: usage.server_cpu_cores)
    client = _of_usages(rows, lambda usage: usage.client_cpu_cores)
    return _usage_chart(
        result,
        rows,
        key="cpu",
        title="CPU",
        caption="Cores in use: CPU seconds per second, since the sample before.",
        label="CPU (cores)",
        lines=(("server", server), ("client", client)),
        word=lambda value: f"{significant(value)} cores",
    )


def memory_chart(result: ScenarioResult) -> Chart | None:
    """Return the resident memory of server and load generator."""
    rows = _usages(result)
    server = _of_usages(rows, lambda usage: usage.server_memory_bytes)
    client = _of_usages(rows, lambda usage: usage.client_memory_bytes)
    known = [v for v in np.concatenate([server, client]).tolist() if np.isfinite(v)]
    unit = byte_unit(known)
    return _usage_chart(
        result,
        rows,
        key="memory",
        title="Memory",
        caption="Resident memory of the server's processes and of the load generator.",
        label=f"Memory ({unit.name})",
        lines=(("server", server / unit.size), ("client", client / unit.size)),
        word=lambda value: f"{significant(value)} {unit.name}",
    )


def _usage_chart(  # noqa: PLR0913 - the words of one chart
    result: ScenarioResult,
    rows: list[_Row],
    *,
    key: str,
    title: str,
    caption: str,
    label: str,
    lines: tuple[tuple[str, Floats], tuple[str, Floats]],
    word: Callable[[float], str],
) -> Chart | None:
    marks = [
        Line(_x(rows, result), values, series, name, _words(name, values, word))
        for series, (name, values) in enumerate(lines, 1)
        if np.isfinite(values).any()
    ]
    if not marks:
        return None
    y = linear_axis(label, _all_y(marks))
    return _chart(result, rows, key=key, title=title, caption=caption, y=y, marks=marks)


def _chart(  # noqa: PLR0913 - the words of one chart
    result: ScenarioResult,
    rows: list[_Row],
    *,
    key: str,
    title: str,
    caption: str,
    y: Axis,
    marks: Iterable[Mark],
) -> Chart:
    clock = _clock(result)
    steps = result.steps if len(result.steps) > 1 else []
    borders = [
        Reference("x", clock.of(start), step.label)
        for start, step in zip(_starts(result), steps, strict=False)
    ]
    drawn = list(marks)
    return Chart(
        key=f"{key}-over-time",
        title=title,
        caption=caption,
        summary=" ".join(_range_of(mark, y) for mark in drawn if isinstance(mark, Line)),
        x=span_axis(f"Time ({clock.name})", 0.0, clock.of(_starts(result)[-1])),
        y=y,
        marks=[*borders, *drawn],
        positions=tuple(f"{significant(clock.of(r.at_milliseconds))} {clock.name}" for r in rows),
    )


def _range_of(line: Line, y: Axis) -> str:
    present = line.y[np.isfinite(line.y)]
    low, high = significant(float(present.min())), significant(float(present.max()))
    return f"{line.name}: from {low} to {high}; {y.label}."


def _starts(result: ScenarioResult) -> list[float]:
    """Return where each step starts on the common time axis (ms), and where the last one ends."""
    starts = [0.0]
    for step in result.steps:
        starts.append(starts[-1] + _length(step))
    return starts


def _length(step: Step) -> float:
    ends = [w.start_milliseconds + w.duration_milliseconds for w in step.windows]
    return max([step.duration_nanoseconds / 1e6, *map(float, ends)])


def _clock(result: ScenarioResult) -> _Clock:
    seconds = _starts(result)[-1] / 1000
    if seconds <= 1000:
        return _Clock("s", 1.0)
    return _Clock("min", 60.0) if seconds <= 4 * 3600 else _Clock("h", 3600.0)


def _windows(result: ScenarioResult) -> list[_Row]:
    rows: list[_Row] = []
    for start, step in zip(_starts(result), result.steps, strict=False):
        rows += [
            _Row(
                start + window.start_milliseconds + window.duration_milliseconds / 2,
                window=window,
                samples_per_query=step.batch_size,
            )
            for window in step.windows
        ]
        rows.append(_Row(start + _length(step)))
    return rows[:-1]


def _usages(result: ScenarioResult) -> list[_Row]:
    rows: list[_Row] = []
    for start, step in zip(_starts(result), result.steps, strict=False):
        rows += [_Row(start + usage.at_milliseconds, usage=usage) for usage in step.usage]
        rows.append(_Row(start + _length(step)))
    return rows[:-1]


def _x(rows: list[_Row], result: ScenarioResult) -> Floats:
    clock = _clock(result)
    return np.array([clock.of(row.at_milliseconds) for row in rows])


def _of_windows(rows: list[_Row], value: Callable[[_Row], float | None]) -> Floats:
    return finite([value(row) for row in rows])


def _of_usages(rows: list[_Row], value: Callable[[UsageSample], float | None]) -> Floats:
    return finite([None if row.usage is None else value(row.usage) for row in rows])


def _get(row: _Row, value: Callable[[Window], float | None]) -> float | None:
    return None if row.window is None else value(row.window)


def _achieved(row: _Row) -> float | None:
    if row.window is None or not row.window.duration_milliseconds:
        return None
    answered = row.window.succeeded * row.samples_per_query
    return answered * 1000 / row.window.duration_milliseconds


def _scheduled(row: _Row) -> float | None:
    window = row.window
    if window is None or window.scheduled is None or not window.duration_milliseconds:
        return None
    return window.scheduled * row.samples_per_query * 1000 / window.duration_milliseconds


def _words(name: str, values: Floats, unit: str | Callable[[float], str]) -> tuple[str, ...]:
    word = unit if callable(unit) else lambda value: f"{significant(value)} {unit}"
    return tuple(f"{name} {word(v)}" if np.isfinite(v) else "" for v in values.tolist())


def _all_y(marks: Iterable[Mark]) -> list[float]:
    lines = [mark.y for mark in marks if isinstance(mark, Line)]
    return [float(value) for line in lines for value in line]
