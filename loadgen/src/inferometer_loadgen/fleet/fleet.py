"""Fleet of workers as the session sees it: orders, answers, losses and the web page."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from inferometer_api.plan.load_plan import LoadPlan, PlannedFleet
from inferometer_loadgen.fleet.answers import AnswerCollector
from inferometer_loadgen.fleet.bridge_protocol import ShowSecond
from inferometer_loadgen.fleet.carrier import Carrier, LocustCarrier, WorkerListener
from inferometer_loadgen.fleet.messages import Hello, Order, WorkerMessage
from inferometer_loadgen.record.histogram import highest_of
from inferometer_loadgen.record.windows import SecondStatistics

_NS_PER_MS = 1_000_000
_DECIMALS = 3

Answer = TypeVar("Answer")


class FleetNotReadyError(RuntimeError):
    """Not every worker connected in time; the message says which and what to do."""


class Fleet:
    """The workers of one run, numbered from 0, and the listeners to their messages."""

    def __init__(self, carrier: Carrier, workers: int, ready_deadline_seconds: int) -> None:
        self.carrier = carrier
        self._ready_deadline_seconds = ready_deadline_seconds
        self.workers: Sequence[int] = range(workers)
        self.lost: dict[int, str] = {}
        """Why workers are lost, by worker."""
        self.last_message_ns = dict.fromkeys(self.workers, 0)
        """When each worker's last message arrived, on our clock."""
        self.hellos: dict[int, Hello] = {}
        self.web_port: int | None = None
        """Port of the web page; None if there is none."""
        self.show: Callable[[ShowSecond], None] | None = None
        """Shows a second on the web page; None if there is none."""
        self._listeners: list[WorkerListener] = []
        self._arrivals = AnswerCollector(Hello, self.workers)
        self._listeners.append(self._arrivals)
        self._is_ending = False

    @classmethod
    @asynccontextmanager
    async def start(cls, planned: PlannedFleet, workers: int) -> "AsyncIterator[Fleet]":
        """Start the carrier, and the workers if the plan says so; end them all on exit.

        Raises WorkerLostError if the carrier cannot listen.
        """
        carrier = LocustCarrier(planned, range(workers))
        fleet = cls(carrier, workers, planned.ready_deadline_seconds)
        receiving: asyncio.Task[None] | None = None
        try:
            await carrier.open()
            if carrier.web_port is not None:
                fleet.web_port, fleet.show = carrier.web_port, carrier.show
            receiving = asyncio.create_task(carrier.receive(fleet))
            yield fleet
        finally:
            fleet._is_ending = True
            await carrier.close()
            if receiving is not None:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    async def wait_for_workers(self, report_progress: Callable[[float, str], None]) -> None:
        """Wait until every worker has connected.

        `report_progress` gets the share that has, and a clause that names the others. Raises
        FleetNotReadyError after the deadline, and WorkerLostError.
        """
        limit = self._ready_deadline_seconds
        arriving = asyncio.create_task(self._arrivals.wait())
        began = time.monotonic()
        while not arriving.done():
            missing = self._arrivals.missing
            clause = f"{_list_workers(missing)} did not connect yet"
            report_progress(1 - len(missing) / len(self.workers), clause)
            if time.monotonic() - began > limit:
                arriving.cancel()
                raise FleetNotReadyError(
                    f"Of {len(self.workers)} workers (spec.load.workers), {_list_workers(missing)} "
                    f"did not connect within {limit} s. Look for what keeps them, or "
                    "request fewer."
                )
            await asyncio.wait([arriving], timeout=0.1)
        self.hellos = arriving.result()

    def send(self, order: Order, workers: Iterable[int] | None = None) -> None:
        """Send an order to these workers; by default to all."""
        self.carrier.send(order, list(self.workers if workers is None else workers))

    async def request(
        self, order: Order, kind: type[Answer], workers: Iterable[int] | None = None
    ) -> dict[int, Answer]:
        """Send an order and return the answers of that kind, by worker.

        Raises WorkerLostError, and the error of a worker that failed.
        """
        receivers = list(self.workers if workers is None else workers)
        return await self.collect(kind, receivers, lambda: self.send(order, receivers))

    async def collect(
        self, kind: type[Answer], workers: Sequence[int], act: Callable[[], None]
    ) -> dict[int, Answer]:
        """Call `act` and return the workers' answers of that kind. Raises as `request` does."""
        answers = AnswerCollector(kind, workers)
        with self.listening(answers):
            for worker in workers:
                if worker in self.lost:
                    answers.on_lost(worker, self.lost[worker])
            act()
            return await answers.wait()

    @contextlib.contextmanager
    def listening(self, listener: WorkerListener) -> Iterator[None]:
        """Pass all messages and losses to a listener meanwhile."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def on_message(self, worker: int, message: WorkerMessage) -> None:
        """Pass a message to all listeners."""
        self.last_message_ns[worker] = time.monotonic_ns()
        for listener in list(self._listeners):
            listener.on_message(worker, message)

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Note that a worker is lost, and pass that to all listeners once."""
        if worker in self.lost or self._is_ending:
            return
        self.lost[worker] = loss_reason
        for listener in list(self._listeners):
            listener.on_lost(worker, loss_reason)


@asynccontextmanager
async def open_fleet(
    plan: LoadPlan, on_web_page: Callable[[int], None]
) -> AsyncIterator[Fleet | None]:
    """Start the fleet of a plan, and end it on exit; None if one process drives the load.

    `on_web_page` gets the port of the web page, if there is one. Raises WorkerLostError if the
    fleet's carrier cannot listen.
    """
    workers = plan.run.spec.load.workers
    if workers == 1:
        yield None
        return
    async with Fleet.start(plan.fleet or PlannedFleet(), workers) as fleet:
        if fleet.web_port is not None:
            on_web_page(fleet.web_port)
        yield fleet


@dataclass(frozen=True, slots=True)
class WebPageFeed:
    """Shows the seconds of a step on the web page."""

    name: str
    """Name of the scenario and its step."""
    protocol: str
    show: Callable[[ShowSecond], None] | None
    """None: there is no page, and nothing is computed."""

    def add_second(self, second: SecondStatistics) -> None:
        """Show a second that is over."""
        latencies = second.latencies
        if self.show is not None:
            milliseconds = [
                round(min(highest_of(bucket), second.max_ns) / _NS_PER_MS, _DECIMALS)
                for bucket in latencies.buckets.tolist()
            ]
            counts = latencies.counts.tolist()
            self.show(
                ShowSecond(self.name, self.protocol, milliseconds, counts, second.failed, True)
            )

    def finish(self) -> None:
        """Show that the measurement has ended."""
        if self.show is not None:
            self.show(ShowSecond(self.name, self.protocol, [], [], 0, False))


def _list_workers(workers: Sequence[int]) -> str:
    shown = ", ".join(map(str, workers[:8]))
    more = f" and {len(workers) - 8} more" if len(workers) > 8 else ""
    return f"worker{'s' if len(workers) != 1 else ''} {shown}{more}"
