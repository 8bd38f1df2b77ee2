"""The driver of a fleet: times, ends, losses and counts from the reports of its workers."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.results.result import ClientHealth
from inferometer_api.scenarios.step_setting import Closed, Open, Steady
from inferometer_loadgen.fleet.answers import (
    KNOWN_ERRORS,
    AnswerCollector,
    WorkerLostError,
    decode_error,
    encode_error,
)
from inferometer_loadgen.fleet.carrier import WorkerListener
from inferometer_loadgen.fleet.clock_sync import ClockOffset
from inferometer_loadgen.fleet.driver_factory import participants
from inferometer_loadgen.fleet.fleet import Fleet, WebPageFeed
from inferometer_loadgen.fleet.fleet_driver import FleetDriver
from inferometer_loadgen.fleet.messages import (
    ClockIdentity,
    CloseWindow,
    Connected,
    CountDelta,
    Finish,
    Hello,
    HistogramDelta,
    Order,
    Ready,
    SecondDelta,
    Start,
    WorkerFault,
    WorkerProgress,
)
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.requests.trace import TraceRefusedError
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.wire import ConnectionFailedError
from inferometer_loadgen.wire.tls import TlsRefusedError
from support.noting_observer import Noting
from support.waiting import within_deadline

SECOND = 1_000_000_000
SHOWN = WebPageFeed("s", "HTTP", None)


class PlayedFleet(Fleet):
    """Two workers whose reports the test makes up; orders are recorded."""

    def __init__(self) -> None:
        self.workers = range(2)
        self.lost = {}
        self._is_ending = False
        self.last_message_ns = {0: 0, 1: 0}
        self.hellos = {each: Hello(ClockIdentity("", ""), f"node-{each}") for each in (0, 1)}
        self.orders: list[tuple[Order, list[int]]] = []
        self._listeners: list[WorkerListener] = []
        self.begun = asyncio.Event()

    @override
    def send(self, order: Order, workers: Iterable[int] | None = None) -> None:
        """Keep an order."""
        self.orders.append((order, list(self.workers if workers is None else workers)))

    @override
    @contextmanager
    def listening(self, hearer: WorkerListener) -> Iterator[None]:
        """Keep who hears."""
        self.begun.set()
        self._listeners.append(hearer)
        yield
        self._listeners.remove(hearer)


def report(stage: Any, begin_ns: int, **facts: Any) -> WorkerProgress:
    """Return a worker's report with plain figures except for these."""
    plain = WorkerProgress(
        stage=stage,
        gained=CountDelta(),
        begin_ns=begin_ns,
        window_ns=None,
        duration_ns=0,
        silences=[],
        last_reply_ns=0,
        outstanding=1,
        overdue=0,
        reconnects=0,
        fraction=0.5,
        draining=False,
        cpu_seconds=0.25,
        memory_bytes=1,
    )
    return replace(plain, **facts)


STEP = StepPlan("", 1, 0, 5 * SECOND, 60 * SECOND, 100, loop=Closed(clients=2))


def drive_step(
    act: Callable[[FleetDriver, PlayedFleet, int], None], plan: StepPlan = STEP
) -> FleetDriver:
    """Drive a step of two workers, the second's clock a second ahead; `act` sends the reports."""

    async def drive() -> FleetDriver:
        fleet = PlayedFleet()
        is_open = isinstance(plan.loop, Open)
        ready = {0: Ready(is_open, connections=3), 1: Ready(is_open, connections=2)}
        driver = FleetDriver(fleet, plan, ready, SHOWN, [])
        for worker, ahead in ((0, 0), (1, SECOND)):
            driver.place_clock(worker, ClockOffset(ahead, 5_000))
        running = asyncio.create_task(driver.run())
        async with within_deadline("the start of the step"):
            await fleet.begun.wait()
        begins = [order.at_ns for order, _ in fleet.orders if isinstance(order, Start)]
        assert begins[1] - begins[0] == SECOND
        act(driver, fleet, begins[0])
        async with within_deadline("the end of the step"):
            driver.why = await running  # type: ignore[attr-defined]  # for the test alone
        return driver

    return asyncio.run(drive())


def test_times_of_all_workers_are_those_of_one_clock() -> None:
    """Window, duration and last reply span from the first start to the last end."""
    windows: list[str] = []

    def act(driver: FleetDriver, _: PlayedFleet, begin: int) -> None:
        driver.observer = Noting(
            begin_window=lambda: windows.append("begins"),
            end_window=lambda: windows.append("over"),
        )
        first = {"window_ns": begin + 10, "gained": gained(3)}
        second = {"window_ns": begin + 30 + SECOND, "gained": gained(2)}
        driver.on_message(0, report("window", begin, **first))
        assert windows == []
        driver.on_message(1, report("window", begin + SECOND + 7, **second))
        assert windows == ["begins"]
        ends = {"end": End.DONE, "gained": CountDelta()}
        over = {"duration_ns": 100, "last_reply_ns": begin + 110}
        driver.on_message(0, report("ended", begin, **first | ends | over))
        assert driver.progress().measuring or driver.window_ns > 0
        over = {"duration_ns": 200, "last_reply_ns": begin + 230 + SECOND}
        driver.on_message(1, report("ended", begin + SECOND + 7, **second | ends | over))

    driver = drive_step(act)
    begin = driver.begin_ns
    assert windows == ["begins", "over"]
    assert driver.window_ns == begin + 10
    assert driver.duration_ns == 220
    assert driver.last_reply_ns == begin + 230
    assert driver.connection_count == 5
    assert driver.client.cpu_seconds() == 0.5
    assert [each.queries for each in driver.workers] == [3, 2]
    assert [each.start_offset_nanoseconds for each in driver.workers] == [0, 7]
    assert [each.clock_offset_nanoseconds for each in driver.workers] == [0, SECOND]
    assert [each.node for each in driver.workers] == ["node-0", "node-1"]


def test_overdue_queries_of_all_workers_add_up() -> None:
    """A probe of a fleet is decided by the overdue queries of all workers."""

    def act(driver: FleetDriver, _: PlayedFleet, begin: int) -> None:
        driver.on_message(0, report("window", begin, window_ns=begin, overdue=3))
        driver.on_message(1, report("window", begin, window_ns=begin, overdue=4))
        assert driver.overdue(1) == 7
        driver.on_message(0, report("ended", begin, window_ns=begin, overdue=5, end=End.DECIDED))
        driver.on_message(1, report("ended", begin, window_ns=begin, overdue=4, end=End.DECIDED))

    assert drive_step(act).overdue(1) == 9


def test_each_worker_has_its_own_client_health() -> None:
    """The step has the worst figures of several workers; each share has its own."""
    facts = [ClientHealth(runnable_wait_seconds=2.0), ClientHealth(wake_up_lag_nanoseconds=7)]

    def act(driver: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker, its in enumerate(facts):
            driver.on_message(
                worker, report("ended", begin, window_ns=begin, end=End.DONE, client=its)
            )

    driver = drive_step(act)
    assert [each.client for each in driver.workers] == facts
    assert driver.client.facts() == ClientHealth(
        runnable_wait_seconds=2.0, wake_up_lag_nanoseconds=7
    )


def gained(count: int) -> CountDelta:
    """Return the delta of so many queries."""
    return CountDelta(histograms={"latency": HistogramDelta([5], [count], 5 * count, 5, 5)})


def closings(fleet: PlayedFleet) -> dict[int, int]:
    """Return when each worker was to close its window, by its own clock."""
    return {
        worker: order.at_ns
        for order, workers in fleet.orders
        if isinstance(order, CloseWindow)
        for worker in workers
    }


def test_a_closed_loop_of_a_fleet_ends_for_all_at_once() -> None:
    """All windows end at one time once the workers together reach the minimums."""

    def act(driver: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        window = {"window_ns": begin - 6 * SECOND}
        behind = {"window_ns": begin - 5 * SECOND}  # by a clock that is a second ahead
        driver.on_message(0, report("measuring", begin, **window, gained=gained(98)))
        assert not closings(fleet), "the second worker has no window yet"
        driver.on_message(1, report("measuring", begin, **behind, gained=gained(1)))
        assert not closings(fleet), "99 are too few"
        driver.on_message(0, report("measuring", begin, **window, gained=gained(1)))
        driver.on_message(0, report("measuring", begin, **window, gained=gained(1)))
        times = closings(fleet)
        assert times[1] - times[0] == SECOND
        assert len([order for order, _ in fleet.orders if isinstance(order, CloseWindow)]) == 2
        for worker, its in ((0, window), (1, behind)):
            driver.on_message(worker, report("ended", begin, **its, end=End.DONE))

    drive_step(act)


def test_a_closed_loop_of_a_fleet_lasts_its_minimum_duration() -> None:
    """Enough queries do not end it before its minimum duration."""

    def act(driver: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        for worker in (0, 1):
            current = report("measuring", begin, window_ns=begin, gained=gained(1000))
            driver.on_message(worker, current)
        assert not closings(fleet)
        for worker in (0, 1):
            driver.on_message(worker, report("ended", begin, window_ns=begin, end=End.DONE))

    drive_step(act)


@pytest.mark.parametrize(
    ("silences", "found"),
    [
        (([(0, 3)], [(1, 3)]), (1, 3)),  # a worker that got an answer ends the silence
        (([(0, 2)], [(2, 4)]), None),
        (([(1, 3)], [(0, 2), (7, 10)]), (7, 10)),  # not of what came after its share
        (([(1, 2)], [(3, 9)]), (4, 9)),
        (([(2, 4)], [(3, 9)]), (3, 9)),
        (([], [(3, 5)]), (3, 5)),  # nor who had no part
        (([], []), None),
    ],
)
def test_a_fleet_is_silent_when_none_of_its_workers_is_answered(
    silences: tuple[list[tuple[int, int]], list[tuple[int, int]]], found: tuple[int, int] | None
) -> None:
    """A fleet is silent only while each worker with queries left is silent.

    The first worker has done its share after 4 s and the second, whose clock is a second ahead,
    after 10 s.
    """
    total = replace(STEP, loop=Closed(clients=None, total_queries=100))

    def act(driver: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker, (each, last, ahead) in enumerate(
            zip(silences, (4 * SECOND, 10 * SECOND), (0, SECOND), strict=True)
        ):
            at = begin + ahead
            its = [(at + since * SECOND, at + until * SECOND) for since, until in each]
            answered = last if not its or its[-1][1] < at + last else its[-1][0] - at
            window = {"window_ns": at, "duration_ns": last, "silences": its}
            ended = {"last_reply_ns": at + answered, "end": End.DONE}
            driver.on_message(worker, report("ended", begin, **window, **ended, gained=gained(50)))

    driver = drive_step(act, total)
    begin = driver.window_ns
    longest = max(driver.silences, key=lambda each: each[1] - each[0], default=None)
    assert longest == (found and (begin + found[0] * SECOND, begin + found[1] * SECOND))


@pytest.mark.parametrize("loop", [Closed(clients=2), Open(Steady("Poisson", 1000))])
def test_a_step_that_lost_all_workers_lasts_as_long_as_their_reports(loop: Closed | Open) -> None:
    """The counts belong to some duration, although no worker reported the window's end."""
    seconds = [SecondDelta(1.0, 5, 0, 5, [5], [5])] * 3

    def act(driver: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker in (0, 1):
            its = replace(gained(15), seconds=seconds)
            driver.on_message(worker, report("measuring", begin, window_ns=begin, gained=its))
        for worker in (0, 1):
            driver.on_lost(worker, "the master was lost")

    assert drive_step(act, replace(STEP, loop=loop)).duration_ns == 3 * SECOND


def test_a_lost_worker_ends_the_step_for_all() -> None:
    """The others get the order to finish; their last reports and the loss reason are kept."""

    def act(driver: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        driver.on_message(0, report("window", begin, window_ns=begin, gained=gained(4)))
        driver.on_lost(1, "a plug was pulled")
        assert (Finish(End.WORKER_LOST), [0]) in fleet.orders or (
            (Finish(End.WORKER_LOST), [0, 1]) in fleet.orders
        )
        driver.on_message(0, report("ended", begin, window_ns=begin, end=End.WORKER_LOST))

    driver = drive_step(act)
    assert driver.why is End.WORKER_LOST  # type: ignore[attr-defined]  # see above
    assert [each.lost for each in driver.workers] == [False, True]
    assert driver.workers[1].loss_reason == "a plug was pulled"
    assert driver.recorder.answered == 4


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((End.DONE, End.DONE), End.DONE),
        ((End.MAX_DURATION, End.DONE), End.MAX_DURATION),
        ((End.DONE, End.SERVER_LOST), End.SERVER_LOST),
    ],
)
def test_the_most_serious_end_is_the_fleets(ends: tuple[End, End], found: End) -> None:
    """A step is done only if it is done for every worker."""

    def act(driver: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker, end in enumerate(ends):
            driver.on_message(worker, report("ended", begin, end=end))

    assert drive_step(act).why is found  # type: ignore[attr-defined]  # see above


def test_waiting_for_answers_raises_a_workers_error() -> None:
    """A fault is the exception that one process would have raised; a loss is WorkerLostError."""

    async def collect(disturb: Callable[[AnswerCollector[Connected]], None]) -> None:
        answers = AnswerCollector(Connected, [0, 1])
        answers.on_message(0, Connected())
        disturb(answers)
        async with within_deadline("the answers of all workers"):
            await answers.wait()

    refused = WorkerFault("ConnectionFailedError", "No one listens there.")
    with pytest.raises(ConnectionFailedError, match="No one listens"):
        asyncio.run(collect(lambda answers: answers.on_message(1, refused)))
    with pytest.raises(WorkerLostError, match="Worker 1 of the fleet was lost: gone"):
        asyncio.run(collect(lambda answers: answers.on_lost(1, "gone")))
    with pytest.raises(RuntimeError, match="worker 1 failed: KeyError"):
        asyncio.run(
            collect(lambda answers: answers.on_message(1, WorkerFault("KeyError", "KeyError('x')")))
        )


@pytest.mark.parametrize(
    "error",
    [
        TraceRefusedError("The trace /x cannot be read."),
        TlsRefusedError("The file /y is no certificate."),
        InputRefusedError("It does not fit."),
        ConnectionFailedError("No one listens there."),
    ],
)
def test_a_workers_error_keeps_its_type(error: Exception) -> None:
    """Errors end the run as they do without a fleet; a subclass travels as its base class."""
    met = decode_error(1, encode_error(error))
    assert str(met) == str(error)
    kind = next(kind for kind in KNOWN_ERRORS.values() if isinstance(error, kind))
    assert isinstance(met, kind)


def test_a_worker_that_fails_during_a_step_is_lost_at_once() -> None:
    """Its error is the loss reason, without waiting until it counts as silent."""

    def act(driver: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        driver.on_message(0, report("window", begin, window_ns=begin))
        driver.on_message(1, WorkerFault("OSError", "OSError('no file descriptor is left')"))
        assert fleet.lost == {
            1: "it failed while it drove the load: OSError('no file descriptor is left')"
        }
        driver.on_message(0, report("ended", begin, window_ns=begin, end=End.WORKER_LOST))

    driver = drive_step(act)
    assert driver.why is End.WORKER_LOST  # type: ignore[attr-defined]  # see above
    assert "no file descriptor" in driver.workers[1].loss_reason


def test_a_closed_loop_uses_at_most_one_worker_per_client() -> None:
    """A worker without a client has no share; an open loop has a share for each worker."""
    step = StepPlan("", 1, 0, 1, 1, 1)
    assert participants(step, range(3)) == range(1)
    assert participants(replace(step, loop=Closed(clients=2)), range(3)) == range(2)
    assert participants(replace(step, loop=Closed(clients=None)), range(3)) == range(3)
    assert participants(replace(step, loop=Open(Steady("Poisson", 1))), range(3)) == range(3)


def test_session_and_measuring_process_import_no_locust() -> None:
    """Neither process imports Locust or gevent, which patch the standard library."""
    code = (
        "import sys, inferometer_loadgen.run.session, inferometer_loadgen.fleet.measuring\n"
        "sys.exit(bool({'locust', 'gevent'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
