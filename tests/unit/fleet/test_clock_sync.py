"""Workers on other clocks behind a slow network start at the agreed time (virtual clock)."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import pytest
from typing_extensions import override

from inferometer_api.results.result import WorkerShare
from inferometer_api.scenarios.step_setting import Open, Steady
from inferometer_loadgen.fleet.clock_sync import own_clock
from inferometer_loadgen.fleet.fleet import Fleet, WebPageFeed
from inferometer_loadgen.fleet.fleet_driver import FleetDriver
from inferometer_loadgen.fleet.messages import (
    ClockIdentity,
    ClockReading,
    Connect,
    Connected,
    CountDelta,
    Hello,
    Order,
    ReadClock,
    Ready,
    Start,
    WorkerMessage,
    WorkerProgress,
)
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions
from inferometer_loadgen.verdict.rules.fleet import worker_start
from support.judged_steps import A_PLAN, a_step
from support.simulated import MILLISECOND, SECOND, SimulatedLoop, simulate


@dataclass(slots=True)
class Distant:
    """A worker whose clock is ahead, with the delays of messages to it and back."""

    ahead_ns: int = 0
    there_ns: int = 0
    back_ns: int = 0
    begins_ns: list[int] = field(default_factory=list)
    """When it actually started, by the session's clock."""


class DistantFleet(Fleet):
    """Workers that carry out orders as a measuring process does, each by its own clock."""

    def __init__(self, loop: SimulatedLoop, workers: list[Distant]) -> None:
        self.workers = range(len(workers))
        self.lost = {}
        self.last_message_ns = dict.fromkeys(self.workers, 0)
        self.hellos = {each: Hello(ClockIdentity("another", ""), "") for each in self.workers}
        self.hellos[0] = Hello(own_clock(), "")
        self._listeners = []
        self._loop = loop
        self._distant = workers

    @override
    def send(self, order: Order, workers: Iterable[int] | None = None) -> None:
        for number in self.workers if workers is None else workers:
            self._after(self._distant[number].there_ns, partial(self._heed, number, order))

    def _after(self, delay_ns: int, what: Callable[[], None]) -> None:
        self._loop.call_at_ns(self._loop.now_ns() + delay_ns, what)

    def _heed(self, number: int, order: Order) -> None:
        worker = self._distant[number]
        own_ns = self._loop.now_ns() + worker.ahead_ns
        match order:
            case ReadClock():
                self._send(number, ClockReading(order.number, own_ns))
            case Connect():
                self._send(number, Connected())
            case Start():
                self._after(max(0, order.at_ns - own_ns), partial(self._begin, number))
            case _:
                return

    def _begin(self, number: int) -> None:
        worker, now = self._distant[number], self._loop.now_ns()
        worker.begins_ns.append(now)
        begun = WorkerProgress(
            stage="ended",
            gained=CountDelta(),
            begin_ns=now + worker.ahead_ns,
            window_ns=None,
            duration_ns=0,
            silences=[],
            last_reply_ns=0,
            outstanding=0,
            overdue=0,
            reconnects=0,
            fraction=1.0,
            draining=True,
            cpu_seconds=0.0,
            memory_bytes=0,
            end=End.DONE,
        )
        self._send(number, begun)

    def _send(self, number: int, message: WorkerMessage) -> None:
        self._after(self._distant[number].back_ns, partial(self.on_message, number, message))


def begun(monkeypatch: pytest.MonkeyPatch, *workers: Distant) -> list[WorkerShare]:
    """Drive a step of these workers to its end and return their shares."""
    loop = SimulatedLoop()
    monkeypatch.setattr(time, "monotonic_ns", loop.now_ns)
    fleet = DistantFleet(loop, list(workers))

    async def drive() -> FleetDriver:
        loop.jump(100 * SECOND)
        plan = StepPlan("", 1, 0, SECOND, SECOND, 1, loop=Open(Steady("Poisson", 1)))
        ready = {each: Ready(open_loop=True, connections=1) for each in fleet.workers}
        driving = FleetDriver(fleet, plan, ready, WebPageFeed("", "HTTP", None), [])
        await driving.connect()
        assert await driving.run() is End.DONE
        return driving

    driving = simulate(loop, drive())
    for worker in workers:
        worker.begins_ns[0] -= driving.begin_ns
    return list(driving.workers)


@pytest.mark.parametrize("ahead_ns", [7 * SECOND, -3 * SECOND])
@pytest.mark.parametrize(
    ("there_ns", "back_ns"),
    [(MILLISECOND, MILLISECOND), (2 * MILLISECOND, 0), (0, 2 * MILLISECOND)],
)
def test_a_worker_on_another_clock_begins_with_the_others(
    monkeypatch: pytest.MonkeyPatch, ahead_ns: int, there_ns: int, back_ns: int
) -> None:
    """Its offset has the right sign; start and offset are wrong by at most the uncertainty."""
    near, far = Distant(), Distant(ahead_ns, there_ns, back_ns)
    shares = begun(monkeypatch, near, far)
    wrong_ns = (there_ns - back_ns) // 2
    assert [each.clock_offset_nanoseconds for each in shares] == [0, ahead_ns + wrong_ns]
    assert [each.clock_uncertainty_nanoseconds for each in shares] == [0, MILLISECOND]
    assert near.begins_ns == [0]
    assert far.begins_ns == [wrong_ns]
    assert abs(wrong_ns) <= shares[1].clock_uncertainty_nanoseconds


def test_an_undetected_start_error_is_covered_by_the_uncertainty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong offset shows in no reported start, but the rule WorkerStart includes it."""
    near, far = Distant(), Distant(SECOND, there_ns=12 * MILLISECOND)
    shares = begun(monkeypatch, near, far)
    assert far.begins_ns == [6 * MILLISECOND]
    assert [each.start_offset_nanoseconds for each in shares] == [0, 0]
    answered = [share.model_copy(update={"queries": 1}) for share in shares]
    measurement = Measurement(A_PLAN, a_step(workers=answered), End.DONE)
    (breach,) = worker_start(measurement, ScenarioConditions(kind="server"))
    assert breach.figure == "6 ms"
