"""Charts over time show each window with its own length."""

from collections.abc import Sequence

import numpy as np
import pytest

from inferometer_api.results.result import ScenarioResult, Verdict, Window
from inferometer_results.report.chart import Line
from inferometer_results.report.time_charts import rate_chart
from inferometer_results.report.timeline import MOST_POINTS, merged, of_windows
from support.steps import Load, a_step


def windows_of(lengths: Sequence[int], scheduled: int) -> list[Window]:
    """Return windows of these milliseconds, in all but the last of which so many were due."""
    starts = np.cumsum([0, *lengths]).tolist()
    return [
        Window(
            start_milliseconds=start,
            duration_milliseconds=length,
            scheduled=scheduled if length >= 1000 else 0,
            succeeded=scheduled,
            failed=0,
        )
        for start, length in zip(starts, lengths, strict=False)
    ]


def an_open_loop(lengths: Sequence[int], seconds: int) -> ScenarioResult:
    """Return a server at 96 queries a second, scheduled for so long, with these windows."""
    step = a_step(Load(qps=96, seconds=2)).model_copy(
        update={
            "windows": windows_of(lengths, 96),
            "duration_nanoseconds": seconds * 1_000_000_000,
        }
    )
    return ScenarioResult(
        name="traffic", kind="server", seed=42, steps=[step], verdict=Verdict(state="VALID")
    )


def drawn(result: ScenarioResult) -> dict[str, list[float]]:
    """Return the lines of the chart of rates."""
    chart = rate_chart(result)
    assert chart is not None
    return {mark.name: mark.y.tolist() for mark in chart.marks if isinstance(mark, Line)}


@pytest.mark.parametrize("drain", [6, 215, 499])
def test_the_scheduled_rate_excludes_the_drain(drain: int) -> None:
    """A drain in the last window does not change its scheduled rate."""
    lines = drawn(an_open_loop([1000, 1000, 1000 + drain], 3))
    assert lines["scheduled"] == [96, 96, 96]
    assert lines["achieved"][-1] == pytest.approx(96_000 / (1000 + drain))


def test_no_schedule_is_drawn_in_a_window_of_the_drain() -> None:
    """The scheduled rate ends with the schedule; the achieved rate continues."""
    lines = drawn(an_open_loop([1000, 1000, 700], 2))
    assert lines["scheduled"][:2] == [96, 96]
    assert np.isnan(lines["scheduled"][2])
    assert lines["achieved"][2] == pytest.approx(96 / 0.7)


def test_windows_that_are_drawn_together_keep_their_schedule() -> None:
    """Of many windows neighbours are one point, the last with its drain."""
    result = an_open_loop([*[1000] * (2 * MOST_POINTS - 1), 1400], 2 * MOST_POINTS)
    assert len(merged(of_windows(result)).moments) == MOST_POINTS
    assert drawn(result)["scheduled"] == [96] * MOST_POINTS


@pytest.mark.parametrize(
    ("lengths", "length_text"),
    [
        ([1000, 1000, 1006], "in windows of 1 s"),
        ([1020], "in windows of 1 s"),
        ([1020, 2000], "in windows of 1 s"),
        ([2000, 2000, 2300], "in windows of 2 s"),
        ([*[16_000] * 599, 17_000], "in windows of 64 s"),
        ([*[1_024_000] * 10, 900], "in windows of 1,024 s"),
        ([640], "in windows of 0.64 s"),
    ],
)
def test_window_lengths_are_whole_seconds(lengths: list[int], length_text: str) -> None:
    """The rest of a second, or of the drain, is not a window length."""
    result = an_open_loop(lengths, sum(lengths) // 1000)
    assert merged(of_windows(result)).window_length() == length_text
