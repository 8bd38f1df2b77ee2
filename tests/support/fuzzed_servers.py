"""Drives a step whose server answers mutated copies of recorded replies.

Whole connections under a whole driver, in virtual time: only the transports are pretended.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from typing_extensions import override

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive import ClosedLoop, RequestSource
from inferometer_loadgen.record.recorder import Recorder, StepStatistics
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.wire import Connection, EncodedRequest, OnCapacity, OnReply, RequestTarget
from inferometer_loadgen.wire.connection import open_connection, prepare
from support.drills import A_STEP
from support.recorded_replies import CHUNKED, RECORDED
from support.simulated import SECOND, SimulatedLoop, a_site
from support.wire_bytes import HEADERS, split_frames

QUERIES = 24
CLIENTS = 4
_PREFACE_BYTES = 24
_MUTATED_PART = 0.1
_LOST_PART = 0.03


def mutated(chance: Random, message: bytes) -> bytes:
    """Return bytes that were flipped, cut out, doubled, put in, or cut off."""
    data = bytearray(message)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 1, 2, 4, 9, 64)))
        match chance.randrange(5):
            case 0 if start < end:
                data[start] ^= 1 << chance.randrange(8)
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end]
            case 3:
                data[start:start] = chance.randbytes(chance.choice((1, 4, 9, 300)))
            case _:
                del data[start:]
    return bytes(data)


def pieces(chance: Random, data: bytes) -> list[bytes]:
    """Cut into what may be read at once."""
    if chance.random() < 0.5:
        return [data]
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((1, 2, 8))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


@dataclass(slots=True)
class Server:
    """Answers on as many connections as are opened, and mutates some of what it says."""

    chance: Random
    greeting: Callable[[], bytes]
    answers: Callable[[bytes], list[bytes]]
    """The replies to what one write carries."""
    loop: SimulatedLoop = field(default_factory=SimulatedLoop)
    dialled: int = 0

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], *_: object, **__: object
    ) -> tuple["Pretended", asyncio.Protocol]:
        """Stand in for the loop's `create_connection`."""
        self.dialled += 1
        protocol = factory()
        transport = Pretended(self, protocol)
        protocol.connection_made(transport)
        transport.say(self.greeting())
        return transport, protocol


class Pretended(asyncio.Transport):
    """A transport whose other end is the server; what it says arrives in a later turn."""

    def __init__(self, server: Server, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._server = server
        self._protocol = protocol
        self._is_open = True
        self._coming: deque[bytes] = deque()
        """What is on its way, in order; nothing stands for the end."""

    @override
    def write(self, data: Any) -> None:
        for message in self._server.answers(bytes(data)):
            self.say(message)

    @override
    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def say(self, message: bytes) -> None:
        """Let the client read it, mutated now and then, and now and then cut off behind it."""
        chance = self._server.chance
        if not message:
            return
        if chance.random() < _MUTATED_PART:
            message = mutated(chance, message)
        events = [*pieces(chance, message), *([b""] if chance.random() < _LOST_PART else [])]
        for event in events:
            self._coming.append(event)
            self._server.loop.call_later(0.001, self._arrive)

    def _arrive(self) -> None:
        event = self._coming.popleft()
        if not self._is_open:
            return
        if event:
            self._protocol.data_received(event)
        else:
            self._protocol.eof_received()
            self.close()

    @override
    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._server.loop.call_soon(self._protocol.connection_lost, None)

    @override
    def abort(self) -> None:
        self.close()


def http_server(chance: Random) -> Server:
    """Return one that answers each request with some server's reply."""
    replies = [CHUNKED, *(each.http for each in RECORDED.values())]
    usual = chance.choice(replies)

    def answers(_: bytes) -> list[bytes]:
        return [usual if chance.random() < 0.8 else chance.choice(replies)]

    return Server(chance, lambda: b"", answers)


def grpc_server(chance: Random) -> Server:
    """Return one that answers each stream with some server's reply."""
    usual = chance.choice(list(RECORDED.values()))

    def answers(written: bytes) -> list[bytes]:
        frames = written[_PREFACE_BYTES:] if written.startswith(b"PRI ") else written
        opened = [name for kind, _, name, _ in split_frames(frames) if kind == HEADERS]
        return [_on_stream(usual.grpc, name) for name in opened]

    return Server(chance, lambda: usual.greeting, answers)


def _on_stream(reply: bytes, stream_id: int) -> bytes:
    """Return a recorded reply with another stream in place of the first."""
    frames = bytearray(reply)
    at = 0
    while at < len(frames):
        if int.from_bytes(frames[at + 5 : at + 9], "big") == 1:
            frames[at + 5 : at + 9] = stream_id.to_bytes(4, "big")
        at += 9 + int.from_bytes(frames[at : at + 3], "big")
    return bytes(frames)


def drive_at(server: Server, target: RequestTarget) -> tuple[StepStatistics, End]:
    """Drive a step to its end; raises whatever any callback of the loop raised."""
    faults: list[BaseException] = []
    loop = server.loop
    loop.set_exception_handler(
        lambda _, context: faults.append(
            context.get("exception") or RuntimeError(context["message"])
        )
    )
    loop.create_connection = server.connect  # type: ignore[method-assign, assignment]  # pretended
    step = replace(A_STEP, min_duration_ns=1, max_duration_ns=1000 * SECOND, min_queries=QUERIES)
    closed = Closed(clients=CLIENTS)
    recorder = Recorder()
    payload = EncodedRequest(b"{}" + bytes(16), 2 if target.protocol == "HTTP" else None)
    queries = RequestSource([[prepare(target, payload)]], lambda _: None, timeout_ns=SECOND)

    async def opened(on_reply: OnReply, on_capacity: OnCapacity) -> Connection:
        for _ in range(200):
            try:
                return await open_connection(target, on_reply, on_capacity, streams=CLIENTS)
            except OSError:
                continue
        raise RuntimeError("200 attempts to connect failed.")

    async def run() -> End:
        driver = ClosedLoop(a_site(loop), recorder, queries, step, closed)
        driver.configure([opened], CLIENTS if target.protocol == "HTTP" else 1)
        await driver.connect()
        try:
            return await driver.run()
        finally:
            await driver.close()

    try:
        end = loop.run_until_complete(run())
    finally:
        loop.close()
    if faults:
        raise faults[0]
    return recorder.statistics, end
