"""A client and a wire with delays planted in the parts of traced requests.

A part is named by its service and itself, as in "wire reply". On the wire a relay holds what comes
before the head of a request or of a reply, or behind it; the client's calls are delayed where they
are made.
"""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from typing_extensions import override

from inferometer_loadgen.drive.open_loop import OpenLoop
from inferometer_loadgen.wire.grpc.connection import _Http2Session
from inferometer_loadgen.wire.grpc.frames import PREFACE
from inferometer_loadgen.wire.http1.connection import Http1Connection
from support.planted_server import delayed
from support.wire_bytes import END_STREAM, HEADERS

Delays = Mapping[str, float]
"""Milliseconds by part."""


def head_within(data: bytes) -> tuple[int, int] | None:
    """Return where the head of an inference or of a reply begins and ends in what was written.

    None if there is none, as in control frames of HTTP/2.
    """
    if data.startswith((b"POST ", b"HTTP/1.1 ")):
        return 0, data.index(b"\r\n\r\n") + 4
    at = len(PREFACE) if data.startswith(PREFACE) else 0
    while at < len(data):
        end = at + 9 + int.from_bytes(data[at : at + 3], "big")
        if data[at + 3] == HEADERS and not data[at + 4] & END_STREAM:
            return at, end
        at = end
    return None


def plant_in_client(patch: pytest.MonkeyPatch, delays: Delays) -> None:
    """Delay the load generator of this process: its wake-up for due queries, and its writes."""
    patch.setattr(OpenLoop, "_wake", delayed(OpenLoop._wake, delays.get("client wait", 0)))
    milliseconds = delays["client send"]
    for protocol in (Http1Connection, _Http2Session):
        made = protocol.connection_made
        patch.setattr(protocol, "connection_made", _with_slow_writes(made, milliseconds))


def _with_slow_writes(made: Callable[..., None], milliseconds: float) -> Callable[..., None]:
    return lambda connection, transport: made(connection, _SlowTransport(transport, milliseconds))


class _SlowTransport:
    """A transport whose calls that write a request take so much longer."""

    def __init__(self, transport: Any, milliseconds: float) -> None:
        self._transport = transport
        self._seconds = milliseconds / 1000

    def write(self, data: bytes) -> None:
        if head_within(data) is not None:
            time.sleep(self._seconds)
        self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@contextmanager
def slow_wire(url: str, delays: Delays) -> Iterator[str]:
    """Relay to a server with delays; yield the URL of the relay."""
    target = urlsplit(url)
    with _Relay((str(target.hostname), target.port or 0), delays) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        try:
            yield f"{target.scheme}://127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()


class _Relay(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, target: tuple[str, int], delays: Delays) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.target = target
        self.delays = delays


class _Connection(socketserver.BaseRequestHandler):
    server: _Relay
    request: socket.socket

    @override
    def handle(self) -> None:
        client, delays = self.request, self.server.delays
        with socket.create_connection(self.server.target) as server:
            replies = threading.Thread(
                target=_forward, args=(server, client, delays, "wire reply", "client receive")
            )
            replies.start()
            _forward(client, server, delays, "wire request", "server receive")
            replies.join()


def _forward(
    source: socket.socket, target: socket.socket, delays: Delays, before: str, behind: str
) -> None:
    """Pass on what comes until the end; each head is late, and what is behind it even later."""
    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(ConnectionError, TimeoutError):  # either side may end it
        while data := source.recv(65_536):
            begin, end = head_within(data) or (len(data), len(data))
            target.sendall(data[:begin])
            if begin < end:
                time.sleep(delays.get(before, 0) / 1000)
                target.sendall(data[begin:end])
                time.sleep(delays.get(behind, 0) / 1000)
                target.sendall(data[end:])
        target.shutdown(socket.SHUT_WR)
