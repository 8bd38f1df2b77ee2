"""Windows record the course of a measurement in bounded memory."""

from itertools import pairwise

import numpy as np
import pytest

from inferometer_loadgen.nodes.energy import EnergyTerms
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.record.windows import MOST_WINDOWS, Second, Windows
from inferometer_loadgen.run.step_result import MeasuredTimes, Metered, Used, summarize
from inferometer_loadgen.schedule.steps import End, StepPlan

NO_ENERGY = EnergyTerms(disabled=True, unmetered="", milliwatts_per_core=None, on_gpu=False)
SECOND_NS = 1_000_000_000
A_STEP = StepPlan("batch 4", 4, 0, 10 * SECOND_NS, 60 * SECOND_NS, 10)


def windows_of(seconds: int, *, failed: int = 0) -> Windows:
    """Return windows in which second number i has one answer of i microseconds."""
    windows, second = Windows(), Second()
    for index in range(seconds):
        second.add(np.array([1000 * index], dtype=np.int64))
        second.schedule(1)
        for _ in range(failed):
            second.fail()
        windows.add(second.close(1.0))
    return windows


@pytest.mark.parametrize("seconds", [0, 1, 599, 600, 601, 602, 1199, 1201, 2405])
def test_windows_stay_few_and_lose_nothing(seconds: int) -> None:
    """There are at most 600 equally long windows, and they hold every query."""
    merged = windows_of(seconds).report(open_loop=True)
    assert len(merged) <= MOST_WINDOWS + 1
    assert sum(window.succeeded for window in merged) == seconds
    assert sum(window.duration_milliseconds for window in merged) == 1000 * seconds
    assert len({window.duration_milliseconds for window in merged[:-1]}) <= 1
    for last, window in pairwise(merged):
        assert window.start_milliseconds == last.start_milliseconds + last.duration_milliseconds
    for window in merged:
        last_second = (window.start_milliseconds + window.duration_milliseconds) // 1000 - 1
        assert window.max_nanoseconds == 1000 * last_second
        assert window.scheduled == window.succeeded


def test_a_window_without_an_answer_has_no_latency() -> None:
    """Seconds in which nothing was answered have counts but no percentiles."""
    windows, second = Windows(), Second()
    second.fail()
    windows.add(second.close(1.0))
    (window,) = windows.report(open_loop=False)
    assert (window.succeeded, window.failed, window.scheduled) == (0, 1, None)
    assert window.p50_nanoseconds is None
    assert window.max_nanoseconds is None


def test_a_short_rest_is_merged_into_the_last_second() -> None:
    """The part after the last whole second is a separate window only if it is long."""
    windows = windows_of(3)
    second = Second()
    second.add(np.array([9_000_000], dtype=np.int64))
    windows.add_last(second.close(0.2))
    assert [w.duration_milliseconds for w in windows.report(open_loop=False)] == [1000, 1000, 1200]
    assert windows.report(open_loop=False)[-1].succeeded == 2
    windows.add_last(second.close(0.7))
    assert [w.duration_milliseconds for w in windows.report(open_loop=False)][-1] == 700


def a_recorder(latencies_by_second: list[list[int]]) -> Recorder:
    """Return a recorder with these latencies, in nanoseconds, second by second."""
    recorder = Recorder()
    for latencies in latencies_by_second:
        for latency in latencies:
            recorder.latencies.append(latency)
            recorder.service_times.append(latency // 2)
            recorder.lags.append(1000)
        recorder.end_second()
    return recorder


def test_a_step_result_agrees_with_its_recorder() -> None:
    """Counts, rates and distributions of a step agree with what was recorded."""
    recorder = a_recorder([[1_000_000] * 50] * 4)
    for _ in range(3):
        recorder.fail("status", "It was refused.")
    recorder.fail("timeout", "It took too long.")
    recorder.end(0.0)
    step = summarize(
        A_STEP,
        recorder.statistics,
        MeasuredTimes("2026-01-01T00:00:00Z", 5, 4 * SECOND_NS, SECOND_NS),
        Used([], 1.5, 0.5),
        Metered(
            EnergyTerms(disabled=True, unmetered="", milliwatts_per_core=None, on_gpu=False),
            [],
            200,
        ),
        end=End.DONE,
        reconnects=2,
        open_loop=True,
    )
    counts = step.counts
    assert (counts.queries, counts.succeeded, counts.failed) == (204, 200, 4)
    assert counts.errors == {"status": 3, "timeout": 1}
    assert (counts.samples, counts.scheduled, counts.reconnects) == (800, 200, 2)
    assert step.scheduled_qps == 50
    assert step.achieved_qps == 40
    assert step.achieved_samples_per_second == 160
    assert step.latency is not None
    assert step.service_time is not None
    assert step.dispatch_lag is not None
    assert step.latency.max_nanoseconds == 2 * step.service_time.max_nanoseconds
    assert {(e.kind, e.message) for e in step.error_examples} == {
        ("status", "It was refused."),
        ("timeout", "It took too long."),
    }
    assert not step.ended_early
