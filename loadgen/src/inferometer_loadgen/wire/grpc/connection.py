"""gRPC connection that survives losses, GOAWAY and exhausted stream ids."""

import asyncio
from collections.abc import Callable
from typing import Literal, cast

from typing_extensions import override

from inferometer_loadgen.wire.content_coding import encode_message
from inferometer_loadgen.wire.contract import (
    Connection,
    ConnectionFailedError,
    EncodedRequest,
    Failure,
    OnCapacity,
    OnReply,
    PreparedRequest,
    ReplyBody,
    RequestTarget,
    close_reason,
)
from inferometer_loadgen.wire.dialer import Dialer, connect
from inferometer_loadgen.wire.grpc import frames, hpack
from inferometer_loadgen.wire.grpc.engine import GrpcEngine
from inferometer_loadgen.wire.grpc.http2_client import ConnectionEvent
from inferometer_loadgen.wire.http1.connection import authority

_PING_ACK_DELAY_SECONDS = 0.01
"""Longest wait of a PING's answer for a request: grpc-go sends a PING with nearly every reply."""
_METHOD = b"/inference.GRPCInferenceService/ModelInfer"


def prepare_grpc(
    encoded: EncodedRequest, compression: Literal["gzip", "deflate"] | None = None
) -> PreparedRequest:
    """Return the start of a DATA frame, and its payload: gRPC's prefix and the message."""
    payload = encoded.payload
    if compression is not None:
        payload = encode_message(payload, compression)
    flag = b"\0" if compression is None else b"\1"
    message = flag + len(payload).to_bytes(4, "big") + payload
    if len(message) > frames.LARGEST_FRAME_BYTES:
        return PreparedRequest((b"", message))  # never sent as one frame
    return PreparedRequest(
        (frames.frame_start(len(message), frames.DATA, frames.FLAG_END_STREAM), message)
    )


def request_headers(target: RequestTarget) -> list[hpack.Field]:
    """Return the headers of every request, in the order in which they are sent."""
    return [
        (b":method", b"POST"),
        (b":scheme", b"http" if target.tls is None else b"https"),
        (b":path", _METHOD),
        (b":authority", authority(target).encode("ascii")),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"inferometer"),
        *_compression_headers(target),
        *((name.lower().encode("ascii"), value.encode("ascii")) for name, value in target.headers),
    ]


def _compression_headers(target: RequestTarget) -> list[hpack.Field]:
    if target.compression is None:
        return []  # without such a header a server must not compress
    coding = target.compression.encode()
    return [(b"grpc-encoding", coding), (b"grpc-accept-encoding", coding)]


async def open_grpc(
    target: RequestTarget,
    on_reply: OnReply,
    on_capacity: OnCapacity,
    streams: int,
    connect_timeout_seconds: float,
) -> Connection:
    """Open a connection; raises ConnectionFailedError."""
    connection = GrpcConnection(
        target, on_reply, on_capacity, streams=streams, timeout_seconds=connect_timeout_seconds
    )
    await connection.open()
    return connection


class _Http2Session(asyncio.Protocol):
    """One transport with its engine, from connecting to closing."""

    def __init__(
        self,
        blocks: hpack.RequestBlocks,
        on_reply: OnReply,
        on_event: Callable[["_Http2Session", ConnectionEvent], None],
    ) -> None:
        self.engine = GrpcEngine(blocks, on_reply, self._on_engine_event)
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._on_event = on_event
        self.is_reading = False
        """While it reads, output is collected and flushed once."""
        self._flushes_soon = False
        self._transport: asyncio.Transport | None = None

    def cancel(self, token: int) -> str | None:
        received = self.engine.cancel(token)
        if received is not None and not self.is_reading:
            self.flush()
        return received

    async def close(self) -> None:
        self.engine.forget()
        if self._transport is not None:
            self._transport.abort()
            await self.gone

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.flush()

    @override
    def data_received(self, data: bytes) -> None:
        self.is_reading = True
        self.engine.receive(data)
        self.is_reading = False
        if self.engine.can_wait:
            self._flush_soon()
        else:
            self.flush()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        reason = self.engine.broken or f"The connection was lost: {close_reason(exc)}"
        if not self.ready.done():
            self.ready.set_exception(ConnectionFailedError(reason))
        self.engine.fail_outstanding(reason)
        self.gone.set_result(None)

    def flush(self) -> None:
        """Write what the engine left to write."""
        engine, transport = self.engine, self._transport
        out = engine.out
        if transport is None:
            return
        if len(out) == 1:
            transport.write(out[0])
        elif engine.bulky:
            transport.writelines(out)
            engine.bulky = False
        elif out:
            transport.write(b"".join(out))
        engine.out = []
        if engine.finished:
            transport.close()

    def _flush_soon(self) -> None:
        """Leave output that may wait to the next request: a write of its own costs as much."""
        if not self._flushes_soon:
            self._flushes_soon = True
            asyncio.get_running_loop().call_later(_PING_ACK_DELAY_SECONDS, self._flush_now)

    def _flush_now(self) -> None:
        self._flushes_soon = False
        self.flush()

    def _on_engine_event(self, event: ConnectionEvent) -> None:
        if event is ConnectionEvent.LIMITS and not self.ready.done():
            self.ready.set_result(None)
        else:
            self._on_event(self, event)


class GrpcConnection:
    """One connection with up to ``streams`` requests outstanding.

    When the server ends it (GOAWAY) or its stream ids run out, a new one is opened while the old
    one's requests finish. Those count as outstanding until they do.
    """

    def __init__(
        self,
        target: RequestTarget,
        on_reply: OnReply,
        on_capacity: OnCapacity,
        *,
        streams: int,
        timeout_seconds: float,
    ) -> None:
        self.capacity = 0
        self.outstanding = 0
        self.reconnects = 0
        self.resent_token: int | None = None  # HTTP/2 says which streams a server did not process
        self._target = target
        self._blocks = hpack.encode_request(request_headers(target))
        self._on_reply = on_reply
        self._on_capacity = on_capacity
        self._streams = streams
        self._session: _Http2Session | None = None
        self._draining: set[_Http2Session] = set()
        self._dialer = Dialer(target, self._connect, self._on_reconnected, timeout_seconds)

    @property
    def connected(self) -> bool:
        """Whether the connection can take requests."""
        return self._session is not None

    @property
    def last_error(self) -> str:
        """The last error of the connection, empty if there was none."""
        return self._dialer.last_error

    async def open(self) -> None:
        """Open the connection for the first time; raises ConnectionFailedError."""
        await self._dialer.dial()

    def send(self, prepared: PreparedRequest, token: int, keep_reply: bool = False) -> None:  # noqa: FBT001, FBT002 - see Connection
        """Send one request; only while ``outstanding < capacity``."""
        session = self._session
        if session is None:
            raise RuntimeError("A request was sent on a connection without room for it.")
        self.outstanding += 1
        session.engine.send(prepared, token, keep_reply)
        if not session.is_reading:
            session.flush()

    def send_traced(
        self,
        prepared: PreparedRequest,
        token: int,
        keep_reply: bool,  # noqa: FBT001 - see Connection
        traceparent: str,
    ) -> None:
        """Send one request with a traceparent in its metadata."""
        session = self._session
        if session is None:
            raise RuntimeError("A request was sent on a connection without room for it.")
        self.outstanding += 1
        field = (b"traceparent", traceparent.encode("ascii"))
        session.engine.send_traced(prepared, token, keep_reply, hpack.encode_once(field))
        session.flush()  # even while it reads: the part `send` ends with this call

    def first_byte_ns(self, token: int) -> int:
        """Return when the traced request's reply began; 0 if it came at once."""
        for session in (self._session, *self._draining):
            if session is not None and (first := session.engine.first_bytes.pop(token, 0)):
                return first
        return 0

    def cancel(self, token: int) -> str:
        """Forget the request and reset its stream."""
        for session in (self._session, *self._draining):
            if session is not None and (received := session.cancel(token)) is not None:
                self.outstanding -= 1
                return received
        return ""

    async def close(self) -> None:
        """Close for good."""
        await self._dialer.stop()
        self.capacity = self.outstanding = 0
        sessions = [self._session, *self._draining]
        self._session = None
        for session in sessions:
            if session is not None:
                await session.close()

    def _pass_on(self, token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        self.outstanding -= 1
        self._on_reply(token, failure, reply)

    def _on_event(self, session: _Http2Session, event: ConnectionEvent) -> None:
        if session is not self._session:
            return
        match event:
            case ConnectionEvent.LIMITS:
                before = self.capacity
                self.capacity = min(self._streams, session.engine.max_streams)
                if self.capacity > before:
                    self._on_capacity(self)
            case ConnectionEvent.RETIRED:
                self.capacity = 0
                self._session = None
                self._draining.add(session)
                session.gone.add_done_callback(lambda _: self._draining.discard(session))
                self._dialer.redial(answered=session.engine.answered)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        session = _Http2Session(self._blocks, self._pass_on, self._on_event)
        await connect(loop, lambda: session, self._target)
        try:
            await session.ready
        except BaseException:
            await session.close()
            raise
        if session.engine.retired:
            await session.close()
            raise ConnectionFailedError("the server closed it at once.")
        self._session = session
        self.capacity = min(self._streams, session.engine.max_streams)

    def _on_reconnected(self) -> None:
        self.reconnects += 1
        self._on_capacity(self)
