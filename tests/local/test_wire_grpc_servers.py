"""gRPC against a real server: grpc.aio with the protocol's own messages."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
import pytest
from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # ships no types
    ModelInferRequest,
    ModelInferResponse,
)

from inferometer_loadgen.wire.connection import open_connection
from inferometer_loadgen.wire.contract import (
    ConnectionFailedError,
    Failure,
    FailureKind,
    RequestTarget,
)
from support.waiting import until
from support.wire_bytes import ACK, PING, frame, settings
from support.wire_client import Answer, connected, run

REFUSED = Failure(FailureKind.STATUS, "The server reset the stream: REFUSED_STREAM.")
Infer = Callable[[Any, Any], Awaitable[Any]]


async def echo(infer_request: Any, _context: Any) -> Any:
    """Answer with the tensor that was sent."""
    return ModelInferResponse(
        id=infer_request.id, raw_output_contents=infer_request.raw_input_contents
    )


@asynccontextmanager
async def serving(
    infer: Infer, *options: tuple[str, int], port: int = 0
) -> AsyncIterator[tuple[Any, RequestTarget]]:
    """Start a server whose ModelInfer is ``infer``."""
    server = grpc.aio.server(
        options=(
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            *options,
        )
    )
    method = grpc.unary_unary_rpc_method_handler(
        infer,
        request_deserializer=ModelInferRequest.FromString,
        response_serializer=ModelInferResponse.SerializeToString,
    )
    service = "inference.GRPCInferenceService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"ModelInfer": method}),)
    )
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield server, RequestTarget("GRPC", "127.0.0.1", port, "m")
    finally:
        await server.stop(None)


def request(size: int = 4) -> bytes:
    """Serialize a request with a tensor of that many bytes."""
    tensor = bytes(index % 251 for index in range(size))
    serialized: bytes = ModelInferRequest(
        model_name="m", id="7", raw_input_contents=[tensor]
    ).SerializeToString()
    return serialized


def check_echo(answer: Answer, size: int) -> None:
    """Find in the answer the tensor that was sent."""
    failure, reply = answer
    assert failure is None
    assert reply is not None
    answered = ModelInferResponse.FromString(reply.body)
    sent = ModelInferRequest.FromString(request(size))
    assert list(answered.raw_output_contents) == list(sent.raw_input_contents)


@pytest.mark.parametrize("size", [4, 20_000])
@pytest.mark.parametrize("headers", [3_900, 6_000, 16_000, 40_000])
def test_large_headers_go_with_every_request(headers: int, size: int) -> None:
    """Whether or not the server's table holds them, or one frame, each request brings them all."""
    value = "".join(chr(33 + index % 90) for index in range(headers))

    async def check(infer_request: Any, context: Any) -> Any:
        assert dict(context.invocation_metadata())["x-token"] == value
        return await echo(infer_request, context)

    async def main() -> None:
        most = (("grpc.max_metadata_size", 65_536), ("grpc.absolute_max_metadata_size", 65_536))
        async with (
            serving(check, *most) as (_, target),
            connected(replace(target, headers=(("X-Token", value),))) as caller,
        ):
            for _ in range(3):
                check_echo(await caller.call(request(size)), size)
            assert caller.connection.reconnects == 0

    run(main())


@pytest.mark.parametrize("streams", [1, 8])
@pytest.mark.parametrize("size", [1_024, 1_048_576])
def test_tensors_are_returned_unchanged(size: int, streams: int) -> None:
    """Bodies beyond every window and frame go both ways, alone and interleaved."""

    async def main() -> None:
        async with serving(echo) as (_, target), connected(target, streams=streams) as caller:
            payload = request(size)
            for answer in await asyncio.gather(*(caller.call(payload) for _ in range(24))):
                check_echo(answer, size)
            assert await caller.call(payload, keep=False) == (None, None)
            assert caller.connection.reconnects == 0

    run(main())


def test_an_error_quotes_the_servers_message() -> None:
    """A call that the server aborts fails with its status and text, and the next goes on."""

    async def refuse(infer_request: Any, context: Any) -> Any:
        if not infer_request.raw_input_contents[0]:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "shape [1, 3]: 100 % wrong, ü")
        return await echo(infer_request, context)

    async def main() -> None:
        async with serving(refuse) as (_, target), connected(target) as caller:
            assert await caller.call(request(0)) == (
                Failure(
                    FailureKind.STATUS,
                    "grpc-status 3 INVALID_ARGUMENT: shape [1, 3]: 100 % wrong, ü",
                ),
                None,
            )
            check_echo(await caller.call(request()), 4)

    run(main())


def test_an_unknown_method_is_an_error() -> None:
    """A server without the inference service says so itself."""

    async def main() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with connected(RequestTarget("GRPC", "127.0.0.1", port, "m")) as caller:
            failure, _ = await caller.call(request())
        await server.stop(None)
        assert failure is not None
        assert failure.kind is FailureKind.STATUS
        assert "grpc-status 12 UNIMPLEMENTED" in failure.message

    run(main())


def test_the_servers_limit_of_streams_is_respected() -> None:
    """With 2 streams allowed and 8 wanted, never more than 2 are outstanding."""
    now, most = 0, 0

    async def main() -> None:
        both = asyncio.Event()

        async def count(infer_request: Any, context: Any) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 2:
                both.set()
            await both.wait()
            now -= 1
            return await echo(infer_request, context)

        limit = ("grpc.max_concurrent_streams", 2)
        async with serving(count, limit) as (_, target), connected(target, streams=8) as caller:
            assert caller.connection.capacity == 2
            refused = 0
            for answer in await asyncio.gather(*(caller.call(request()) for _ in range(100))):
                # grpc-core counts a stream for a moment after its end and then refuses the next,
                # which a load generator must report and not retry.
                if answer == (REFUSED, None):
                    refused += 1
                else:
                    check_echo(answer, 4)
            assert most == 2
            assert refused < 98

    run(main())


def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    """The server sees the reset, no callback is called, and the connection goes on."""

    async def main() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def hang(infer_request: Any, context: Any) -> Any:
            if infer_request.raw_input_contents[0]:
                return await echo(infer_request, context)
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cancelled.set()

        async with serving(hang) as (_, target), connected(target, streams=2) as caller:
            token, answer = caller.start(request(0))
            await begun.wait()
            caller.connection.cancel(token)
            assert caller.connection.outstanding == 0
            await cancelled.wait()
            check_echo(await caller.call(request()), 4)
            assert not answer.done()
            assert caller.connection.reconnects == 0

    run(main())


def test_a_restarted_server_is_found_again() -> None:
    """What was outstanding fails once, capacity falls to 0 and grows with the new server."""

    async def main() -> None:
        begun = asyncio.Event()

        async def hang(_request: Any, _context: Any) -> Any:
            begun.set()
            await asyncio.get_running_loop().create_future()

        async with serving(hang) as (server, target), connected(target, streams=4) as caller:
            answers = [caller.start(request())[1] for _ in range(4)]
            await begun.wait()
            await server.stop(None)
            for failure, reply in await asyncio.gather(*answers):
                assert failure is not None
                assert failure.kind in (FailureKind.CONNECTION, FailureKind.STATUS)
                assert reply is None
            assert caller.connection.outstanding == 0
            async with serving(echo, port=target.port):
                check_echo(await caller.call(request()), 4)
                assert caller.connection.capacity == 4
                assert caller.connection.reconnects == caller.capacity_grew == 1

    run(main())


def test_connections_of_a_greatest_age_lose_no_request() -> None:
    """A server that says GOAWAY every 50 ms is followed to new connections without an error."""

    async def main() -> None:
        age = ("grpc.max_connection_age_ms", 50), ("grpc.max_connection_age_grace_ms", 5_000)
        async with serving(echo, *age) as (_, target), connected(target, streams=4) as caller:

            async def keep_calling() -> None:
                while caller.connection.reconnects < 3:
                    check_echo(await caller.call(request()), 4)

            await asyncio.gather(*(keep_calling() for _ in range(4)))

    run(main())


def test_a_call_can_be_cancelled_on_a_connection_that_is_going_away() -> None:
    """It stays outstanding next to the new connection until it is cancelled."""

    async def main() -> None:
        cancelled = asyncio.Event()

        async def hang(infer_request: Any, context: Any) -> Any:
            if infer_request.raw_input_contents[0]:
                return await echo(infer_request, context)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cancelled.set()

        age = ("grpc.max_connection_age_ms", 50), ("grpc.max_connection_age_grace_ms", 20_000)
        async with serving(hang, *age) as (_, target), connected(target, streams=2) as caller:
            token, answer = caller.start(request(0))
            await until(lambda: caller.connection.reconnects > 0, "a reconnect")
            assert caller.connection.outstanding == 1
            check_echo(await caller.call(request()), 4)
            caller.connection.cancel(token)
            assert caller.connection.outstanding == 0
            await cancelled.wait()
            assert not answer.done()

    run(main())


def test_a_closed_port_is_refused_in_a_sentence() -> None:
    """Host, port and reason are named."""

    async def main() -> None:
        async with serving(echo) as (_, target):
            pass
        await open_connection(target, lambda *_: None, lambda _: None)

    with pytest.raises(ConnectionFailedError, match=r"to 127\.0\.0\.1:\d+ could not be opened: .*"):
        run(main())


def test_a_ping_is_answered_though_no_request_follows() -> None:
    """Its answer waits for the next request to leave with, but not for long."""

    async def answered() -> None:
        got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(settings() + frame(PING, 0, 0, b"12345678"))
            got.set_result(await reader.readuntil(b"12345678"))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        target = RequestTarget("GRPC", "127.0.0.1", server.sockets[0].getsockname()[1], "m")
        async with server, connected(target):
            assert (await got).endswith(frame(PING, ACK, 0, b"12345678"))

    run(answered())
