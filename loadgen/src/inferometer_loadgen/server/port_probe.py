"""Probe of a port that gives no answer in the expected protocol, to find which one it speaks."""

import asyncio
import ssl
from contextlib import suppress
from enum import Enum
from typing import Literal

from inferometer_loadgen.wire.grpc.frames import PREFACE, SETTINGS, settings

_SECONDS = 2.0
_HTTP1_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_TLS_HANDSHAKE, _TLS_ALERT = 0x16, 0x15
_FRAME_TYPE_AT = 3


class PortProtocol(Enum):
    """Protocol that a port speaks."""

    TLS = "TLS"
    HTTP1 = "HTTP/1.1"
    HTTP2 = "HTTP/2"


async def identify_port(
    expected: Literal["HTTP", "GRPC"], host: str, port: int
) -> PortProtocol | None:
    """Return the protocol of a port that gave no answer without TLS in the expected protocol.

    None if it does not reveal itself. Raises OSError if no connection can be made.
    """
    if _is_tls(await _first_bytes(host, port, _client_hello())):
        return PortProtocol.TLS
    if expected == "HTTP":
        answer = await _first_bytes(host, port, PREFACE + settings({}))
        is_http2 = len(answer) > _FRAME_TYPE_AT and answer[_FRAME_TYPE_AT] == SETTINGS
        return PortProtocol.HTTP2 if is_http2 and not answer.startswith(b"HTTP/1") else None
    answer = await _first_bytes(host, port, _HTTP1_REQUEST)
    return PortProtocol.HTTP1 if answer.startswith(b"HTTP/1.") else None


def _is_tls(answer: bytes) -> bool:
    """Return whether an answer is a TLS record: a handshake or an alert, of version 3.x."""
    return len(answer) > 1 and answer[0] in {_TLS_HANDSHAKE, _TLS_ALERT} and answer[1] == 3


def _client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent over it
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


async def _first_bytes(host: str, port: int, request: bytes) -> bytes:
    """Return the first bytes of the answer to a request; empty if there are none in time."""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return await reader.read(64)
            except ConnectionError:
                return b""
            finally:
                writer.transport.abort()
    except TimeoutError:
        return b""
