"""Interfaces of a driver: what it is given, what it offers, who observes it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.client.load_client import LoadClient
from inferometer_loadgen.client.pace import Clock, Pacer
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply, PreparedRequest, ReplyBody


@dataclass(frozen=True, slots=True)
class LoopContext:
    """Where a driver runs: its loop, its clock and what wakes it."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    pacer: Callable[[Callable[[], None]], Pacer]


@dataclass(frozen=True, slots=True)
class RequestSource:
    """What a driver sends in turn, and how its answers are taken."""

    requests: Sequence[Sequence[PreparedRequest]]
    """The requests to each server; servers take turns, query by query."""
    check: Callable[[ReplyBody], str | None]
    """Returns what is wrong with a reply; asked about one reply in 64 and the first 8."""
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class StepProgress:
    """How far a step is."""

    measuring: bool
    draining: bool
    elapsed_ns: int
    """Since the stage began."""
    fraction: float
    """How far the stage is."""


class StepObserver:
    """Watches one step. A method that a subclass does not override does nothing."""

    def begin(self, step: "DrivenStep") -> None:
        """Take note that all connections are open and the load starts next."""

    def begin_window(self) -> None:
        """Take note that the window begins."""

    def second(self) -> None:
        """Take note that another second of the window or its drain is over."""

    def end_window(self) -> None:
        """Take note that the window is over."""

    def end(self) -> None:
        """Take note that the step is over, whatever ended it."""


OpenConnection = Callable[[OnReply, OnCapacity], Awaitable[Connection]]


class LoadDriver(Protocol):
    """Drives the load of one step, in this process or in a fleet."""

    observer: StepObserver
    """Notified of the window's begin, of each second of it and its drain, and of its end."""

    @property
    def last_error(self) -> str:
        """Why a server that was lost could not be reached again, as a sentence; else empty."""

    @property
    def recorder(self) -> Recorder:
        """What came of the queries so far; a fleet's is at most a second old."""

    async def connect(self) -> None:
        """Open all connections; raises ConnectionFailedError where one fails."""

    async def run(self) -> End:
        """Drive the step to its end and return why it ended."""

    def open_window(self) -> None:
        """Begin the window now, where the plan's warm-up goes on until it is steady."""

    def overdue(self, bound_ns: int) -> int:
        """Return how many measured queries are unanswered for longer than this already."""

    def end(self, why: End) -> None:
        """End the step now; what is outstanding is forgotten."""

    async def close(self) -> None:
        """Close every connection."""

    def progress(self) -> StepProgress:
        """Tell how far the step is."""

    @property
    def open_loop(self) -> bool:
        """Whether queries are sent by a schedule."""

    @property
    def begin_ns(self) -> int:
        """When the step began."""

    @property
    def window_ns(self) -> int:
        """When the window began; `NEVER` where it did not."""

    @property
    def duration_ns(self) -> int:
        """How long the window was; read when the step is over."""

    @property
    def silences(self) -> Sequence[Silence]:
        """When no query of a closed loop was answered well; read when the step is over.

        All of half a second and more, else the longest. Of a fleet: none was, by any worker.
        """

    @property
    def last_reply_ns(self) -> int:
        """When the last measured query was answered well.

        In closed loops, before the first: the window's begin, or a later answer to the warm-up.
        """

    @property
    def outstanding(self) -> int:
        """Queries sent and not answered."""

    @property
    def reconnects(self) -> int:
        """How often a connection was lost and opened again."""

    @property
    def connection_count(self) -> int:
        """Connections to each server."""

    @property
    def client(self) -> LoadClient:
        """What the client uses is read of this."""

    @property
    def workers(self) -> Sequence[WorkerShare]:
        """What each worker of a fleet did; none where this process drives."""


@dataclass(frozen=True, slots=True)
class DrivenStep:
    """A step and its driver."""

    scenario: str
    plan: StepPlan
    driver: LoadDriver
