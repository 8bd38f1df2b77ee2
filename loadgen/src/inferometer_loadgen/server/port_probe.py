"""Probe of a port that gives no answer in the expected protocol, to find which one it speaks."""

import asyncio
import re
import ssl
from contextlib import suppress
from enum import Enum
from typing import Literal

from inferometer_loadgen.wire.grpc.frames import PREFACE, SETTINGS, settings

_SECONDS = 2.0
_HTTP1_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_TLS_HANDSHAKE, _TLS_ALERT = 0x16, 0x15
_FRAME_TYPE_AT = 3
_ANSWER_BYTES = 4096
WANTS_TLS = re.compile(
    rb"plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server"
    rb"|speaking plain HTTP to an SSL-enabled|combination of host and port requires TLS"
)
"""How nginx, Go, Apache and Tomcat answer HTTP on a port with TLS."""


class PortProtocol(Enum):
    """Protocol that a port speaks."""

    TLS = "TLS"
    HTTP1 = "HTTP/1.1"
    HTTP2 = "HTTP/2"


async def identify_port(
    expected: Literal["HTTP", "GRPC"], host: str, port: int, *, with_tls: bool
) -> PortProtocol | None:
    """Return the protocol of a port that gave no answer in the expected one, or not over TLS.

    None if it does not reveal itself. Raises OSError if no connection can be made.
    """
    if not with_tls and _is_tls(await _first_bytes(host, port, _client_hello())):
        return PortProtocol.TLS
    if with_tls or expected == "GRPC":
        answer = await _first_bytes(host, port, _HTTP1_REQUEST)
        if answer.startswith(b"HTTP/1."):
            return None if with_tls and WANTS_TLS.search(answer) else PortProtocol.HTTP1
    if with_tls or expected == "HTTP":
        answer = await _first_bytes(host, port, PREFACE + settings({}))
        is_http2 = len(answer) > _FRAME_TYPE_AT and answer[_FRAME_TYPE_AT] == SETTINGS
        return PortProtocol.HTTP2 if is_http2 and not answer.startswith(b"HTTP/1") else None
    return None


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
                return await reader.read(_ANSWER_BYTES)
            except ConnectionError:
                return b""
            finally:
                writer.transport.abort()
    except TimeoutError:
        return b""
