"""Does a fleet know of its workers' queries that wait beyond the bound, in virtual time?"""

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


def test_a_worker_tells_what_is_overdue_at_least_each_tenth_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that stands still shows before any answer is late: in what each word tells."""
    words: list[WorkerMessage] = []
    drill = Drill(
        lambda _, now: Answer(None if now >= SECOND else MILLISECOND), PROBE, capacity=999
    )

    def begin(drill: Drill) -> None:
        monkeypatch.setattr(time, "monotonic_ns", drill.loop.now_ns)
        monkeypatch.setattr(time, "monotonic", drill.loop.time)
        StepReporter(drill.driver, words.append, PROBE).__enter__()

    drill.run({1: begin, 2 * SECOND: lambda drill: drill.driver.end(End.INTERRUPTED)})
    told = [word for word in words if isinstance(word, WorkerProgress)]
    overdue = [each.overdue for each in told]
    assert overdue[0] == 0
    assert overdue == sorted(overdue)
    assert len({*overdue}) >= 9  # it grows from word to word
    assert overdue[-1] > 80
