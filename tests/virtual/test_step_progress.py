"""Progress of a step: warm-up, window and drain, each with its elapsed time and its fraction."""

from dataclasses import replace

import pytest

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive import StepProgress
from support.drills import A_STEP, Drill
from support.simulated import SECOND, Answer, Answering

_STEP = replace(A_STEP, warm_up_ns=4 * SECOND, loop=Closed(2))


def _one_slow_reply() -> Answering:
    """Answer the first query sent after 13 s so late that the step drains, all others at once."""
    is_slow = iter([True])

    def answer(_index: int, now: int) -> Answer:
        is_late = now >= 13 * SECOND and next(is_slow, False)
        return Answer(20 * SECOND if is_late else SECOND // 8)

    return answer


@pytest.mark.parametrize("milli_qps", [2_000, None], ids=["open", "closed"])
def test_progress_names_the_stage_and_how_far_it_is(milli_qps: int | None) -> None:
    """Each stage counts from its own begin, in an open and in a closed loop alike."""
    found: list[StepProgress] = []

    def look(drill: Drill) -> None:
        found.append(drill.driver.progress())

    drill = Drill(_one_slow_reply(), _STEP, milli_qps, connections=2, timeout_ns=40 * SECOND)
    drill.run({second * SECOND: look for second in (1, 9, 24)})
    assert found == [
        StepProgress(measuring=False, draining=False, elapsed_ns=SECOND, fraction=1 / 4),
        StepProgress(measuring=True, draining=False, elapsed_ns=5 * SECOND, fraction=5 / 10),
        StepProgress(measuring=True, draining=True, elapsed_ns=10 * SECOND, fraction=10 / 40),
    ]


@pytest.mark.parametrize(("milli_qps", "done"), [(2_000, 11), (None, 80)], ids=["open", "closed"])
def test_a_window_is_no_further_than_its_least_queries(milli_qps: int | None, done: int) -> None:
    """The slower of both minimums decides: queries sent by an open loop, answered in a closed."""
    found: list[float] = []

    def look(drill: Drill) -> None:
        found.append(drill.driver.progress().fraction)

    step = replace(_STEP, min_queries=200)
    drill = Drill(_one_slow_reply(), step, milli_qps, connections=2, timeout_ns=40 * SECOND)
    drill.run({9 * SECOND + 1: look})
    assert found == [done / 200]
