"""The window's edges are notified at their times, in virtual time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from inferometer_loadgen.schedule.steps import End
from support.drills import A_STEP, Drill, after
from support.noting_observer import Noting
from support.simulated import MILLISECOND, SECOND

WARM = replace(A_STEP, warm_up_ns=2 * SECOND)


def edges_of(drill: Drill, end_at_ns: int | None = None) -> list[tuple[str, int]]:
    """Run a step and return when its window's edges were notified."""
    events: list[tuple[str, int]] = []

    def listen(drill: Drill) -> None:
        drill.driver.observer = Noting(
            begin_window=lambda: events.append(("begin", drill.loop.now_ns())),
            end_window=lambda: events.append(("over", drill.loop.now_ns())),
        )

    at: dict[int, Callable[[Drill], None]] = {0: listen}
    if end_at_ns is not None:
        at[end_at_ns] = lambda drill: drill.driver.end(End.INTERRUPTED)
    drill.run(at)
    return events


def test_an_open_loops_window_is_over_before_its_drain() -> None:
    """The edge is the end of the schedule, however late the last answers come."""
    drill = Drill(after(700 * MILLISECOND), WARM, connections=200)
    assert edges_of(drill) == [("begin", 2 * SECOND), ("over", 12 * SECOND)]
    assert drill.driver.last_reply_ns > 12.6 * SECOND


def test_a_closed_loops_window_is_over_with_its_last_reply() -> None:
    """The edge is the answer with which both minimums hold."""
    drill = Drill(after(300 * MILLISECOND), WARM, milli_qps=None)
    (_, begin), (_, over) = events = edges_of(drill)
    assert [name for name, _ in events] == ["begin", "over"]
    assert begin == drill.driver.window_ns
    assert over == begin + drill.driver.duration_ns == drill.driver.last_reply_ns


@pytest.mark.parametrize("milli_qps", [None, 100_000])
def test_an_end_from_outside_is_an_edge(milli_qps: int | None) -> None:
    """A step that is ended has its edge then, once; one in its warm-up has none."""
    drill = Drill(after(MILLISECOND), WARM, milli_qps=milli_qps)
    assert edges_of(drill, 5 * SECOND + 1)[1:] == [("over", 5 * SECOND + 1)]
    drill = Drill(after(MILLISECOND), WARM, milli_qps=milli_qps)
    assert edges_of(drill, SECOND) == []


def test_an_end_within_the_drain_is_no_second_edge() -> None:
    """The window that was over stays over."""
    drill = Drill(after(700 * MILLISECOND), WARM, connections=200)
    assert edges_of(drill, 12 * SECOND + 100 * MILLISECOND)[1:] == [("over", 12 * SECOND)]


@pytest.mark.parametrize(
    ("milli_qps", "answered"),
    [
        (100_000, 500),  # 50 a second, whether they were due before the window or in it
        (40_000, 400),
        (None, 500),
    ],
)
def test_what_is_answered_between_the_edges_is_known(milli_qps: int | None, answered: int) -> None:
    """Warm-up's last queries count, those of the drain do not: the energy is of that time."""
    counts: list[int] = []

    def listen(drill: Drill) -> None:
        drill.driver.observer = Noting(
            begin_window=lambda: counts.append(drill.recorder.answered_at_all),
            end_window=lambda: counts.append(drill.recorder.answered_at_all),
        )

    drill = Drill(after(20 * MILLISECOND), WARM, milli_qps=milli_qps)
    tallied = drill.run({0: listen})
    assert counts[1] - counts[0] == pytest.approx(answered, abs=1)
    if milli_qps == 100_000:
        assert tallied.latency.count == 1000
