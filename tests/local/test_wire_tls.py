"""Connections over TLS carry what plain ones carry, and come back after a loss."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
import pytest
from aiohttp import web
from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # ships no types
    ModelInferRequest,
    ModelInferResponse,
)

from inferometer_loadgen.wire.connection import open_connection
from inferometer_loadgen.wire.contract import (
    ConnectionFailedError,
    FailureKind,
    ReplyBody,
    RequestTarget,
)
from inferometer_loadgen.wire.tls import ClientTls, TlsFiles, TlsRefusedError, tls_context
from support.tls_party import files, server_side
from support.wire_client import connected, run

_LOCKED = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAirx7zRwlp3jwICA+gw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEAYAHbhRv1JVu+Rd+pjikuEEgZDP
XK549cWvgP/QdKViae3JTUq8sEgJCJsmkn3kQFyFSAvraPg3CR0wi0oQSaOP8rQn
/OfxCy0XhzymPLnVi3mNpEHCuzK/7K9ZXS1p5eCWbASB0P9v6CZd8e6hlolfBwcz
P4HT3wTc7oB59dT6T7scPdULcQPMGnOC7r1y3XQ/OChcEZ1bJanROq2G42r/rXc=
-----END ENCRYPTED PRIVATE KEY-----
"""
"""A client's key behind a password."""
HEADERS = (("X-Team", "a b"), ("Authorization", "Bearer t"))


def _tls(folder: Path, protocol: Any) -> ClientTls:
    ours = files(folder, "client")
    named = TlsFiles(ours.authority, ours.certificate, ours.key)
    return ClientTls(tls_context(protocol, named), "127.0.0.1", named)


@asynccontextmanager
async def _http(folder: Path, *, closing: bool = False) -> AsyncIterator[RequestTarget]:
    """Serve inferences over HTTPS: the body comes back behind the value of a header."""

    async def echo(infer_request: web.Request) -> web.Response:
        response = web.Response(
            body=infer_request.headers["X-Team"].encode() + await infer_request.read()
        )
        if closing:
            response.force_close()
        return response

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v2/models/m/infer", echo)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    context, _ = server_side(folder, wants_client=True)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    try:
        yield RequestTarget(
            "HTTP", "127.0.0.1", port, "m", tls=_tls(folder, "HTTP"), headers=HEADERS
        )
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _grpc(folder: Path) -> AsyncIterator[RequestTarget]:
    """Serve inferences over gRPC and TLS: the tensor comes back behind the value of a header."""

    async def echo(infer_request: Any, context: Any) -> Any:
        team = dict(context.invocation_metadata())["x-team"].encode()
        return ModelInferResponse(raw_output_contents=[team + infer_request.raw_input_contents[0]])

    server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
    method = grpc.unary_unary_rpc_method_handler(
        echo,
        request_deserializer=ModelInferRequest.FromString,
        response_serializer=ModelInferResponse.SerializeToString,
    )
    service = "inference.GRPCInferenceService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"ModelInfer": method}),)
    )
    _, credentials = server_side(folder, wants_client=True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield RequestTarget(
            "GRPC", "127.0.0.1", port, "m", tls=_tls(folder, "GRPC"), headers=HEADERS
        )
    finally:
        await server.stop(None)


@pytest.mark.parametrize("size", [1_024, 1_048_576])
def test_bodies_and_headers_go_through_tls(size: int, tmp_path: Path) -> None:
    """Small and large bodies go both ways, with the headers of one's own."""
    body = bytes(index % 251 for index in range(size))

    async def main() -> None:
        async with _http(tmp_path) as target, connected(target) as caller:
            for _ in range(4):
                assert await caller.call(body) == (None, ReplyBody(b"a b" + body, None))
            assert caller.connection.reconnects == 0
        request = ModelInferRequest(raw_input_contents=[body]).SerializeToString()
        async with _grpc(tmp_path) as target, connected(target, streams=4) as caller:
            for _ in range(4):
                failure, reply = await caller.call(request)
                assert failure is None
                assert reply is not None
                body_seen = ModelInferResponse.FromString(reply.body).raw_output_contents[0]
                assert body_seen == b"a b" + body
            assert caller.connection.reconnects == 0

    run(main())


def test_a_connection_that_is_closed_comes_back_with_tls(tmp_path: Path) -> None:
    """A server that closes after each reply is met by a new handshake each time."""

    async def main() -> None:
        async with _http(tmp_path, closing=True) as target, connected(target) as caller:
            for _ in range(4):
                assert await caller.call(b"x") == (None, ReplyBody(b"a bx", None))
            await caller.room()
            assert caller.connection.reconnects == 4

    run(main())


@pytest.mark.parametrize("sends_close_notify", [True, False])
def test_a_body_ended_by_its_connection_needs_close_notify(
    sends_close_notify: bool,  # noqa: FBT001 - pytest calls it
    tmp_path: Path,
) -> None:
    """An attacker who cuts a connection can forge the end of TCP, but not that of TLS."""
    context, _ = server_side(tmp_path, wants_client=True)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with context.wrap_socket(listening.accept()[0], server_side=True) as connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nsome")
            if sends_close_notify:
                with suppress(OSError):  # the peer may close before it answers
                    connection.unwrap()
            else:
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)

    async def main() -> None:
        serving = asyncio.get_running_loop().run_in_executor(None, serve)
        port = listening.getsockname()[1]
        target = RequestTarget("HTTP", "127.0.0.1", port, "m", tls=_tls(tmp_path, "HTTP"))
        async with connected(target) as caller:
            failure, reply = await caller.call(b"x")
            listening.close()
        await serving
        if sends_close_notify:
            assert (failure, reply) == (None, ReplyBody(b"some", None))
        else:
            assert failure is not None
            assert failure.kind is FailureKind.CONNECTION
            assert "cut off after 4 bytes of its body" in failure.message

    run(main())


def test_a_handshake_that_fails_is_a_sentence(tmp_path: Path) -> None:
    """A connection that is opened without the server's authority says what to do."""
    nobodys = ClientTls(tls_context("HTTP", TlsFiles()), "127.0.0.1")

    async def main() -> None:
        async with _http(tmp_path) as secured:
            target = RequestTarget("HTTP", secured.host, secured.port, "m", tls=nobodys)
            with pytest.raises(ConnectionFailedError, match=r"load\.tls\.caFile"):
                await open_connection(target, lambda *_: None, lambda _: None)

    run(main())


@pytest.mark.parametrize(
    ("authority", "certificate", "key", "words"),
    [
        ("absent", None, None, "There is no file"),
        ("client-key.pem", None, None, "holds no certificates in PEM"),
        (None, "absent", "client-key.pem", "There is no file"),
        (None, "client.pem", "server-key.pem", "the key does not match"),
        (None, "client.pem", "authority.pem", "cannot be used"),
        (None, "client.pem", "locked.pem", "protected by a password"),
    ],
)
def test_missing_or_invalid_files_are_reported(
    authority: str | None, certificate: str | None, key: str | None, words: str, tmp_path: Path
) -> None:
    """A file that is missing or holds something else is named; no request is sent."""
    files(tmp_path, "client")
    files(tmp_path, "server")
    (tmp_path / "locked.pem").write_text(_LOCKED)
    named = (None if each is None else tmp_path / each for each in (authority, certificate, key))
    with pytest.raises(TlsRefusedError, match=words):
        tls_context("HTTP", TlsFiles(*named))
