"""Connections and their transports: number of writes, and calls within a reply."""

import asyncio
from collections.abc import Callable

import pytest
from typing_extensions import override

from inferometer_loadgen.wire.connection import prepare
from inferometer_loadgen.wire.contract import (
    EncodedRequest,
    Failure,
    OnReply,
    PreparedRequest,
    ReplyBody,
    RequestTarget,
)
from inferometer_loadgen.wire.grpc.connection import GrpcConnection
from inferometer_loadgen.wire.http1 import connection as http1_connection
from inferometer_loadgen.wire.http1.connection import Http1Connection
from support.waiting import until, within_deadline
from support.wire_bytes import frame, goaway, reply, settings, split_frames

GRPC = RequestTarget("GRPC", "host", 1, "m")
HTTP = RequestTarget("HTTP", "host", 1, "m")
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Wire(asyncio.Transport):
    """A transport that records its writes and can lose its connection."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.open = True
        self.protocol = protocol

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.writes.append(bytes(data))

    @override
    def close(self) -> None:
        """Lose the connection in the next turn of the loop, as real transports do."""
        if self.open:
            self.open = False
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    @override
    def abort(self) -> None:
        """Close."""
        self.close()


def connecting_to(
    monkeypatch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop, *hello: bytes
) -> list[Wire]:
    """Replace the loop's connections by recorded transports, each greeted with ``hello``."""
    made: list[Wire] = []

    async def create_connection(
        factory: Callable[[], asyncio.Protocol], _host: str, _port: int, **_tls: object
    ) -> tuple[Wire, asyncio.Protocol]:
        protocol = factory()
        wire = Wire(protocol)
        made.append(wire)
        protocol.connection_made(wire)
        for data in hello:
            protocol.data_received(data)
        wire.writes.clear()
        return wire, protocol

    monkeypatch.setattr(loop, "create_connection", create_connection)
    return made


class Resender:
    """Sends the next request from within each reply, as a closed loop does."""

    def __init__(self, target: RequestTarget) -> None:
        self.prepared: PreparedRequest = prepare(target, EncodedRequest(b"{}", 2))
        self.failures: list[Failure | None] = []
        self.connection: GrpcConnection | Http1Connection

    def on_reply(self, token: int, failure: Failure | None, _reply: ReplyBody | None) -> None:
        """Send again while there is room."""
        self.failures.append(failure)
        if self.connection.outstanding < self.connection.capacity:
            self.connection.send(self.prepared, token)


def grpc_connection(on_reply: OnReply, streams: int) -> GrpcConnection:
    """Return a transport whose loss is not observed."""
    return GrpcConnection(GRPC, on_reply, lambda _: None, streams=streams, timeout_seconds=1)


def test_requests_sent_from_replies_leave_in_one_write_per_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three replies in one read, each answered with a request, and a PING: one write."""

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop(), settings())
        driver = Resender(GRPC)
        driver.connection = connection = grpc_connection(driver.on_reply, 3)
        await connection.open()
        [wire] = made
        for token in range(3):
            connection.send(driver.prepared, token)
        assert len(wire.writes) == 3
        wire.protocol.data_received(
            reply(1) + frame(6, 0, 0, b"12345678") + reply(3) + reply(5) + reply(7)[:20]
        )
        assert len(wire.writes) == 4
        assert [kind for kind, _, _, _ in split_frames(wire.writes[3])] == [1, 0, 6, 1, 0, 1, 0]
        assert connection.outstanding == 3
        await connection.close()

    asyncio.run(main())


def test_a_traced_request_is_written_before_its_call_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even one sent from a reply: its part `send` ends with that call."""

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop(), settings())
        prepared = prepare(GRPC, EncodedRequest(b"{}", 2))
        written: list[int] = []

        def on_reply(token: int, _failure: Failure | None, _reply: ReplyBody | None) -> None:
            connection.send_traced(
                prepared, token, keep_reply=False, traceparent=f"00-{1:032x}-{1:016x}-01"
            )
            written.append(len(made[0].writes))

        connection = grpc_connection(on_reply, 2)
        await connection.open()
        for token in range(2):
            connection.send(prepared, token)
        made[0].protocol.data_received(reply(1) + reply(3))
        assert written == [3, 4]
        assert len(made[0].writes) == 4
        await connection.close()

    asyncio.run(main())


def test_nothing_is_sent_on_a_connection_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies after a GOAWAY find no capacity; the new connection has it."""

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop(), settings())
        driver = Resender(GRPC)
        driver.connection = connection = grpc_connection(driver.on_reply, 2)
        await connection.open()
        for token in range(2):
            connection.send(driver.prepared, token)
        made[0].protocol.data_received(reply(1) + goaway(5) + reply(3))
        assert (connection.capacity, connection.outstanding) == (0, 1)
        made[0].protocol.data_received(reply(5))
        assert driver.failures == [None, None, None]
        assert not made[0].open
        await until(lambda: connection.capacity > 0, "a new connection")
        assert (connection.capacity, connection.outstanding, connection.reconnects) == (2, 0, 1)
        assert len(made) == 2
        await connection.close()
        assert not made[1].open

    asyncio.run(main())


def test_an_http_reply_is_followed_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is free again when the driver receives a reply."""

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop())
        driver = Resender(HTTP)
        driver.connection = connection = Http1Connection(HTTP, driver.on_reply, lambda _: None, 1)
        await connection.open()
        connection.send(driver.prepared, 0)
        for _ in range(3):
            made[0].protocol.data_received(GOOD)
        assert driver.failures == [None] * 3
        assert len(made[0].writes) == 4
        await connection.close()
        assert not made[0].open
        assert connection.capacity == 0

    asyncio.run(main())


def test_replies_that_end_with_their_connection_are_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HTTP/1.0 without a length: the connection is reopened at once, any number of times."""
    delays: list[float] = []
    sleep = asyncio.sleep

    async def waited(seconds: float) -> None:
        delays.append(seconds)
        await sleep(0)

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop())
        monkeypatch.setattr(asyncio, "sleep", waited)
        answers: list[tuple[Failure | None, ReplyBody | None]] = []
        back = asyncio.Event()
        connection = Http1Connection(
            HTTP, lambda _, *answer: answers.append(answer), lambda _: back.set(), 1
        )
        await connection.open()
        for _ in range(4):
            back.clear()
            connection.send(prepare(HTTP, EncodedRequest(b"{}", 2)), 0, keep_reply=True)
            made[-1].protocol.data_received(b"HTTP/1.0 200 OK\r\n\r\nok")
            if not made[-1].protocol.eof_received():
                made[-1].close()
            async with within_deadline("the reopened connection"):
                await back.wait()
        assert answers == [(None, ReplyBody(b"ok", None))] * 4
        assert delays == []
        await connection.close()

    asyncio.run(main())


ERROR = b'HTTP/1.1 500 Oh\r\nContent-Length: 14\r\n\r\n{"error": "x"}'
ALIKE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nInference-Header-Content-Length: 2\r\n\r\n{}12"
_LOSSES: list[tuple[list[bytes], bytes, list[str | None], int]] = [
    # replies before the last request, bytes of its reply before the loss, failures, sends in all
    ([ERROR], b"", ["status", None], 3),
    ([GOOD, ERROR], b"", [None, "status", None], 4),
    ([ERROR, GOOD], b"", ["status", None, "connection"], 3),
    # A reply that is known by its template, and not parsed, ends the time after an error, too.
    ([ALIKE, ALIKE, ERROR, ALIKE], b"", [None, None, "status", None, "connection"], 5),
    ([GOOD], b"", [None, "connection"], 2),
    ([ERROR], ERROR[:9], ["status", "connection"], 2),
]


@pytest.mark.parametrize("ends", ["eof", "reset"])
@pytest.mark.parametrize(("replies", "begun", "failures", "sends"), _LOSSES)
def test_a_request_right_behind_an_error_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
    replies: list[bytes],
    begun: bytes,
    failures: list[str | None],
    sends: int,
    ends: str,
) -> None:
    """If the server closed the connection before it read the request, a new one carries it."""

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop())
        found: list[str | None] = []
        back = asyncio.Event()
        connection = Http1Connection(
            HTTP,
            lambda _, failure, __: found.append(None if failure is None else str(failure.kind)),
            lambda _: back.set(),
            1,
        )
        await connection.open()
        prepared = prepare(HTTP, EncodedRequest(b"{}", 2))
        for earlier in replies:
            connection.send(prepared, 5)
            made[0].protocol.data_received(earlier)
        connection.send(prepared, 7)
        if begun:
            made[0].protocol.data_received(begun)
        if ends == "eof":
            made[0].protocol.eof_received()
        made[0].close()
        async with within_deadline("the reopened connection"):
            await back.wait()
        is_resent = len(failures) > len(found)
        assert connection.resent_token == (7 if is_resent else None)
        assert connection.outstanding == is_resent
        if is_resent:
            assert made[1].writes == made[0].writes[-1:]
            made[1].protocol.data_received(GOOD)
        assert found == failures
        assert sum(len(wire.writes) for wire in made) == sends
        await connection.close()

    asyncio.run(main())


def test_a_request_is_sent_again_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second loss fails it, and so does a server that can no longer be reached."""

    async def main(*, reachable: bool) -> list[Failure | None]:
        loop = asyncio.get_running_loop()
        made = connecting_to(monkeypatch, loop)
        found: list[Failure | None] = []
        over = asyncio.Event()

        def take(_: int, failure: Failure | None, __: ReplyBody | None) -> None:
            found.append(failure)
            if len(found) == 2:
                over.set()

        connection = Http1Connection(HTTP, take, lambda _: made[-1].close(), 1)
        await connection.open()
        prepared = prepare(HTTP, EncodedRequest(b"{}", 2))
        connection.send(prepared, 5)
        made[0].protocol.data_received(ERROR)
        connection.send(prepared, 7)
        if not reachable:

            async def refuse(*_: object, **__: object) -> None:
                raise ConnectionRefusedError(111, "Connection refused")

            monkeypatch.setattr(loop, "create_connection", refuse)
        made[0].close()
        async with within_deadline("the failure of both requests"):
            await over.wait()
        assert connection.outstanding == 0
        await connection.close()
        return found

    for reachable in (True, False):
        _, lost = asyncio.run(main(reachable=reachable))
        assert lost is not None
        assert "before any of it arrived: the server closed the connection." in lost.message
        assert ("Connection refused" in lost.message) != reachable


def test_closing_waits_for_no_transport_that_never_reports_its_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As uvloop's do whose opening was cancelled right behind `connection_made`."""
    monkeypatch.setattr(http1_connection, "_GONE_WITHIN_SECONDS", 0.01)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = connecting_to(monkeypatch, loop)
        connection = Http1Connection(HTTP, lambda *_: None, lambda _: None, 1)
        await connection.open()
        opening = asyncio.Event()

        async def never(factory: Callable[[], asyncio.Protocol], *_: object, **__: object) -> None:
            protocol = factory()
            wire = Wire(protocol)
            wire.open = False
            protocol.connection_made(wire)
            opening.set()
            await loop.create_future()

        monkeypatch.setattr(loop, "create_connection", never)
        made[0].close()
        async with within_deadline("the attempt to reopen the connection"):
            await opening.wait()
        await connection.close()

    asyncio.run(main())


def http_reply(body: bytes, stamp: str = "a", json_length: int = 2) -> bytes:
    """Return a good reply whose headers give the offset of its tensors."""
    return (
        f"HTTP/1.1 200 OK\r\nDate: {stamp}\r\nContent-Length: {len(body)}\r\n"
        f"Inference-Header-Content-Length: {json_length}\r\n\r\n"
    ).encode() + body


@pytest.mark.parametrize("keep", [True, False])
def test_a_template_never_changes_how_another_reply_is_read(
    monkeypatch: pytest.MonkeyPatch, *, keep: bool
) -> None:
    """A reply is read correctly whatever its pieces and whatever the previous reply's headers."""
    first, second = http_reply(b"{}12"), http_reply(b"{}34")
    cut, late = http_reply(b"{}56")[:30], http_reply(b"{}56")[30:]
    rounds: list[tuple[list[bytes], bytes | None]] = [
        ([first], b"{}12"),
        ([second], b"{}34"),
        ([cut, late], b"{}56"),
        ([second], b"{}34"),
        ([second[:4], second[4:]], b"{}34"),
        ([second[:-4], second[-4:]], b"{}34"),
        ([http_reply(b"{}78", "b")], b"{}78"),
        ([http_reply(b"{}123", "b")], b"{}123"),
        ([http_reply(b"{}123", "b")[:-1], b"3"], b"{}123"),
        ([http_reply(b"{}123", "b") + b"x"], None),
    ]

    async def main() -> None:
        made = connecting_to(monkeypatch, asyncio.get_running_loop())
        answers: list[tuple[Failure | None, ReplyBody | None]] = []
        connection = Http1Connection(
            HTTP, lambda _, *answer: answers.append(answer), lambda _: None, 1
        )
        await connection.open()
        prepared = prepare(HTTP, EncodedRequest(b"{}", 2))
        for pieces, body in rounds:
            connection.send(prepared, 7, keep)
            for piece in pieces:
                assert not answers
                made[0].protocol.data_received(piece)
            [(failure, reply)] = answers
            answers.clear()
            assert (failure is None) == (body is not None)
            assert reply == (ReplyBody(body, 2) if keep and body is not None else None)
        await connection.close()

    asyncio.run(main())
