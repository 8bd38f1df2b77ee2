"""HTTP/1.1 connection that carries one request at a time and reopens itself after a loss."""

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import cast
from urllib.parse import quote

from typing_extensions import override

from inferometer_loadgen.wire.contract import (
    Connection,
    ConnectionFailedError,
    EncodedRequest,
    FailureKind,
    OnCapacity,
    OnReply,
    PreparedRequest,
    RequestTarget,
    close_reason,
)
from inferometer_loadgen.wire.dialer import Dialer, connect
from inferometer_loadgen.wire.http1.parser import ReplyParser
from inferometer_loadgen.wire.http1.reply_template import HttpReplyTemplate

# One write of one object is the cheapest; above this, copying the body costs more than it saves.
_JOINED_BYTES = 65_536
_GONE_WITHIN_SECONDS = 1.0


def prepare_http1(
    target: RequestTarget, encoded: EncodedRequest, *, share_body: bool = False
) -> PreparedRequest:
    """Return the request's header block, joined to a small body unless that is shared."""
    head = _head(target, encoded)
    if not share_body and len(encoded.payload) <= _JOINED_BYTES:
        return PreparedRequest((head + encoded.payload,))
    return PreparedRequest((head, encoded.payload))


def _head(target: RequestTarget, encoded: EncodedRequest) -> bytes:
    path = f"{target.path_prefix}/v2/models/{quote(target.model_name, safe='')}"
    if target.model_version:
        path += f"/versions/{quote(target.model_version, safe='')}"
    binary = encoded.json_length is not None
    lines = [
        f"POST {path}/infer HTTP/1.1",
        f"Host: {authority(target)}",
        "User-Agent: inferometer",
        "Accept-Encoding: identity",
        f"Content-Type: application/{'octet-stream' if binary else 'json'}",
        f"Content-Length: {len(encoded.payload)}",
        *(f"{name}: {value}" for name, value in target.headers),
    ]
    if binary:
        lines.append(f"Inference-Header-Content-Length: {encoded.json_length}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def authority(target: RequestTarget) -> str:
    """Return host and port as written in a URL."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{host}:{target.port}"


async def open_http1(
    target: RequestTarget,
    on_reply: OnReply,
    on_capacity: OnCapacity,
    connect_timeout_seconds: float,
) -> Connection:
    """Open a connection; raises ConnectionFailedError."""
    connection = Http1Connection(target, on_reply, on_capacity, connect_timeout_seconds)
    await connection.open()
    return connection


class Http1Connection(asyncio.Protocol):
    """One connection with one request outstanding at a time.

    It is the asyncio protocol of one transport after another: a new one is opened only once the
    old one is gone.

    Some servers close a connection after an error without announcing it. A request that was sent
    right behind the error's reply, and of whose own reply nothing has arrived, is then sent once
    more on the new transport.
    """

    def __init__(
        self,
        target: RequestTarget,
        on_reply: OnReply,
        on_capacity: OnCapacity,
        connect_timeout_seconds: float,
    ) -> None:
        self.capacity = 0
        self.outstanding = 0
        self.reconnects = 0
        self.resent_token: int | None = None
        self._target = target
        self._on_reply = on_reply
        self._on_capacity = on_capacity
        self._parser = ReplyParser()
        self._token = 0
        self._keep = False
        self._prepared = PreparedRequest(())
        self._begun = False
        self._after_error = False
        """Whether the last reply on this transport was an error, so that none is outstanding or
        the outstanding request was sent right behind it."""
        self._waits_to_resend = False
        self._is_traced = False
        self._first_byte_ns = 0
        """When the reply to a traced request began, if it came in pieces."""
        self._template = HttpReplyTemplate()
        self._answered = False
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] = _not_connected
        self._write_lines: Callable[[Iterable[bytes]], None] = _not_connected
        self._gone = asyncio.get_running_loop().create_future()
        self._dialer = Dialer(
            target,
            self._connect,
            self._on_reconnected,
            connect_timeout_seconds,
            on_failed=self._on_redial_failed,
        )

    @property
    def connected(self) -> bool:
        """Whether the connection can take requests."""
        return self.capacity > 0

    @property
    def last_error(self) -> str:
        """The last error of the connection, empty if there was none."""
        return self._dialer.last_error

    async def open(self) -> None:
        """Open the connection for the first time; raises ConnectionFailedError."""
        try:
            await self._dialer.dial()
        except ConnectionFailedError:
            await self.close()  # a transport made just too late must not be reopened
            raise
        self.capacity = 1

    def send(self, prepared: PreparedRequest, token: int, keep_reply: bool = False) -> None:  # noqa: FBT001, FBT002 - see Connection
        """Send one request; only while ``outstanding < capacity``."""
        self.outstanding = 1
        self._token = token
        self._keep = keep_reply
        self._prepared = prepared
        pieces = prepared.pieces
        if len(pieces) == 1:
            self._write(pieces[0])
        else:
            self._write_lines(pieces)

    def send_traced(
        self,
        prepared: PreparedRequest,
        token: int,
        keep_reply: bool,  # noqa: FBT001 - see Connection
        traceparent: str,
    ) -> None:
        """Send one request with a traceparent behind its request line."""
        self._is_traced = True
        first, *others = prepared.pieces
        at = first.index(b"\r\n") + 2
        field = f"traceparent: {traceparent}\r\n".encode("ascii")
        self.send(PreparedRequest((first[:at] + field + first[at:], *others)), token, keep_reply)

    def first_byte_ns(self, token: int) -> int:  # noqa: ARG002 - the one that was outstanding
        """Return when the traced request's reply began; 0 if it came at once."""
        first, self._first_byte_ns = self._first_byte_ns, 0
        self._is_traced = False
        return first

    def cancel(self, token: int) -> str:
        """Forget the request, and close its connection: its reply could still arrive."""
        if not self.outstanding or self._token != token:
            return ""
        self.outstanding = 0
        self._waits_to_resend = self._is_traced = False
        self._first_byte_ns = 0
        self._drop()
        return self._parser.received_so_far() if self._begun else ""

    async def close(self) -> None:
        """Close for good."""
        self.outstanding = 0
        await self._dialer.stop()
        if self._transport is not None:
            self._drop()
            # uvloop reports no loss of a transport whose opening was cancelled in its last turn.
            await asyncio.wait({self._gone}, timeout=_GONE_WITHIN_SECONDS)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = opened = cast("asyncio.Transport", transport)
        self._write, self._write_lines = opened.write, opened.writelines
        self._answered = self._begun = self._after_error = False
        self._template = HttpReplyTemplate()
        self._gone = asyncio.get_running_loop().create_future()

    @override
    def data_received(self, data: bytes) -> None:
        template = self._template
        if not self.outstanding:
            # A server that closes an idle connection may announce it first (408).
            self._drop()
        elif self._begun or (
            not (len(data) == template.size and data.startswith(template.head))
            and not template.matches(data)
        ):
            self._read(data)
        else:
            # A whole good reply by the template: its headers are not parsed.
            self.outstanding = 0
            self._on_reply(self._token, None, template.reply(data) if self._keep else None)

    @override
    def eof_received(self) -> bool:
        self.capacity = 0
        self._cut_off(close_reason(None), clean=True)
        return False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._write = self._write_lines = _not_connected
        self.capacity = 0
        self._gone.set_result(None)
        # With TLS a peer that is done sends close_notify, which arrives as eof_received. Without
        # it the reply may have been cut off (RFC 9112, section 9.8).
        self._cut_off(close_reason(exc), clean=False)
        self._dialer.redial(answered=self._answered)

    def _read(self, data: bytes) -> None:
        parser = self._parser
        if not self._begun:
            self._begun = True
            parser.start(self._keep)
            if self._is_traced:
                self._first_byte_ns = monotonic_ns()
        if parser.feed(data):
            if parser.fits_template:
                self._template.learn(data)
            self._complete()

    def _complete(self) -> None:
        parser = self._parser
        failure = parser.failure
        self.outstanding = 0
        self._begun = False
        self._after_error = failure is not None and failure.kind is FailureKind.STATUS
        if self._after_error:
            self._template = HttpReplyTemplate()  # the next reply is parsed and comes here
        if failure is None or self._after_error:
            self._answered = True
        if not parser.reusable:
            self._drop()
        self._on_reply(self._token, failure, parser.reply)

    def _cut_off(self, reason: str, *, clean: bool) -> None:
        if not self.outstanding or self._waits_to_resend:
            return
        if not self._begun:
            if self._after_error:
                self._after_error, self._waits_to_resend = False, True
                return
            self._parser.start(self._keep)
        self._parser.finish(reason, clean=clean)
        self._complete()

    def _drop(self) -> None:
        self.capacity = 0
        if self._transport is not None:
            self._transport.abort()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await connect(loop, lambda: self, self._target)
        if self._transport is None:
            raise ConnectionResetError("the server closed it at once.")

    def _on_reconnected(self) -> None:
        self.reconnects += 1
        self.capacity = 1
        self.resent_token = None
        if self._waits_to_resend:
            self._waits_to_resend = False
            self.resent_token = self._token
            self._write_lines(self._prepared.pieces)
        self._on_capacity(self)

    def _on_redial_failed(self, why: str) -> None:
        if self._waits_to_resend:
            self._waits_to_resend = False
            self._cut_off(f"{close_reason(None)} {why}", clean=False)


def _not_connected(_: object) -> None:
    raise RuntimeError("A request was sent on a connection without room for it.")
