"""Sender of samples: each once, over connections that have one outstanding request each."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from inferometer_loadgen.wire import (
    Connection,
    Failure,
    FailureKind,
    OnCapacity,
    OnReply,
    PreparedRequest,
    ReplyBody,
    no_answer_message,
)

Item = TypeVar("Item")
Open = Callable[[OnReply, OnCapacity], Awaitable[Connection]]
_Answer = tuple[Failure | None, ReplyBody | None]


class ServerLostError(Exception):
    """No connection could be made again in time; the message is the last error."""


@dataclass(frozen=True, slots=True)
class SenderTimeouts:
    """How long a sender waits, in seconds."""

    reply: float
    reconnect: float


@dataclass(slots=True)
class SampleConnection:
    """A connection that carries one request at a time."""

    timeouts: SenderTimeouts
    _connection: Connection | None = None
    _answer: "asyncio.Future[_Answer] | None" = None
    _has_capacity: asyncio.Event = field(default_factory=asyncio.Event)
    _token: int = 0

    async def open(self, open_one: Open) -> None:
        """Open it; raises ConnectionFailedError."""
        self._connection = await open_one(self._on_reply, lambda _: self._has_capacity.set())

    async def close(self) -> None:
        """Close it."""
        if self._connection is not None:
            await self._connection.close()

    async def ask(self, request: PreparedRequest) -> _Answer:
        """Send a request and return its failure or its reply; raises ServerLostError."""
        connection = self._connection
        if connection is None:
            raise RuntimeError("The connection was used before it was opened.")
        await self._wait_for_capacity(connection)
        self._token += 1
        self._answer = asyncio.get_running_loop().create_future()
        connection.send(request, self._token, keep_reply=True)
        try:
            async with asyncio.timeout(self.timeouts.reply):
                return await self._answer
        except TimeoutError:
            came = connection.cancel(self._token)
            message = no_answer_message(f"{self.timeouts.reply:g} s", came)
            return Failure(FailureKind.TIMEOUT, message), None

    async def _wait_for_capacity(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(self.timeouts.reconnect):
                while connection.outstanding >= connection.capacity:
                    self._has_capacity.clear()
                    await self._has_capacity.wait()
        except TimeoutError:
            raise ServerLostError(connection.last_error) from None

    def _on_reply(self, token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        if token == self._token and self._answer is not None and not self._answer.done():
            self._answer.set_result((failure, reply))


class SharedIterator(Generic[Item]):
    """An iterator whose items several tasks take in turn, read outside the event loop."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = enumerate(items)
        self._lock = asyncio.Lock()
        self.ended = False

    async def take(self) -> tuple[int, Item] | None:
        """Return the next item with its index; None once there is none, or it was ended."""
        async with self._lock:
            if self.ended:
                return None
            return await asyncio.to_thread(next, self._items, None)
