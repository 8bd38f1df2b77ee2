"""TLS handshake with a server, before its control plane is used.

A server that refuses a certificate refuses it for good; the run then ends at once with a message of
the TLS module. The handshake uses a bare socket, because asyncio's transports hide what a server
says after it.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

from inferometer_loadgen.wire.tls import (
    ClientTls,
    TlsRefusedError,
    client_certificate_error,
    handshake_error,
)

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_EMPTY_SETTINGS = b"\0\0\0\4\0\0\0\0\0"
_PIECE_BYTES = 65_536
_NGINX_WANTS = re.compile(rb"HTTP/1\.[01] 400 .*SSL certificate", re.DOTALL)
"""How nginx and its ingresses refuse a client: they accept the handshake and answer in HTTP."""

T = TypeVar("T")


async def check_handshake(
    protocol: Literal["HTTP", "GRPC"], host: str, port: int, tls: ClientTls
) -> None:
    """Complete a TLS handshake and wait for the first byte of the server.

    Raises TlsRefusedError if that fails for good, ClosedBehindError if it may have failed for good,
    ClosedInTlsError if the server closes before, and OSError if it cannot be reached.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with await _connect(host, port) as connection:
        stream = _TlsStream(connection, tls)
        shook_hands = False
        try:
            await stream.complete(stream.tls.do_handshake)
            shook_hands = True
            if protocol == "GRPC":
                _check_http2(stream.tls, where)
            # With TLS 1.3 a missing certificate is reported only after the handshake.
            hello = _hello(protocol, where)
            await stream.complete(lambda: stream.tls.write(hello))
            if _NGINX_WANTS.match(await stream.complete(lambda: stream.tls.read(_PIECE_BYTES))):
                raise client_certificate_error(where, tls)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError) as error:
            if not shook_hands:
                raise ClosedInTlsError(
                    "it closed the connection during the TLS handshake"
                ) from error
            raise ClosedBehindError("it closed the connection after the TLS handshake") from error
        except ssl.SSLError as error:
            raise handshake_error(error, where, tls) from error


class ClosedInTlsError(ConnectionResetError):
    """A server accepted the connection and closed it without a message."""


class ClosedBehindError(ClosedInTlsError):
    """It completed the handshake before; most servers refuse a client certificate this way."""


class _TlsStream:
    """TLS over a socket; each step may send and receive."""

    def __init__(self, connection: socket.socket, tls: ClientTls) -> None:
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = tls.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=tls.server_name
        )

    async def complete(self, step: Callable[[], T]) -> T:
        """Repeat a step until it needs no more data."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                pass
            finally:
                # A server that has closed already may have said why: read that first.
                with suppress(ConnectionError):
                    await loop.sock_sendall(self._connection, self._outgoing.read())
            piece = await loop.sock_recv(self._connection, _PIECE_BYTES)
            if piece:
                self._incoming.write(piece)
            else:
                self._incoming.write_eof()


async def _connect(host: str, port: int) -> socket.socket:
    """Return a socket connected to the first of the host's addresses that answers."""
    loop = asyncio.get_running_loop()
    last: OSError = ConnectionRefusedError(f"{host} has no address")
    for family, kind, number, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, number)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last


def _hello(protocol: Literal["HTTP", "GRPC"], where: str) -> bytes:
    if protocol == "GRPC":
        return _HTTP2_PREFACE + _EMPTY_SETTINGS
    # Any request that is answered will do: the answer itself is not read.
    lines = ("GET /v2/health/live HTTP/1.1", f"Host: {where}", "Connection: close", "", "")
    return "\r\n".join(lines).encode("ascii", "replace")


def _check_http2(tls: ssl.SSLObject, where: str) -> None:
    if tls.selected_alpn_protocol() != "h2":
        raise TlsRefusedError(
            f"The server at {where} does not offer HTTP/2 over TLS (ALPN h2), which gRPC needs: is "
            "this its HTTP port (https://)?"
        )
