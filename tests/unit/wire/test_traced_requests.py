"""Traced requests carry a traceparent, and the others are sent as without tracing."""

import asyncio
from typing import cast

from typing_extensions import override

from inferometer_loadgen.wire.contract import EncodedRequest, RequestTarget
from inferometer_loadgen.wire.grpc.connection import prepare_grpc
from inferometer_loadgen.wire.grpc.hpack import decode, encode_once
from inferometer_loadgen.wire.http1.connection import Http1Connection, prepare_http1
from support.wire_bytes import END_HEADERS, HEADERS, OPENING, frame
from support.wire_peer import Peer

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HTTP = RequestTarget("HTTP", "host", 8000, "m")


class _Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    @override
    def write(self, data: object) -> None:
        self.written += bytes(cast("bytes", data))

    def take(self) -> bytes:
        """Return what was written since the last call."""
        written, self.written = self.written, b""
        return written


async def _http() -> tuple[Http1Connection, _Transport]:
    connection = Http1Connection(HTTP, lambda *_: None, lambda _: None, 1.0)
    transport = _Transport()
    connection.connection_made(transport)
    connection.capacity = 1
    return connection, transport


def test_http_adds_one_header_to_a_traced_request() -> None:
    """Request line, headers and body are those of an untraced one, with a traceparent more."""

    async def main() -> None:
        for size in (10, 100_000):
            prepared = prepare_http1(HTTP, EncodedRequest(b"x" * size, None))
            connection, transport = await _http()
            connection.send(prepared, 1)
            plain = transport.take()
            connection.outstanding = 0
            connection.send_traced(prepared, 2, False, TRACEPARENT)
            traced = transport.take()
            line = f"traceparent: {TRACEPARENT}\r\n".encode()
            assert traced.count(line) == 1
            assert traced.replace(line, b"") == plain
            assert traced.startswith(b"POST /v2/models/m/infer HTTP/1.1\r\n")
            connection.outstanding = 0
            connection.send(prepared, 3)
            assert transport.take() == plain

    asyncio.run(main())


def test_http_notes_when_a_traced_reply_begins() -> None:
    """A reply in pieces began with the first one; nothing is noted of untraced requests."""

    async def main() -> None:
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        prepared = prepare_http1(HTTP, EncodedRequest(b"{}", None))
        connection, _ = await _http()
        connection.send_traced(prepared, 1, False, TRACEPARENT)
        connection.data_received(whole[:20])
        connection.data_received(whole[20:])
        assert connection.first_byte_ns(1) > 0
        assert connection.first_byte_ns(1) == 0
        connection.send(prepared, 2)
        connection.data_received(whole[:20])
        connection.data_received(whole[20:])
        assert connection.first_byte_ns(2) == 0

    asyncio.run(main())


def _traced(peer: Peer, token: int) -> None:
    prepared = prepare_grpc(EncodedRequest(b"tensor", None))
    field = encode_once((b"traceparent", TRACEPARENT.encode()))
    peer.engine.send_traced(prepared, token, True, field)


def test_grpc_adds_one_field_to_the_headers_of_a_traced_request() -> None:
    """The table holds the headers of the first request, traced or not, and never that field."""
    for first_is_traced in (True, False):
        peer, usual = Peer(), Peer()
        usual.send(token=0)
        usual.send(token=1)
        first, later = (each[3] for each in usual.frames() if each[0] == HEADERS)
        field = encode_once((b"traceparent", TRACEPARENT.encode()))
        for token, is_traced in enumerate((first_is_traced, not first_is_traced, True, False)):
            if is_traced:
                _traced(peer, token)
            else:
                peer.send(token=token)
        blocks = [each[3] for each in peer.frames() if each[0] == HEADERS]
        expected = [
            first + field * first_is_traced,
            later + field * (not first_is_traced),
            later + field,
            later,
        ]
        assert blocks == expected
    assert decode(field) == [(b"traceparent", TRACEPARENT.encode())]


def test_grpc_notes_when_a_traced_reply_begins() -> None:
    """It begins with its headers; nothing is noted of other requests or cancelled ones."""
    peer = Peer()
    _traced(peer, 7)
    peer.send(token=8)
    peer.receive(frame(HEADERS, END_HEADERS, 1, OPENING), frame(HEADERS, END_HEADERS, 3, OPENING))
    assert set(peer.engine.first_bytes) == {7}
    assert peer.engine.first_bytes[7] > 0
    _traced(peer, 9)
    peer.engine.cancel(9)
    assert set(peer.engine.first_bytes) == {7}
