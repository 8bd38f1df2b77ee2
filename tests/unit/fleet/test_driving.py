"""What does a session make of what the workers of its fleet say?"""

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

SECOND = 1_000_000_000
SHOWN = WebPageFeed("s", "HTTP", None)


class PlayedFleet(Fleet):
    """Two workers, whose words the test makes up; orders are kept."""

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


def told(stage: Any, begin_ns: int, **facts: Any) -> WorkerProgress:
    """Return what a worker tells, plain but for these facts."""
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


def driven(
    act: Callable[[FleetDriver, PlayedFleet, int], None], plan: StepPlan = STEP
) -> FleetDriver:
    """Drive a step of two workers, the second's clock being a second ahead; `act` speaks."""

    async def drive() -> FleetDriver:
        fleet = PlayedFleet()
        is_open = isinstance(plan.loop, Open)
        ready = {0: Ready(is_open, connections=3), 1: Ready(is_open, connections=2)}
        driving = FleetDriver(fleet, plan, ready, SHOWN, [])
        for worker, ahead in ((0, 0), (1, SECOND)):
            driving.place_clock(worker, ClockOffset(ahead, 5_000))
        running = asyncio.create_task(driving.run())
        await fleet.begun.wait()
        begins = [order.at_ns for order, _ in fleet.orders if isinstance(order, Start)]
        assert begins[1] - begins[0] == SECOND
        act(driving, fleet, begins[0])
        driving.why = await running  # type: ignore[attr-defined]  # told to the test alone
        return driving

    return asyncio.run(drive())


def test_times_of_all_workers_are_those_of_one_clock() -> None:
    """Window, duration and last reply are the first's begin and the last's end."""
    windows: list[str] = []

    def act(driving: FleetDriver, _: PlayedFleet, begin: int) -> None:
        driving.observer = Noting(
            begin_window=lambda: windows.append("begins"),
            end_window=lambda: windows.append("over"),
        )
        first = {"window_ns": begin + 10, "gained": gained(3)}
        second = {"window_ns": begin + 30 + SECOND, "gained": gained(2)}
        driving.on_message(0, told("window", begin, **first))
        assert windows == []
        driving.on_message(1, told("window", begin + SECOND + 7, **second))
        assert windows == ["begins"]
        ends = {"end": End.DONE, "gained": CountDelta()}
        over = {"duration_ns": 100, "last_reply_ns": begin + 110}
        driving.on_message(0, told("ended", begin, **first | ends | over))
        assert driving.progress().measuring or driving.window_ns > 0
        over = {"duration_ns": 200, "last_reply_ns": begin + 230 + SECOND}
        driving.on_message(1, told("ended", begin + SECOND + 7, **second | ends | over))

    driving = driven(act)
    begin = driving.begin_ns
    assert windows == ["begins", "over"]
    assert driving.window_ns == begin + 10
    assert driving.duration_ns == 220
    assert driving.last_reply_ns == begin + 230
    assert driving.connection_count == 5
    assert driving.client.cpu_seconds() == 0.5
    assert [each.queries for each in driving.workers] == [3, 2]
    assert [each.start_offset_nanoseconds for each in driving.workers] == [0, 7]
    assert [each.clock_offset_nanoseconds for each in driving.workers] == [0, SECOND]
    assert [each.node for each in driving.workers] == ["node-0", "node-1"]


def test_what_is_overdue_at_all_workers_adds_up() -> None:
    """A probe of a fleet is decided by what all its workers have not answered in time."""

    def act(driving: FleetDriver, _: PlayedFleet, begin: int) -> None:
        driving.on_message(0, told("window", begin, window_ns=begin, overdue=3))
        driving.on_message(1, told("window", begin, window_ns=begin, overdue=4))
        assert driving.overdue(1) == 7
        driving.on_message(0, told("ended", begin, window_ns=begin, overdue=5, end=End.DECIDED))
        driving.on_message(1, told("ended", begin, window_ns=begin, overdue=4, end=End.DECIDED))

    assert driven(act).overdue(1) == 9


def test_what_became_of_each_worker_is_told_of_it() -> None:
    """What is worst of all is made of several; a worker has its own."""
    facts = [ClientHealth(runnable_wait_seconds=2.0), ClientHealth(wake_up_lag_nanoseconds=7)]

    def act(driving: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker, its in enumerate(facts):
            driving.on_message(
                worker, told("ended", begin, window_ns=begin, end=End.DONE, client=its)
            )

    driving = driven(act)
    assert [each.client for each in driving.workers] == facts
    assert driving.client.facts() == ClientHealth(
        runnable_wait_seconds=2.0, wake_up_lag_nanoseconds=7
    )


def gained(count: int) -> CountDelta:
    """Return what so many queries come to."""
    return CountDelta(histograms={"latency": HistogramDelta([5], [count], 5 * count, 5, 5)})


def closings(fleet: PlayedFleet) -> dict[int, int]:
    """Return when each worker was told to close its window, by its own clock."""
    return {
        worker: order.at_ns
        for order, workers in fleet.orders
        if isinstance(order, CloseWindow)
        for worker in workers
    }


def test_a_closed_loop_of_a_fleet_ends_for_all_at_once() -> None:
    """Once all together have the queries and the time that it takes, whoever is the slowest."""

    def act(driving: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        window = {"window_ns": begin - 6 * SECOND}
        behind = {"window_ns": begin - 5 * SECOND}  # by a clock that is a second ahead
        driving.on_message(0, told("measuring", begin, **window, gained=gained(98)))
        assert not closings(fleet), "the second worker has no window yet"
        driving.on_message(1, told("measuring", begin, **behind, gained=gained(1)))
        assert not closings(fleet), "99 are too few"
        driving.on_message(0, told("measuring", begin, **window, gained=gained(1)))
        driving.on_message(0, told("measuring", begin, **window, gained=gained(1)))
        times = closings(fleet)
        assert times[1] - times[0] == SECOND
        assert len([order for order, _ in fleet.orders if isinstance(order, CloseWindow)]) == 2
        for worker, its in ((0, window), (1, behind)):
            driving.on_message(worker, told("ended", begin, **its, end=End.DONE))

    driven(act)


def test_a_closed_loop_of_a_fleet_lasts_as_long_as_was_asked() -> None:
    """Queries enough do not end it before its least duration."""

    def act(driving: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        for worker in (0, 1):
            told_now = told("measuring", begin, window_ns=begin, gained=gained(1000))
            driving.on_message(worker, told_now)
        assert not closings(fleet)
        for worker in (0, 1):
            driving.on_message(worker, told("ended", begin, window_ns=begin, end=End.DONE))

    driven(act)


@pytest.mark.parametrize(
    ("silences", "found"),
    [
        (([(0, 3)], [(1, 3)]), (1, 3)),  # whoever was answered is a witness
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
    """A server that stands still for the rest stands still, though others ended before.

    The first worker has done its share after 4 s and the second, whose clock is a second ahead,
    after 10 s.
    """
    total = replace(STEP, loop=Closed(clients=None, total_queries=100))

    def act(driving: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker, (each, last, ahead) in enumerate(
            zip(silences, (4 * SECOND, 10 * SECOND), (0, SECOND), strict=True)
        ):
            at = begin + ahead
            its = [(at + since * SECOND, at + until * SECOND) for since, until in each]
            answered = last if not its or its[-1][1] < at + last else its[-1][0] - at
            window = {"window_ns": at, "duration_ns": last, "silences": its}
            ended = {"last_reply_ns": at + answered, "end": End.DONE}
            driving.on_message(worker, told("ended", begin, **window, **ended, gained=gained(50)))

    driving = driven(act, total)
    begin = driving.window_ns
    longest = max(driving.silences, key=lambda each: each[1] - each[0], default=None)
    assert longest == (found and (begin + found[0] * SECOND, begin + found[1] * SECOND))


@pytest.mark.parametrize("loop", [Closed(clients=2), Open(Steady("Poisson", 1000))])
def test_a_step_whose_workers_are_all_lost_lasted_as_long_as_they_told(loop: Closed | Open) -> None:
    """What was counted is of some time, though nobody could tell the window's end."""
    seconds = [SecondDelta(1.0, 5, 0, 5, [5], [5])] * 3

    def act(driving: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker in (0, 1):
            its = replace(gained(15), seconds=seconds)
            driving.on_message(worker, told("measuring", begin, window_ns=begin, gained=its))
        for worker in (0, 1):
            driving.on_lost(worker, "the master was lost")

    assert driven(act, replace(STEP, loop=loop)).duration_ns == 3 * SECOND


def test_a_lost_worker_ends_the_step_for_all() -> None:
    """The others are told to finish; what they told last is kept, and the loss_reason stands."""

    def act(driving: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        driving.on_message(0, told("window", begin, window_ns=begin, gained=gained(4)))
        driving.on_lost(1, "a plug was pulled")
        assert (Finish(End.WORKER_LOST), [0]) in fleet.orders or (
            (Finish(End.WORKER_LOST), [0, 1]) in fleet.orders
        )
        driving.on_message(0, told("ended", begin, window_ns=begin, end=End.WORKER_LOST))

    driving = driven(act)
    assert driving.why is End.WORKER_LOST  # type: ignore[attr-defined]  # see above
    assert [each.lost for each in driving.workers] == [False, True]
    assert driving.workers[1].loss_reason == "a plug was pulled"
    assert driving.recorder.answered == 4


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((End.DONE, End.DONE), End.DONE),
        ((End.MAX_DURATION, End.DONE), End.MAX_DURATION),
        ((End.DONE, End.SERVER_LOST), End.SERVER_LOST),
    ],
)
def test_the_gravest_end_is_the_fleets(ends: tuple[End, End], found: End) -> None:
    """A step is done only where it is done for every worker."""

    def act(driving: FleetDriver, _: PlayedFleet, begin: int) -> None:
        for worker, end in enumerate(ends):
            driving.on_message(worker, told("ended", begin, end=end))

    assert driven(act).why is found  # type: ignore[attr-defined]  # see above


def test_a_round_raises_what_a_worker_met() -> None:
    """A fault is the exception that one process would have raised; a loss is told as one."""

    async def asked(disturb: Callable[[AnswerCollector[Connected]], None]) -> None:
        answers = AnswerCollector(Connected, [0, 1])
        answers.on_message(0, Connected())
        disturb(answers)
        await answers.wait()

    refused = WorkerFault("ConnectionFailedError", "No one listens there.")
    with pytest.raises(ConnectionFailedError, match="No one listens"):
        asyncio.run(asked(lambda answers: answers.on_message(1, refused)))
    with pytest.raises(WorkerLostError, match="Worker 1 of the fleet was lost: gone"):
        asyncio.run(asked(lambda answers: answers.on_lost(1, "gone")))
    with pytest.raises(RuntimeError, match="worker 1 failed: KeyError"):
        asyncio.run(
            asked(lambda answers: answers.on_message(1, WorkerFault("KeyError", "KeyError('x')")))
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
def test_a_worker_refuses_as_one_process_does(error: Exception) -> None:
    """What a worker meets ends the run as it does without a fleet, subclasses too."""
    met = decode_error(1, encode_error(error))
    assert str(met) == str(error)
    kind = next(kind for kind in KNOWN_ERRORS.values() if isinstance(error, kind))
    assert isinstance(met, kind)


def test_a_worker_that_fails_while_it_drives_is_lost_at_once() -> None:
    """Its own words are its loss_reason; nobody waits until it counts as silent."""

    def act(driving: FleetDriver, fleet: PlayedFleet, begin: int) -> None:
        driving.on_message(0, told("window", begin, window_ns=begin))
        driving.on_message(1, WorkerFault("OSError", "OSError('no file descriptor is left')"))
        assert fleet.lost == {1: "it failed while it drove: OSError('no file descriptor is left')"}
        driving.on_message(0, told("ended", begin, window_ns=begin, end=End.WORKER_LOST))

    driving = driven(act)
    assert driving.why is End.WORKER_LOST  # type: ignore[attr-defined]  # see above
    assert "no file descriptor" in driving.workers[1].loss_reason


def test_no_more_workers_than_clients_have_a_part() -> None:
    """Who has no client drives nothing; an open loop has a share for everyone."""
    step = StepPlan("", 1, 0, 1, 1, 1)
    assert participants(step, range(3)) == range(1)
    assert participants(replace(step, loop=Closed(clients=2)), range(3)) == range(2)
    assert participants(replace(step, loop=Closed(clients=None)), range(3)) == range(3)
    assert participants(replace(step, loop=Open(Steady("Poisson", 1))), range(3)) == range(3)


def test_what_measures_knows_no_locust() -> None:
    """Neither session nor measuring process imports Locust or gevent, which patch the library."""
    code = (
        "import sys, inferometer_loadgen.run.session, inferometer_loadgen.fleet.measuring\n"
        "sys.exit(bool({'locust', 'gevent'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
