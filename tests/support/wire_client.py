"""A driver's side of one connection, for tests: calls that can be awaited."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import uvloop

from inferometer_loadgen.wire.connection import open_connection, prepare
from inferometer_loadgen.wire.contract import (
    Connection,
    EncodedRequest,
    Failure,
    ReplyBody,
    RequestTarget,
)
from support.waiting import DEADLINE_SECONDS, within_deadline

Answer = tuple[Failure | None, ReplyBody | None]
T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine on uvloop, until the deadline at most."""

    async def bounded() -> T:
        async with within_deadline(f"the end of {main}"):
            return await main

    return uvloop.run(bounded())


class Caller:
    """One connection, whose replies are awaited by token."""

    def __init__(self, target: RequestTarget) -> None:
        self.target = target
        self.connection: Connection
        self.capacity_grew = 0
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._room = asyncio.Event()
        self._next_token = 0

    def start(
        self, payload: bytes, *, json_length: int | None = None, keep: bool = True
    ) -> tuple[int, asyncio.Future[Answer]]:
        """Send a request now; its token and its answer to come."""
        connection = self.connection
        assert connection.outstanding < connection.capacity
        token, self._next_token = self._next_token, self._next_token + 1
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        prepared = prepare(self.target, EncodedRequest(payload, json_length))
        connection.send(prepared, token, keep)
        return token, answer

    async def call(
        self, payload: bytes = b"", *, json_length: int | None = None, keep: bool = True
    ) -> Answer:
        """Send a request as soon as there is room, and await its answer."""
        await self.room()
        return await self.start(payload, json_length=json_length, keep=keep)[1]

    async def room(self) -> None:
        """Wait until a request may be sent."""
        while self.connection.outstanding >= self.connection.capacity:
            self._room.clear()
            await self._room.wait()

    def on_reply(self, token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        """Take an answer; one without a request is an error of the connection."""
        self._answers.pop(token).set_result((failure, reply))
        self._room.set()

    def on_capacity(self, connection: Connection) -> None:
        """Count, and wake who waits for room."""
        assert connection is self.connection
        self.capacity_grew += 1
        self._room.set()


@asynccontextmanager
async def connected(target: RequestTarget, *, streams: int = 1) -> AsyncIterator[Caller]:
    """Open a connection and close it at the end."""
    caller = Caller(target)
    caller.connection = await open_connection(
        target,
        caller.on_reply,
        caller.on_capacity,
        streams=streams,
        connect_timeout_seconds=DEADLINE_SECONDS,
    )
    try:
        yield caller
    finally:
        await caller.connection.close()
