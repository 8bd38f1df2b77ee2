"""An event loop in virtual time, whose clock jumps to the next thing due."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from typing_extensions import override

from inferometer_loadgen.drive import Driver, LoopContext, OpenConnection
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.wire import (
    Connection,
    Failure,
    OnCapacity,
    OnReply,
    PreparedRequest,
    ReplyBody,
)

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MOST_NS = 6 * 3600 * SECOND
"""Of virtual time: a simulation that reaches it would never end."""

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Waits for nothing: time jumps by what would have been waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("The simulation waits for something that will never happen.")
        if not ready and timeout:
            self.now_ns += max(1, round(timeout * SECOND))
            if self.now_ns > MOST_NS:
                raise RuntimeError(f"The simulation has not ended within {MOST_NS / SECOND:g} s.")
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        return self._jumping.now_ns / SECOND

    def now_ns(self) -> int:
        """Return the virtual time."""
        return self._jumping.now_ns

    def jump(self, to_ns: int) -> None:
        """Let time pass in which nothing happens, as if the process had been stopped."""
        self._jumping.now_ns = max(self._jumping.now_ns, to_ns)

    def call_at_ns(self, when_ns: int, what: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `what` at a virtual time, to the nanosecond."""

        def call() -> None:
            self.jump(when_ns)
            what()

        return self.call_at(when_ns / SECOND, call)


class SimulatedPacer:
    """Wakes the driver to the nanosecond, or late by what `lateness` says of each wake-up."""

    def __init__(
        self,
        loop: SimulatedLoop,
        wake: Callable[[], None],
        lateness: Callable[[int], int] = lambda _: 0,
    ) -> None:
        self._loop = loop
        self._wake = wake
        self._lateness = lateness
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, at_ns: int) -> None:
        """Wake at a virtual time."""
        self.close()
        due = max(self._loop.now_ns(), at_ns + self._lateness(at_ns))
        self._handle = self._loop.call_at_ns(due, self._wake)

    def close(self) -> None:
        """Cancel the wake-up."""
        if self._handle is not None:
            self._handle.cancel()


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of one request."""

    delay_ns: int | None
    """Time until the reply; None: there is none, ever."""
    failure: Failure | None = None
    body: bytes = b""


Answering = Callable[[int, int], Answer]
"""The answer to a request, from its number and when it was sent."""


@dataclass(slots=True)
class Sent:
    """One request as the server saw it."""

    at_ns: int
    keep: bool
    connection: int
    cancelled: bool = False
    request: bytes = b""
    """The first piece of what was sent."""


@dataclass(slots=True)
class SimulatedServer:
    """Answers requests by a law, in virtual time."""

    loop: SimulatedLoop
    answering: Answering
    capacity: int = 1
    sent: list[Sent] = field(default_factory=list)
    traceparents: dict[int, str] = field(default_factory=dict)
    """By the number of the request."""
    connections: list["SimulatedConnection"] = field(default_factory=list)

    def opener(self) -> OpenConnection:
        """Return what opens a connection."""

        async def open_one(on_reply: OnReply, on_capacity: OnCapacity) -> Connection:
            connection = SimulatedConnection(self, len(self.connections), on_reply, on_capacity)
            self.connections.append(connection)
            return connection

        return open_one

    def lose(self, failure: Failure) -> None:
        """Lose every connection."""
        for connection in self.connections:
            connection.lose(failure)

    def come_back(self) -> None:
        """Take connections again."""
        for connection in self.connections:
            connection.come_back()


class SimulatedConnection:
    """A connection of the contract in virtual time."""

    def __init__(
        self, server: SimulatedServer, place: int, on_reply: OnReply, on_capacity: OnCapacity
    ) -> None:
        self._server = server
        self._place = place
        self._on_reply = on_reply
        self._on_capacity = on_capacity
        self._flying: dict[int, tuple[Sent, asyncio.TimerHandle | None]] = {}
        self.capacity = server.capacity
        self.connected = True
        self.last_error = ""
        self.reconnects = 0
        self.resent_token: int | None = None

    @property
    def outstanding(self) -> int:
        """Requests without an answer."""
        return len(self._flying)

    def send(self, prepared: PreparedRequest, token: int, keep_reply: bool = False) -> None:  # noqa: FBT001, FBT002 - the contract's
        """Take a request; what it says does not change the answer."""
        assert self.outstanding < self.capacity
        assert token not in self._flying
        loop = self._server.loop
        request = prepared.pieces[0]
        sent = Sent(loop.now_ns(), keep_reply, self._place, request=request)
        answer = self._server.answering(len(self._server.sent), sent.at_ns)
        self._server.sent.append(sent)
        handle = None
        if answer.delay_ns is not None:
            due = sent.at_ns + answer.delay_ns
            handle = loop.call_at_ns(due, lambda: self._reply(token, answer))
        self._flying[token] = (sent, handle)

    def send_traced(
        self,
        prepared: PreparedRequest,
        token: int,
        keep_reply: bool,  # noqa: FBT001 - the contract's
        traceparent: str,
    ) -> None:
        """Take a request, and note its traceparent."""
        self.send(prepared, token, keep_reply)
        self._server.traceparents[len(self._server.sent) - 1] = traceparent

    def first_byte_ns(self, token: int) -> int:
        """Return 0: replies come at once."""
        assert token not in self._flying
        return 0

    def cancel(self, token: int) -> str:
        """Forget a request."""
        sent, handle = self._flying.pop(token)
        sent.cancelled = True
        if handle is not None:
            handle.cancel()
        return ""

    async def close(self) -> None:
        """Forget everything."""
        for token in list(self._flying):
            self.cancel(token)

    def lose(self, failure: Failure) -> None:
        """Be cut off."""
        self.capacity = 0
        self.connected = False
        for token in list(self._flying):
            self.cancel(token)
            self._on_reply(token, failure, None)

    def come_back(self) -> None:
        """Be connected again."""
        self.connected = True
        self.capacity = self._server.capacity
        self.reconnects += 1
        self._on_capacity(self)

    def _reply(self, token: int, answer: Answer) -> None:
        sent, _ = self._flying.pop(token)
        body = ReplyBody(answer.body, None) if sent.keep and answer.failure is None else None
        self._on_reply(token, answer.failure, body)


def a_site(loop: SimulatedLoop, lateness: Callable[[int], int] = lambda _: 0) -> LoopContext:
    """Return a place for a driver in virtual time."""
    return LoopContext(loop, loop.now_ns, lambda wake: SimulatedPacer(loop, wake, lateness))


def drive(
    loop: SimulatedLoop, driver: Driver, servers: Sequence[SimulatedServer], connections: int = 1
) -> End:
    """Drive a step to its end, with so many connections to each server."""

    async def work() -> End:
        driver.configure([server.opener() for server in servers], connections)
        await driver.connect()
        try:
            return await driver.run()
        finally:
            await driver.close()

    return simulate(loop, work())


def simulate(loop: SimulatedLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time and close the loop."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
