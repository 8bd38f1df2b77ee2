"""Workers report overdue queries in time to decide a probe (virtual clock)."""

import time
from dataclasses import replace

import pytest

from inferometer_api.scenarios.step_setting import JudgedPercentile
from inferometer_loadgen.fleet.messages import WorkerMessage, WorkerProgress
from inferometer_loadgen.fleet.step_reporter import StepReporter
from inferometer_loadgen.schedule.steps import End
from support.drills import A_STEP, Drill
from support.simulated import MILLISECOND, SECOND, Answer

BOUND_NS = 10 * MILLISECOND
PROBE = replace(A_STEP, judged=JudgedPercentile(99.0, BOUND_NS), is_probe=True, min_queries=8192)


def test_a_worker_reports_overdue_queries_every_tenth_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that stands still shows in each report, before any answer arrives."""
    messages: list[WorkerMessage] = []
    drill = Drill(
        lambda _, now: Answer(None if now >= SECOND else MILLISECOND), PROBE, capacity=999
    )

    def begin(drill: Drill) -> None:
        monkeypatch.setattr(time, "monotonic_ns", drill.loop.now_ns)
        monkeypatch.setattr(time, "monotonic", drill.loop.time)
        StepReporter(drill.driver, messages.append, PROBE).__enter__()

    drill.run({1: begin, 2 * SECOND: lambda drill: drill.driver.end(End.INTERRUPTED)})
    reports = [message for message in messages if isinstance(message, WorkerProgress)]
    overdue = [each.overdue for each in reports]
    assert overdue[0] == 0
    assert overdue == sorted(overdue)
    assert len({*overdue}) >= 9  # it grows from message to message
    assert overdue[-1] > 80
