"""Interfaces of a driver: what it is given, what it offers, who observes it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inferometer_api.results.result import WorkerShare
from inferometer_loadgen.client.load_client import LoadClient
from inferometer_loadgen.client.pace import Clock, Pacer
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.record.request_tracer import ClientTrace
from inferometer_loadgen.record.silences import Silence
from inferometer_loadgen.requests.replies import EVERY as CHECK_EVERY
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply, PreparedRequest, ReplyBody

NEVER = 1 << 62
"""A time that does not come."""


@dataclass(frozen=True, slots=True)
class LoopContext:
    """Loop, clock and pacer that a driver runs with."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    pacer: Callable[[Callable[[], None]], Pacer]


class QueryRequests(Protocol):
    """Requests that depend on the query, which its token names while it is in flight."""

    def take(self, server: int, token: int, *, is_measured: bool) -> PreparedRequest:
        """Return the next request to a server."""

    def check(self, token: int) -> Callable[[ReplyBody], str | None]:
        """Return the check of the reply to a query."""

    def model_index(self, token: int) -> int | None:
        """Return which model of a mix a query is for; None if there is no mix."""

    def add_latency(self, token: int, nanoseconds: int) -> None:
        """Count a measured query that succeeded."""

    def fail(self, token: int, kind: str) -> None:
        """Count a measured query that failed."""


@dataclass(frozen=True, slots=True)
class RequestSource:
    """The requests that a driver sends in turn, and how it checks their replies."""

    requests: Sequence[Sequence[PreparedRequest]]
    """The requests to each server; servers take turns, query by query."""
    check: Callable[[ReplyBody], str | None]
    """Returns what is wrong with a reply; called for one reply in 64 and for the first 8."""
    timeout_ns: int
    reconnect_deadline_ns: int = 3_000_000_000
    """A server without any connection for so long ends the step."""
    chosen: "QueryRequests | None" = None
    """Takes the place of `requests` and `check` if queries differ by model or sample."""
    check_every: int = CHECK_EVERY
    """One reply in so many is checked, on average."""


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
        """Why a lost server could not be reached again, as a sentence; empty if none was lost."""

    @property
    def recorder(self) -> Recorder:
        """The results of the queries so far; a fleet's are at most a second old."""

    async def connect(self) -> None:
        """Open all connections; raises ConnectionFailedError if one fails."""

    async def run(self) -> End:
        """Drive the step to its end and return why it ended."""

    def open_window(self) -> None:
        """Begin the window now, if the plan's warm-up lasts until it is steady."""

    def overdue(self, bound_ns: int) -> int:
        """Return how many measured queries are unanswered for longer than this already."""

    def end(self, why: End) -> None:
        """End the step now and drop outstanding queries."""

    async def close(self) -> None:
        """Close every connection."""

    def progress(self) -> StepProgress:
        """Return the progress of the step."""

    @property
    def open_loop(self) -> bool:
        """Whether queries are sent by a schedule."""

    @property
    def begin_ns(self) -> int:
        """When the step began."""

    @property
    def window_ns(self) -> int:
        """When the window began; `NEVER` if it did not."""

    @property
    def duration_ns(self) -> int:
        """How long the window was; read when the step is over."""

    @property
    def silences(self) -> Sequence[Silence]:
        """When no query of a closed loop succeeded; read when the step is over.

        All silences of half a second and more, else the longest. A fleet is silent while all its
        workers are.
        """

    @property
    def last_reply_ns(self) -> int:
        """When the last measured query succeeded.

        In a closed loop, before the first: the window's begin, or a later answer to the warm-up.
        """

    @property
    def outstanding(self) -> int:
        """Outstanding queries."""

    @property
    def reconnects(self) -> int:
        """How often a lost connection was reopened."""

    @property
    def connection_count(self) -> int:
        """Connections to each server."""

    @property
    def client(self) -> LoadClient:
        """The source of the client's own CPU time, memory and health."""

    @property
    def workers(self) -> Sequence[WorkerShare]:
        """The share of each worker of a fleet; empty if this process drives."""

    @property
    def traces(self) -> Sequence[ClientTrace]:
        """The traced queries that were answered; read when the step is over."""


@dataclass(frozen=True, slots=True)
class DrivenStep:
    """A step and its driver."""

    scenario: str
    plan: StepPlan
    driver: LoadDriver
