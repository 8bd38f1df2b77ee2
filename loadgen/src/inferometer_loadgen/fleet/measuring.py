"""What does the measuring process of a worker do: which orders does it carry out, and how?

It is the load generator's own drive, for a share of each step; no gevent is near.
"""

import asyncio
import gc
import sys
import time
import traceback
from collections.abc import Coroutine

import uvloop

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_loadgen.client.node import node_name
from inferometer_loadgen.client.pace import TimerPacer
from inferometer_loadgen.drive import Driver
from inferometer_loadgen.drive.prepare import LocalDriverFactory, local_driver_factory
from inferometer_loadgen.fleet.clock_identity import own_clock
from inferometer_loadgen.fleet.lines import Lines
from inferometer_loadgen.fleet.messages import (
    Close,
    Closed,
    CloseWindow,
    Connect,
    Connected,
    Finish,
    FirstQuery,
    Hello,
    Making,
    OpenWindow,
    Order,
    Prepare,
    Ready,
    SetUp,
    SetUpDone,
    Stamp,
    Stamped,
    Start,
)
from inferometer_loadgen.fleet.parent import end_with_parent
from inferometer_loadgen.fleet.round import FAULTS, told_as
from inferometer_loadgen.fleet.telling import Telling
from inferometer_loadgen.requests.pool import InputSources
from inferometer_loadgen.schedule.steps import Share

_MAKING_SECONDS = 0.2


def main() -> int:
    """Carry out a session's orders until there are no more."""
    end_with_parent()
    uvloop.run(_measure())
    return 0


async def _measure() -> None:
    lines = await Lines.open()
    lines.tell(Hello(own_clock(), node_name() or ""))
    measuring = Measuring(lines)
    try:
        async for order in lines.orders():
            measuring.heed(order)
    finally:
        await measuring.close()


class Measuring:
    """Heeds orders at once, one step at a time."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._order: SetUp | None = None
        self._plan: LoadPlan | None = None
        self._inputs: InputSources | None = None
        self._driving: Driver | None = None
        self._telling: Telling | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._making_told = 0.0

    def heed(self, order: Order) -> None:
        """Carry out an order, or begin to."""
        match order:
            case Stamp():
                self._lines.tell(Stamped(order.number, time.monotonic_ns()))
            case Finish():
                if self._driving is not None:
                    self._driving.end(order.why)
            case SetUp():
                self._begin(self._set_up(order))
            case Prepare():
                self._begin(self._prepare(order))
            case Connect():
                self._begin(self._connect())
            case Start():
                self._begin(self._run(order.at_ns))
            case OpenWindow() | CloseWindow():
                self._begin(self._bound_window(order))
            case Close():
                self._begin(self._close_step())

    async def close(self) -> None:
        """Drop everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._driving is not None:
            await self._driving.close()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._told_of_faults(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _told_of_faults(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the session must hear of it, whatever it is
            fault = told_as(error)
            if fault.kind not in FAULTS:
                traceback.print_exc(file=sys.stderr)
            self._lines.tell(fault)

    async def _set_up(self, order: SetUp) -> None:
        plan = LoadPlan.model_validate_json(order.plan)
        self._inputs = InputSources(plan.run.spec.load, plan.inputs_file, order.described.inputs)
        self._plan, self._order = plan, order
        self._lines.tell(SetUpDone())

    async def _prepare(self, order: Prepare) -> None:
        await self._close_driving()
        self._driving = driving = await self._hand(order.share).prepare(order.scenario, order.plan)
        self._telling = Telling(driving, self._lines.tell, order.plan)
        self._lines.tell(Ready(driving.open_loop, driving.connection_count))

    def _hand(self, share: Share) -> LocalDriverFactory:
        plan, order, inputs = self._plan, self._order, self._inputs
        if plan is None or order is None or inputs is None:
            raise RuntimeError("A step is to be prepared before it is known what is measured.")
        return local_driver_factory(
            plan,
            order.described,
            inputs,
            self._tell_making,
            lambda: self._lines.tell(FirstQuery()),
            share,
        )

    def _tell_making(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._making_told >= _MAKING_SECONDS:
            self._making_told = now
            self._lines.tell(Making(fraction))

    async def _connect(self) -> None:
        await self._prepared().connect()
        # A collection takes tens of milliseconds: once now, over everything, never while measuring.
        gc.collect()
        gc.freeze()
        self._lines.tell(Connected())

    async def _run(self, at_ns: int) -> None:
        driving, telling = self._prepared(), self._telling
        if telling is None:
            raise RuntimeError("A step is to begin that was not prepared.")
        await _until(at_ns)
        with telling:
            # The schedule begins when it was agreed to: what is late now shows as dispatch lag.
            telling.end = await driving.run(at_ns)

    async def _bound_window(self, order: OpenWindow | CloseWindow) -> None:
        driving = self._prepared()
        await _until(order.at_ns)
        if isinstance(order, OpenWindow):
            driving.open_window()
        else:
            driving.close_window()

    async def _close_step(self) -> None:
        await self._close_driving()
        self._lines.tell(Closed())

    async def _close_driving(self) -> None:
        driving, self._driving = self._driving, None
        gc.unfreeze()
        if driving is not None:
            await driving.close()

    def _prepared(self) -> Driver:
        if self._driving is None:
            raise RuntimeError("A step is to go on that was not prepared.")
        return self._driving


async def _until(at_ns: int) -> None:
    """Wait until this time of the monotonic clock, to some tens of microseconds."""
    loop = asyncio.get_running_loop()
    come = loop.create_future()

    def wake() -> None:
        if not come.done():
            come.set_result(None)
        pacer.close()

    pacer: TimerPacer = TimerPacer(loop, wake)
    pacer.arm(at_ns)
    try:
        await come
    finally:
        pacer.close()


if __name__ == "__main__":
    sys.exit(main())
