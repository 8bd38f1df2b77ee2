"""HTTP/1.1 against a real server (aiohttp), and both protocols against servers that are none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from inferometer_loadgen.wire.connection import open_connection
from inferometer_loadgen.wire.contract import (
    ConnectionFailedError,
    Failure,
    FailureKind,
    ReplyBody,
    RequestTarget,
)
from support.waiting import until
from support.wire_client import connected, run

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(request: web.Request) -> web.StreamResponse:
    """Answer with the body that was sent, and the length of its JSON part."""
    length = request.headers.get("Inference-Header-Content-Length")
    headers = {} if length is None else {"Inference-Header-Content-Length": length}
    return web.Response(body=await request.read(), headers=headers)


@asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncIterator[RequestTarget]:
    """Start a server that answers inferences of model m."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v2/models/m/infer", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield RequestTarget("HTTP", "127.0.0.1", runner.addresses[0][1], "m")
    finally:
        await runner.cleanup()


@asynccontextmanager
async def speaking(speak: Speak, port: int = 0) -> AsyncIterator[RequestTarget]:
    """Start a server that says whatever ``speak`` writes, and then closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await speak(reader, writer)
            await writer.drain()
        except ConnectionError:
            pass  # the client closed first
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield RequestTarget("HTTP", "127.0.0.1", server.sockets[0].getsockname()[1], "m")
    finally:
        server.close()
        await server.wait_closed()


def saying(*replies: bytes) -> Speak:
    """Read a request before each of the replies, then close."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply_bytes in replies:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply_bytes)

    return speak


@pytest.mark.parametrize("size", [1_024, 1_048_576])
def test_bodies_are_returned_unchanged(size: int) -> None:
    """Small and large bodies go both ways over one connection."""

    async def main() -> None:
        body = bytes(index % 251 for index in range(size))
        async with serving(echo) as target, connected(target) as caller:
            for _ in range(8):
                assert await caller.call(body, json_length=10) == (None, ReplyBody(body, 10))
            assert await caller.call(body) == (None, ReplyBody(body, None))
            assert await caller.call(body, keep=False) == (None, None)
            assert caller.connection.reconnects == 0

    run(main())


def test_chunked_replies_are_returned_unchanged() -> None:
    """A streamed reply of a megabyte, kept and not, leaves the connection usable."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x" * 10_486)
        await response.write_eof()
        return response

    async def main() -> None:
        async with serving(stream) as target, connected(target) as caller:
            for _ in range(4):
                assert await caller.call() == (None, ReplyBody(b"x" * 1_048_600, None))
                assert await caller.call(keep=False) == (None, None)
            assert caller.connection.reconnects == 0

    run(main())


def test_a_server_that_closes_after_each_reply_is_followed() -> None:
    """Connection: close costs a new connection each, but no request."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.Response(body=await request.read())
        response.force_close()
        return response

    async def main() -> None:
        async with serving(answer) as target, connected(target) as caller:
            for number in range(20):
                body = b"%d" % number
                assert await caller.call(body) == (None, ReplyBody(body, None))
            await caller.room()
            assert caller.connection.reconnects == caller.capacity_grew == 20

    run(main())


def test_an_http_1_0_server_is_understood() -> None:
    """A body that ends with its connection is good."""

    async def main() -> None:
        reply_bytes = b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\nold"
        async with speaking(saying(reply_bytes)) as target, connected(target) as caller:
            for _ in range(3):
                assert await caller.call() == (None, ReplyBody(b"old", None))

    run(main())


def test_an_error_quotes_the_servers_message() -> None:
    """The protocol's error body is the failure's text; the connection stays."""

    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "input 'x' has shape [2]"}, status=400)

    async def main() -> None:
        async with serving(refuse) as target, connected(target) as caller:
            for _ in range(2):
                assert await caller.call() == (
                    Failure(
                        FailureKind.STATUS, "HTTP status 400 Bad Request: input 'x' has shape [2]"
                    ),
                    None,
                )
            assert caller.connection.reconnects == 0

    run(main())


def test_a_cancelled_request_costs_its_connection() -> None:
    """Its reply can never be taken for the next one's."""

    async def main() -> None:
        async def maybe(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            if body == b"hang":
                await asyncio.get_running_loop().create_future()
            return web.Response(body=body)

        async with serving(maybe) as target, connected(target) as caller:
            token, answer = caller.start(b"hang")
            caller.connection.cancel(token)
            assert (caller.connection.outstanding, caller.connection.capacity) == (0, 0)
            assert await caller.call(b"next") == (None, ReplyBody(b"next", None))
            assert not answer.done()
            assert caller.connection.reconnects == 1

    run(main())


def test_a_restarted_server_is_found_again() -> None:
    """What was outstanding fails once, and the new server is used as soon as it listens."""

    async def main() -> None:
        begun = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            begun.set()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

        async with speaking(hang) as target, connected(target) as caller:
            _, answer = caller.start(b"x")
            await begun.wait()
            failure, reply = await answer
            assert failure == Failure(
                FailureKind.CONNECTION,
                "The reply was cut off after 4 of 10 bytes of its body: "
                "the server closed the connection.",
            )
            assert reply is None
            assert caller.connection.outstanding == 0

        async with serving(echo, target.port), connected(target) as caller:
            assert await caller.call(b"x") == (None, ReplyBody(b"x", None))

    run(main())


def test_a_lost_server_is_dialled_until_it_is_back() -> None:
    """While no server listens there is no capacity; then it comes back by itself."""

    async def main() -> None:
        async with serving(echo) as target:
            caller_context = connected(target)
            caller = await caller_context.__aenter__()
            assert (await caller.call(b"x"))[0] is None
        await until(lambda: caller.connection.capacity == 0, "the loss of the connection")
        async with serving(echo, target.port):
            assert await caller.call(b"y") == (None, ReplyBody(b"y", None))
            assert caller.connection.reconnects == 1
            await caller_context.__aexit__(None, None, None)

    run(main())


@pytest.mark.parametrize(
    ("reply_bytes", "kind"),
    [
        pytest.param(b"", FailureKind.CONNECTION, id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", FailureKind.CONNECTION, id="half headers"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxx", FailureKind.CONNECTION, id="half"
        ),
        pytest.param(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", FailureKind.PROTOCOL, id="HTTP/2"),
        pytest.param(b"220 mail.example ESMTP\r\n\r\n", FailureKind.PROTOCOL, id="mail"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz", FailureKind.PROTOCOL, id="too long"
        ),
    ],
)
def test_servers_that_speak_badly_fail_each_request(reply_bytes: bytes, kind: FailureKind) -> None:
    """Each request fails by kind, and the connection is opened anew, never stuck."""

    async def main() -> None:
        async with speaking(saying(reply_bytes)) as target, connected(target) as caller:
            for _ in range(3):
                failure, reply = await caller.call()
                assert failure is not None
                assert failure.kind is kind
                assert reply is None

    run(main())


def test_a_server_that_gives_up_an_idle_connection_costs_nothing() -> None:
    """What it says unasked is no reply; the next request goes over a new connection."""
    first = True

    async def impatient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal first
        if first:
            first = False
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
        else:
            await saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(reader, writer)

    async def main() -> None:
        async with speaking(impatient) as target, connected(target) as caller:
            await until(lambda: caller.connection.reconnects > 0, "a reconnect")
            assert await caller.call() == (None, ReplyBody(b"ok", None))

    run(main())


def test_a_closed_port_is_refused_in_a_sentence() -> None:
    """Host, port and reason are named."""

    async def main() -> None:
        async with serving(echo) as target:
            pass
        await open_connection(target, lambda *_: None, lambda _: None)

    with pytest.raises(ConnectionFailedError, match=r"to 127\.0\.0\.1:\d+ could not be opened: .*"):
        run(main())


def grpc_to(target: RequestTarget) -> RequestTarget:
    """Speak gRPC to the same port."""
    return RequestTarget("GRPC", target.host, target.port, "m")


def test_the_http_port_is_recognised_by_grpc() -> None:
    """The sentence says what is wrong."""

    async def main() -> None:
        async with serving(echo) as target:
            await open_connection(grpc_to(target), lambda *_: None, lambda _: None)

    with pytest.raises(ConnectionFailedError, match="this may be its HTTP port"):
        run(main())


def test_a_silent_server_is_given_up() -> None:
    """A peer that never sends its settings is no gRPC server."""

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with speaking(silent) as target:
            await open_connection(
                grpc_to(target), lambda *_: None, lambda _: None, connect_timeout_seconds=0.05
            )

    with pytest.raises(ConnectionFailedError, match=r"was not open after 0\.05 s"):
        run(main())


def test_close_drops_outstanding_requests() -> None:
    """After close no callback is called, whatever the server still says."""

    async def main() -> None:
        async def hang(_: web.Request) -> web.StreamResponse:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        async with serving(hang) as target:
            async with connected(target) as caller:
                _, answer = caller.start(b"x")
            assert not answer.done()
            assert (caller.connection.capacity, caller.connection.outstanding) == (0, 0)

    run(main())
