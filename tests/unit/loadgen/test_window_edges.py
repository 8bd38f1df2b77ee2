"""A window is notified at its exact time."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from typing_extensions import override

from inferometer_loadgen.drive import Driver
from inferometer_loadgen.drive.timers import Seconds, Timers
from inferometer_loadgen.schedule.steps import End
from support.drills import A_STEP, Drill, after
from support.noting_observer import Noting
from support.simulated import MILLISECOND, SECOND, SimulatedLoop


class RecordingDrill(Drill):
    """A step that notes when its driver notifies its observer."""

    @override
    def _driver(self) -> Driver:
        driver = super()._driver()
        self.windows: list[int] = []
        self.seconds: list[int] = []
        self.over: list[int] = []
        driver.observer = Noting(
            self._noting(self.windows), self._noting(self.seconds), self._noting(self.over)
        )
        return driver

    def _noting(self, times_ns: list[int]) -> Callable[[], None]:
        return lambda: times_ns.append(self.loop.now_ns())


@pytest.mark.parametrize("at", [0, 1_234_567_891])
@pytest.mark.parametrize("milli_qps", [400, 100_000, 900_000])
def test_a_window_is_notified_at_its_time(milli_qps: int, at: int) -> None:
    """Not with its first query, nor a timer's millisecond later."""
    drill = RecordingDrill(after(MILLISECOND), replace(A_STEP, warm_up_ns=at), milli_qps)
    drill.run()
    assert drill.windows == [at]
    assert drill.seconds[:3] == [at + second * SECOND for second in (1, 2, 3)]


def test_a_window_shorter_than_a_timer_is_a_step() -> None:
    """All is answered within the first millisecond, and every edge is notified."""
    step = replace(A_STEP, min_duration_ns=1)
    drill = RecordingDrill(after(1000), step)
    tallied = drill.run()
    assert (drill.end, tallied.latency.count) == (End.DONE, 1)
    assert (drill.windows, drill.seconds) == ([0], [])
    assert [window.scheduled for window in tallied.windows.report(open_loop=True)] == [1]


def test_an_end_before_the_window_is_notified_has_no_seconds() -> None:
    """The window's time has come and nothing woke the driver yet: it has a window of no length."""
    at = SECOND + 1
    step = replace(A_STEP, warm_up_ns=at - 1)
    drill = RecordingDrill(after(3 * MILLISECOND), step, lateness=lambda _: 7)
    drill.run({SECOND // 2: lambda drill: end_at(drill, at)})
    assert drill.end is End.INTERRUPTED
    assert drill.seconds == []
    assert drill.windows == [at]


def end_at(drill: Drill, at: int) -> None:
    """Let nothing happen until then, and end it from outside."""
    drill.loop.jump(at)
    drill.driver.end(End.INTERRUPTED)


def test_seconds_that_never_began_are_none() -> None:
    """However long the machine has been up."""
    loop = SimulatedLoop()
    loop.jump(42_900 * SECOND)
    ticks: list[int] = []
    seconds = Seconds(loop.now_ns, Timers(loop), lambda: ticks.append(1))
    assert seconds.end() == 0.0
    assert ticks == []
    loop.close()


def test_a_worker_keeps_its_clients_at_work_until_its_fleet_ends_the_window() -> None:
    """Its own share may be done long before that of others: the window is one for all."""
    closed_ns = 42 * SECOND + MILLISECOND
    step = replace(A_STEP, ends_with_fleet=True)
    drill = Drill(after(SECOND // 4), step, milli_qps=None)
    tallied = drill.run({closed_ns: lambda drill: drill.driver.close_window()})
    assert drill.end is End.DONE
    assert drill.driver.duration_ns == closed_ns
    assert tallied.answered_within == 4 * 42


def test_a_worker_without_an_order_ends_at_the_maximum() -> None:
    """With its own share done it is done; else the maximum ended it early."""
    for least, end in ((1, End.DONE), (1_000_000, End.MAX_DURATION)):
        step = replace(A_STEP, ends_with_fleet=True, min_queries=least)
        drill = Drill(after(SECOND // 4), step, milli_qps=None)
        drill.run()
        assert (drill.end, drill.driver.duration_ns) == (end, step.max_duration_ns)
