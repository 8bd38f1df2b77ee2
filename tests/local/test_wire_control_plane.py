"""The control plane reads what real servers answer, and ends at once for what cannot heal."""

import asyncio
import gzip
import json
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferometer_loadgen.server.control_plane import ControlPlane, ServerDescription
from inferometer_loadgen.server.endpoint import endpoint_of
from inferometer_loadgen.server.refusals import (
    AccessDeniedError,
    ModelNotServedError,
    ProtocolMismatchError,
    ServerNotReadyError,
)
from inferometer_loadgen.wire.tls import ClientTls, TlsFiles, tls_context
from support.oracle_rpc import grpc_front
from support.oracle_script import Script
from support.oracle_server import Oracle
from support.tls_party import files
from support.waiting import DEADLINE_SECONDS

READY, MODEL, MODEL_READY = "/v2/health/ready", "/v2/models/m", "/v2/models/m/ready"
CONFIG = "/v2/models/m/config"
TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}

TLS_RECORD = b"\x16"
"""The first byte of a handshake."""


def answer(status: str = "200 OK", body: bytes = b"{}", *lines: str) -> bytes:
    """Return an answer in HTTP."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


_REFUSED_SECONDS = 2.0
"""How long to wait for a server that does not become ready."""
SERVING = {
    READY: answer(),
    "/v2": answer(body=b'{"name": "s", "version": "1", "extensions": ["binary_tensor_data"]}'),
    MODEL: answer(body=json.dumps({"versions": ["1"], "inputs": [TENSOR]}).encode()),
    MODEL_READY: answer(),
    CONFIG: answer(body=b'{"max_batch_size": 8}'),
}
NOT_FOUND = answer("404 Not Found", b"<html><body><h1>404 Not Found</h1></body></html>")


@asynccontextmanager
async def serving(
    answers: Mapping[str, bytes | Sequence[bytes]],
    otherwise: bytes = NOT_FOUND,
    tls: ssl.SSLContext | None = None,
    *,
    closes_on_tls: bool = False,
) -> AsyncIterator[tuple[int, list[str]]]:
    """Serve these answers on a free port; yield the port and the requests' header blocks.

    Several answers to a path are given in turn, the last of them for ever.
    """
    requests: list[str] = []
    asked: Counter[str] = Counter()
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                first = await reader.readexactly(1)
                if closes_on_tls and first == TLS_RECORD:
                    writer.close()
                    return
                block = (first + await reader.readuntil(b"\r\n\r\n")).decode()
                requests.append(block)
                path = block.split()[1]
                asked[path] += 1
                known = answers.get(path, otherwise)
                several = [known] if isinstance(known, bytes) else known
                writer.write(several[min(asked[path], len(several)) - 1])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], requests
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def described(
    url: str, ready_seconds: float = _REFUSED_SECONDS, **options: Any
) -> ServerDescription:
    """Wait for the server so long at most, and return its description."""
    protocol: Any = "GRPC" if url.startswith("grpc") else "HTTP"
    endpoint = endpoint_of(url, protocol)
    if url.startswith(f"{protocol.lower()}s://"):
        endpoint = replace(endpoint, tls=ClientTls(tls_context(protocol, TlsFiles()), "localhost"))
    control = ControlPlane(endpoint, "m", "", **options)
    try:
        await control.wait_until_ready(ready_seconds)
        return await control.describe()
    finally:
        await control.close()


def described_by(
    answers: Mapping[str, bytes | Sequence[bytes]], otherwise: bytes = NOT_FOUND, **options: Any
) -> ServerDescription:
    """Return the description of a server with these answers."""

    async def run() -> ServerDescription:
        async with serving(answers, otherwise) as (port, _):
            return await described(f"http://127.0.0.1:{port}", **options)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("coding", "encode"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
def test_compressed_answers_are_read(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A proxy that compresses JSON is read, although the client requests no coding."""
    metadata = json.dumps({"inputs": [TENSOR]}).encode()
    coded = answer("200 OK", encode(metadata), f"Content-Encoding: {coding}")

    async def run() -> tuple[ServerDescription, list[str]]:
        async with serving({**SERVING, MODEL: coded}) as (port, requests):
            url = f"http://127.0.0.1:{port}"
            return await described(url, DEADLINE_SECONDS), requests

    found, requests = asyncio.run(run())
    assert [tensor.name for tensor in found.inputs] == ["x"]
    assert all("accept-encoding: identity\r\n" in each.lower() for each in requests)


@pytest.mark.parametrize(
    ("coding", "cause"),
    [
        ("br", "the body is encoded as 'br', which cannot be read. Correct the compression"),
        ("gzip", "the reply's body is not valid gzip data. Correct the compression"),
    ],
)
def test_answers_that_cannot_be_decoded_are_refused(coding: str, cause: str) -> None:
    """No wait makes them readable; of an error, the status alone is enough."""
    coded = f"Content-Encoding: {coding}"
    with pytest.raises(ProtocolMismatchError) as caught:
        described_by({**SERVING, READY: answer("200 OK", b"no such data", coded)})
    assert f"it answered 200 OK to GET /v2/health/ready, but {cause}" in str(caught.value)
    unready = answer("503 Service Unavailable", b"no such data", coded)
    with pytest.raises(ServerNotReadyError, match=r"503 Service Unavailable to GET \S+ready\.$"):
        described_by({**SERVING, READY: unready})


def test_a_server_of_another_kind_is_refused_with_its_own_words() -> None:
    """404 on every path of the protocol: path, status and first line are in the sentence."""
    with pytest.raises(ProtocolMismatchError) as caught:
        described_by({})
    assert "does not speak the Open Inference Protocol" in str(caught.value)
    assert "it answered 404 Not Found to GET /v2/health/ready: 404 Not Found." in str(caught.value)


def test_a_server_that_rejects_every_call_is_refused() -> None:
    """400 to readiness alone is how some servers answer until they are ready."""
    rejected = answer("400 Bad Request", b"no tenant")
    with pytest.raises(ProtocolMismatchError) as caught:
        described_by({}, rejected)
    assert "rejects every request for its state: it answered 400 Bad" in str(caught.value)
    assert "/v2/health/ready: no tenant. Correct the address" in str(caught.value)
    for path in ("/v2", MODEL):
        with pytest.raises(ServerNotReadyError, match="no tenant"):
            described_by({path: SERVING[path]}, rejected)
    with pytest.raises(ServerNotReadyError, match="500 Oh"):
        described_by({}, answer("500 Oh"))


def test_a_site_that_answers_everything_is_refused() -> None:
    """A page with status 200 is no inference server."""
    page = answer(
        body=b"<!doctype html><html><title>x</title><body>Welcome to nginx!</body></html>"
    )
    with pytest.raises(ProtocolMismatchError) as caught:
        described_by({}, page)
    assert "200 OK to GET /v2/models/m, but with no JSON" in str(caught.value)


def test_a_server_without_readiness_is_measured() -> None:
    """A server with the model's metadata alone speaks the protocol."""
    found = described_by({MODEL: SERVING[MODEL]}, ready_seconds=DEADLINE_SECONDS)
    assert (found.server_name, found.versions) == ("", ["1"])


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        ("401 Unauthorized", AccessDeniedError, "it answered 401 Unauthorized to GET /v2/health"),
        ("403 Forbidden", AccessDeniedError, "Set load.headersFile"),
        ("400 Bad Request", ServerNotReadyError, "it answered 400 Bad Request to GET /v2/health"),
        ("503 Service Unavailable", ServerNotReadyError, "within 2 s (server.readyDeadlineSeconds"),
        ("500 Oh", ServerNotReadyError, "it answered 500 Oh to GET /v2/health/ready: loading."),
    ],
)
def test_the_status_and_first_line_are_reported(
    status: str, error: type[Exception], words: str
) -> None:
    """Missing credentials end the wait at once; a server that is not ready is waited for."""
    body = b'{"error": "loading.\\nmore"}'
    with pytest.raises(error) as caught:
        described_by({**SERVING, READY: answer(status, body)})
    assert words in str(caught.value)
    assert ": loading" in str(caught.value)


def test_a_port_with_tls_is_named(tmp_path: Path) -> None:
    """Both ways of a server to refuse plain HTTP say that the port uses TLS."""
    own = files(tmp_path, "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)

    async def run(url: str) -> None:
        async with serving(SERVING, tls=context) as (port, _):
            await described(url.format(port))

    for scheme in ("http", "grpc"):
        with pytest.raises(ProtocolMismatchError, match=f"Write {scheme}s:// instead of {scheme}:"):
            asyncio.run(run(f"{scheme}://127.0.0.1:{{}}"))


@pytest.mark.parametrize(
    "words",
    [
        "Client sent an HTTP request to an HTTPS server.",
        "The plain HTTP request was sent to HTTPS port",
        "Reason: You're speaking plain HTTP to an SSL-enabled server port.",
        "This combination of host and port requires TLS.",
    ],
    ids=["go", "nginx", "apache", "tomcat"],
)
def test_a_refusal_of_plain_http_is_quoted(words: str) -> None:
    """Servers that answer HTTP on a port with TLS say so in sentences of their own."""
    with pytest.raises(ProtocolMismatchError) as caught:
        described_by({}, answer("400 Bad Request", words.encode()))
    assert "uses TLS on this port: it answered 400 Bad Request to GET" in str(caught.value)
    assert f"{words.rstrip('.')}. Write https:// instead" in str(caught.value)


def test_an_address_with_https_in_an_error_is_no_sign_of_tls() -> None:
    """A server without TLS may link to its documentation."""
    linked = answer("400 Bad Request", b"see https://docs.example.com/errors")
    with pytest.raises(ServerNotReadyError, match=r"see https://docs.example.com/errors\.$"):
        described_by({**SERVING, READY: linked})


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
@pytest.mark.parametrize("closes_on_tls", [True, False], ids=["closes", "is-silent"])
def test_a_port_without_tls_is_named(scheme: str, closes_on_tls: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A plain server that closes on a TLS handshake, or waits for more of it, ends the wait."""

    async def run() -> None:
        async with serving(SERVING, closes_on_tls=closes_on_tls) as (port, _):
            await described(f"{scheme}://127.0.0.1:{port}")

    with pytest.raises(ProtocolMismatchError, match=r"HTTP/1.1 without TLS .* Write http://"):
        asyncio.run(run())


def test_a_port_with_tls_that_closes_is_waited_for() -> None:
    """A server that answers plain HTTP with the advice to use TLS is no plain server."""
    body = b"Client sent an HTTP request to an HTTPS server.\n"

    async def run() -> None:
        refusal = answer("400 Bad Request", body)
        async with serving({}, refusal, closes_on_tls=True) as (port, _):
            await described(f"https://127.0.0.1:{port}")

    with pytest.raises(ServerNotReadyError, match="closed the connection during the TLS handshake"):
        asyncio.run(run())


def test_the_other_port_of_a_server_is_named() -> None:
    """HTTP on the gRPC port and gRPC on the HTTP port end at once with the right scheme."""

    async def run(front: Callable[[], Awaitable[tuple[Any, int]]]) -> None:
        server, port = await front()
        try:
            await described(f"http://127.0.0.1:{port}")
        finally:
            await server.stop(None)

    async def over_grpc() -> None:
        async with serving(SERVING) as (port, _):
            await described(f"grpc://127.0.0.1:{port}")

    async def oracle() -> tuple[Any, int]:
        return await grpc_front(Oracle(asyncio.get_running_loop(), Script()), "127.0.0.1", None)

    with pytest.raises(ProtocolMismatchError, match=r"speaks HTTP/2 on this port.* Write grpc://"):
        asyncio.run(run(oracle))
    with pytest.raises(ProtocolMismatchError, match=r"speaks HTTP/1.1 on this port.* Write http:/"):
        asyncio.run(over_grpc())


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nothing_that_listens_is_no_connection(scheme: str) -> None:
    """The wait ends with the operating system's words and none of a library."""
    with pytest.raises(ServerNotReadyError) as caught:
        asyncio.run(described(f"{scheme}://127.0.0.1:1"))
    assert str(caught.value).endswith("there is no connection to it (Connection refused).")


def test_a_ready_model_of_an_unready_server_is_measured() -> None:
    """One unready model blocks no other; a server that Inferometer started must be whole."""
    unready = {**SERVING, READY: answer("503 Service Unavailable", b"")}
    found = described_by(unready, others_may_fail=True)
    assert found.unready_server == "it answered 503 Service Unavailable to GET /v2/health/ready"
    with pytest.raises(ServerNotReadyError):
        described_by(unready)
    with pytest.raises(ServerNotReadyError):
        described_by({**unready, MODEL_READY: answer("400 Bad Request")}, others_may_fail=True)


def test_a_server_that_is_about_to_be_ready_gets_no_caution() -> None:
    """Its model may be ready first, by a moment."""
    turning: dict[str, bytes | Sequence[bytes]] = dict(SERVING)
    turning[READY] = [answer("503 Service Unavailable", b"")] * 3 + [answer()]
    found = described_by(turning, ready_seconds=DEADLINE_SECONDS, others_may_fail=True)
    assert found.unready_server == ""
    calls = found.readiness
    assert calls is not None
    assert calls.refused_microseconds is not None
    assert calls.first_microseconds <= calls.refused_microseconds <= calls.called_microseconds
    assert calls.called_microseconds < calls.answered_microseconds


def test_a_server_that_is_ready_at_once_refuses_no_call() -> None:
    """The first call is the one that finds it ready."""
    calls = described_by(SERVING, ready_seconds=DEADLINE_SECONDS).readiness
    assert calls is not None
    assert calls.refused_microseconds is None
    assert calls.first_microseconds <= calls.called_microseconds < calls.answered_microseconds


@pytest.mark.parametrize(
    ("status", "error"),
    [("404 Not Found", ModelNotServedError), ("400 Bad Request", ModelNotServedError)],
)
def test_a_missing_model_is_refused(status: str, error: type[Exception]) -> None:
    """A server that is ready and rejects the model's name does not serve it."""
    refusal = answer(status, b'{"error": "Request for unknown model: \'m\' is not found"}')
    with pytest.raises(error, match=r"does not serve the model 'm': it answered 40.*not found\.$"):
        described_by({**SERVING, MODEL: refusal})
