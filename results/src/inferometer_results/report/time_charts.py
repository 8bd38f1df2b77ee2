"""Charts of rate, latency and errors over time."""

from dataclasses import replace

import numpy as np

from inferometer_api.results.result import ScenarioResult
from inferometer_results.headline import is_open_loop
from inferometer_results.quantity import significant, time_unit
from inferometer_results.report.axis import linear_axis, log_axis
from inferometer_results.report.chart import Area, Chart, Line, Mark
from inferometer_results.report.latency_charts import LatencyBound, bound_marks
from inferometer_results.report.timeline import Moment, Words, merged, of_windows, words_of

_SPANS_DECADES = 24.0
_SERIES = {"max": 0, "p99": 2, "p99 = max": 2, "p50": 1}


def rate_chart(result: ScenarioResult) -> Chart | None:
    """Return the achieved rate over time, against the scheduled one in open loop."""
    timeline = merged(of_windows(result))
    achieved = timeline.values(_achieved)
    if not np.isfinite(achieved).any():
        return None
    samples = any(step.batch_size > 1 for step in result.steps)
    unit = "samples/s" if samples else "queries/s"
    drawn = [("achieved", achieved, 1)]
    scheduled = timeline.values(_scheduled)
    if any(map(is_open_loop, result.steps)) and np.isfinite(scheduled).any():
        drawn.insert(0, ("scheduled", scheduled, 0))
    marks = [
        Line(
            timeline.x,
            values,
            series,
            name,
            words_of(name, values, lambda value: f"{significant(value)} {unit}"),
            dashed=name == "scheduled",
        )
        for name, values, series in drawn
    ]
    words = Words(
        "rate",
        "Scheduled and achieved rate" if len(marks) > 1 else "Achieved rate",
        f"{'Inferences' if samples else 'Queries'} answered per second, "
        f"{timeline.window_length()}.",
    )
    highest = np.concatenate([line.y for line in marks])
    return timeline.chart(words, linear_axis(f"Rate ({unit})", highest), marks)


def latency_chart(result: ScenarioResult, bound: LatencyBound | None) -> Chart | None:
    """Return the latency of each window: median, 99th percentile and maximum."""
    timeline = of_windows(result)
    found = {
        "max": timeline.of_windows(lambda window: window.max_nanoseconds),
        "p99": timeline.of_windows(lambda window: window.p99_nanoseconds),
        "p50": timeline.of_windows(lambda window: window.p50_nanoseconds),
    }
    if np.array_equal(found["max"], found["p99"], equal_nan=True):
        # With fewer than 100 queries a window the 99th percentile is the largest.
        found = {"p99 = max": found["p99"], "p50": found["p50"]}
    found = {name: values for name, values in found.items() if np.isfinite(values).any()}
    if not found:
        return None
    known = np.concatenate(list(found.values()))
    known = known[np.isfinite(known)]
    unit = time_unit([float(known.min()), float(known.max())])
    shown = known / unit.size
    references, bound_note = bound_marks(bound, unit, float(shown.max()))
    if bound is not None and references:
        shown = np.append(shown, unit.of(bound.nanoseconds))
    marks: list[Mark] = [*references]
    for name, values in found.items():
        words = words_of(name, values, unit.named)
        y = values / unit.size
        marks.append(Line(timeline.x, y, _SERIES[name], name, words, dense=timeline.dense))
    positive = shown[shown > 0]
    if len(positive) and positive.max() / positive.min() >= _SPANS_DECADES:
        axis = log_axis(f"Latency ({unit.name}, logarithmic)", positive)
    else:
        axis = linear_axis(f"Latency ({unit.name})", shown)
    caption = f"Median, 99th percentile and maximum of the queries in each window.{bound_note}"
    return timeline.chart(Words("latency", "Latency over time", caption), axis, marks)


def error_chart(result: ScenarioResult) -> Chart | None:
    """Return failed queries over time; None if there are none."""
    timeline = merged(of_windows(result))
    failed = np.nan_to_num(timeline.of_windows(lambda window: window.failed))
    if not failed.any():
        return None
    words = Words(
        "errors",
        "Errors over time",
        f"Queries that failed, {timeline.window_length()}; they have no latency.",
    )
    values = tuple(f"{count:.0f} failed" for count in failed)
    area = Area(timeline.edges(), failed, 2, values=values)
    chart = timeline.chart(words, linear_axis("Failed queries", failed, whole=True), [area])
    summary = f"{failed.sum():.0f} failed, at most {failed.max():.0f} in a window."
    return replace(chart, summary=summary)


def _achieved(moment: Moment) -> float | None:
    window = moment.window
    if window is None or not window.duration_milliseconds:
        return None
    return window.succeeded * moment.samples_per_query * 1000 / window.duration_milliseconds


def _scheduled(moment: Moment) -> float | None:
    window = moment.window
    if window is None or window.scheduled is None:
        return None
    # If a window is mostly drain, one query more or less changes its rate arbitrarily.
    if 2 * moment.schedule_milliseconds < max(1, window.duration_milliseconds):
        return None
    return window.scheduled * moment.samples_per_query * 1000 / moment.schedule_milliseconds
