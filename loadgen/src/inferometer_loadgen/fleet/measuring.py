"""Measuring process of a worker: drives its share of each step, as the session orders.

It uses the load generator's own driver and asyncio; gevent and Locust are never imported here.
"""

import asyncio
import gc
import os
import sys
import time
import traceback
from collections.abc import AsyncIterator, Coroutine

import uvloop

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_loadgen.client.node import node_name
from inferometer_loadgen.client.pace import TimerPacer
from inferometer_loadgen.drive import Driver
from inferometer_loadgen.drive.prepare import LocalDriverFactory, local_driver_factory
from inferometer_loadgen.fleet.answers import KNOWN_ERRORS, encode_error
from inferometer_loadgen.fleet.clock_sync import own_clock
from inferometer_loadgen.fleet.messages import (
    LONGEST_LINE_BYTES,
    ORDERS,
    WORKER_MESSAGES,
    ClockReading,
    Close,
    CloseWindow,
    Connect,
    Connected,
    ConnectionsClosed,
    Finish,
    FirstQuery,
    Hello,
    OpenWindow,
    Order,
    PreparationProgress,
    Prepare,
    ReadClock,
    Ready,
    SetUp,
    SetUpDone,
    Start,
    WorkerMessage,
)
from inferometer_loadgen.fleet.parent_process import end_with_parent
from inferometer_loadgen.fleet.step_reporter import StepReporter
from inferometer_loadgen.input_files import InputFiles
from inferometer_loadgen.requests.pool import InputSources
from inferometer_loadgen.schedule.steps import LoadShare

_PROGRESS_SECONDS = 0.2


def main() -> int:
    """Carry out the session's orders until there are no more; return the exit code."""
    end_with_parent()
    uvloop.run(_measure())
    return 0


async def _measure() -> None:
    streams = await MessageStreams.open()
    streams.send(Hello(own_clock(), node_name() or ""))
    measuring = MeasuringProcess(streams)
    try:
        async for order in streams.orders():
            measuring.handle(order)
    finally:
        await measuring.close()


class MessageStreams:
    """Reads orders from standard input and writes messages to standard output, never blocking."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls) -> "MessageStreams":
        """Take over standard input and output; later prints go to standard error."""
        loop = asyncio.get_running_loop()
        output = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0), "rb"))
        writer, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(output, "wb"))
        return cls(reader, writer)

    def send(self, message: WorkerMessage) -> None:
        """Write a message; it is buffered until the reader takes it."""
        self._writer.write(WORKER_MESSAGES.dump_json(message) + b"\n")

    async def orders(self) -> AsyncIterator[Order]:
        """Yield each order until the input ends."""
        while line := await self._reader.readline():
            yield ORDERS.validate_json(line)


class MeasuringProcess:
    """Carries out orders, one step at a time."""

    def __init__(self, streams: MessageStreams) -> None:
        self._streams = streams
        self._order: SetUp | None = None
        self._plan: LoadPlan | None = None
        self._inputs: InputSources | None = None
        self._files = InputFiles()
        self._driver: Driver | None = None
        self._reporter: StepReporter | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress_sent = 0.0

    def handle(self, order: Order) -> None:
        """Carry out an order, or start to."""
        match order:
            case ReadClock():
                self._streams.send(ClockReading(order.number, time.monotonic_ns()))
            case Finish():
                if self._driver is not None:
                    self._driver.end(order.why)
            case SetUp():
                self._start(self._set_up(order))
            case Prepare():
                self._start(self._prepare(order))
            case Connect():
                self._start(self._connect())
            case Start():
                self._start(self._run(order.at_ns))
            case OpenWindow() | CloseWindow():
                self._start(self._bound_window(order))
            case Close():
                self._start(self._close_step())

    async def close(self) -> None:
        """Cancel all work and close the connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._driver is not None:
            await self._driver.close()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._report_error(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_error(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the session must know, whatever it is
            fault = encode_error(error)
            if fault.kind not in KNOWN_ERRORS:
                traceback.print_exc(file=sys.stderr)
            self._streams.send(fault)

    async def _set_up(self, order: SetUp) -> None:
        plan = LoadPlan.model_validate_json(order.plan)
        found = order.description
        self._inputs = InputSources(
            plan.run.spec.load,
            plan.inputs_file,
            found.inputs,
            found.optional_inputs,
            self._files,
        )
        self._plan, self._order = plan, order
        self._streams.send(SetUpDone())

    async def _prepare(self, order: Prepare) -> None:
        await self._close_driver()
        self._driver = driver = await self._driver_factory(order.share).prepare(
            order.scenario, order.plan
        )
        self._reporter = StepReporter(driver, self._streams.send, order.plan)
        self._streams.send(Ready(driver.open_loop, driver.connection_count))

    def _driver_factory(self, share: LoadShare) -> LocalDriverFactory:
        plan, order, inputs = self._plan, self._order, self._inputs
        if plan is None or order is None or inputs is None:
            raise RuntimeError("A step was ordered before the plan of the run.")
        return local_driver_factory(
            plan,
            order.description,
            inputs,
            self._send_progress,
            lambda: self._streams.send(FirstQuery()),
            share,
        )

    def _send_progress(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._progress_sent >= _PROGRESS_SECONDS:
            self._progress_sent = now
            self._streams.send(PreparationProgress(fraction))

    async def _connect(self) -> None:
        await self._prepared_driver().connect()
        # A garbage collection takes tens of milliseconds: run it now, not while measuring.
        gc.collect()
        gc.freeze()
        self._streams.send(Connected())

    async def _run(self, at_ns: int) -> None:
        driver, reporter = self._prepared_driver(), self._reporter
        if reporter is None:
            raise RuntimeError("A step was started that was not prepared.")
        await _until(at_ns)
        with reporter:
            # The schedule starts at the agreed time: a late start shows as dispatch lag.
            reporter.end_reason = await driver.run(at_ns)

    async def _bound_window(self, order: OpenWindow | CloseWindow) -> None:
        driver = self._prepared_driver()
        await _until(order.at_ns)
        if isinstance(order, OpenWindow):
            driver.open_window()
        else:
            driver.close_window()

    async def _close_step(self) -> None:
        await self._close_driver()
        self._streams.send(ConnectionsClosed())

    async def _close_driver(self) -> None:
        driver, self._driver = self._driver, None
        gc.unfreeze()
        if driver is not None:
            await driver.close()

    def _prepared_driver(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("An order needs a step that was not prepared.")
        return self._driver


async def _until(at_ns: int) -> None:
    """Wait until this time of the monotonic clock, to some tens of microseconds."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)
        pacer.close()

    pacer: TimerPacer = TimerPacer(loop, wake)
    pacer.arm(at_ns)
    try:
        await woken
    finally:
        pacer.close()


if __name__ == "__main__":
    sys.exit(main())
