"""Sans-I/O engine of a gRPC client on one HTTP/2 connection.

The engine is fed what was read and leaves what must be written in ``out``. One write per read
suffices: whatever callbacks send while frames are read is joined to it.
"""

from collections.abc import Callable
from time import monotonic_ns

from typing_extensions import override

from inferometer_loadgen.wire.contract import (
    Failure,
    FailureKind,
    OnReply,
    PreparedRequest,
    ReplyBody,
    printable_line,
)
from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frame_reader import FrameReader
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error
from inferometer_loadgen.wire.grpc.hpack import SIZE_UPDATE_TO_ZERO, HpackError, RequestBlocks
from inferometer_loadgen.wire.grpc.http2_client import ConnectionEvent, Http2Client
from inferometer_loadgen.wire.grpc.reply import (
    GOOD_OPENING,
    ReplyStream,
    read_opening,
    read_trailers,
    read_trailers_only,
)
from inferometer_loadgen.wire.grpc.reply_template import ReplyTemplate, learn_template

# Above this, copying a body to join it to its headers costs more than a second buffer.
_JOINED_BYTES = 32_768
_LEARNS_FIRST = 2
"""Number of the first reply to learn from: the very first may begin with a table size update."""
_LEARNS_EVERY = 16
"""Unmatched replies until another is learned: some servers' replies never match."""
_MOST_TRACE_BYTES = 128
"""Room for the field of a traced request in its header block."""

_UNOPENED = Failure(FailureKind.PROTOCOL, "The reply's message came before its headers.")
_UNCLOSED = Failure(FailureKind.PROTOCOL, "The reply ended without a grpc-status.")
_REOPENED = Failure(FailureKind.PROTOCOL, "The reply holds headers between headers and trailers.")


class GrpcEngine(Http2Client):
    """Unary calls of one method on one HTTP/2 connection.

    ``answered`` is true once a call was answered.
    """

    def __init__(
        self,
        blocks: RequestBlocks,
        on_reply: OnReply,
        on_event: Callable[[ConnectionEvent], None],
        last_stream_id: int = frames.LARGEST_STREAM_ID,
    ) -> None:
        super().__init__(on_event)
        self.answered = False
        self._on_reply = on_reply
        self.first_bytes: dict[int, int] = {}
        """When replies to traced requests began, by token; 0 until then."""
        self._last_id = last_stream_id
        self._plain_block = blocks.plain
        self._headers = _around_stream(blocks.first)
        self._later_headers = _around_stream(blocks.later)
        self._whole_limit = self._largest_whole()
        self._template: ReplyTemplate | None = None
        self._unmatched, self._learns_at = 0, _LEARNS_FIRST
        self._reader = FrameReader(self)

    def send(self, prepared: PreparedRequest, token: int, keep: bool) -> None:  # noqa: FBT001 - by position on the hot path
        """Open a stream with its request; the part that flow control forbids now waits."""
        stream_id = self._next_id
        self._next_id = stream_id + 2
        self._streams[stream_id] = ReplyStream(token, keep)
        headers = self._headers
        self._headers = self._later_headers
        data_start, message = prepared.pieces
        size = len(message)
        name = stream_id.to_bytes(4, "big")
        windows = self._windows
        if size <= self._whole_limit and size <= windows.connection_window:
            windows.connection_window -= size
            start, block = headers
            self.out += (start, name, block, data_start, name, message)
        else:
            self.out.append(name.join(headers))
            windows.add(stream_id, message)
            self._send_waiting()
        if self._next_id > self._last_id:
            self._retire()

    def send_traced(
        self,
        prepared: PreparedRequest,
        token: int,
        keep: bool,  # noqa: FBT001 - as in `send`
        field: bytes,
    ) -> None:
        """Open a stream with a request whose headers have one more field, encoded."""
        self.first_bytes[token] = 0
        usual = self._headers
        block = usual[1] if len(usual) == 2 else self._plain_block
        self._headers = _around_stream(block + field)
        self.send(prepared, token, keep)

    def cancel(self, token: int) -> str | None:
        """Forget a request and reset its stream.

        Returns what had arrived of its reply, as a clause; empty if nothing had. Returns None if
        the request is not outstanding here.
        """
        for stream_id, stream in self._streams.items():
            if stream.token == token:
                del self._streams[stream_id]
                self.first_bytes.pop(token, None)
                is_held_back = self._windows.forget(stream_id)
                self.out.append(frames.rst_stream(stream_id, ErrorCode.CANCEL))
                if is_held_back:
                    return "the server's flow control held back a part of the request until then"
                return stream.received_so_far()
        return None

    def fail_outstanding(self, sentence: str) -> None:
        """Fail all outstanding requests: the transport is gone."""
        self._retire()
        self._fail_all(Failure(FailureKind.CONNECTION, printable_line(sentence)))

    def forget(self) -> None:
        """Forget all requests; no callback is called for them."""
        self._streams.clear()
        self._windows.waiting.clear()

    def receive(self, data: bytes) -> None:
        """Take bytes that were read, in any pieces."""
        if self.broken is not None:
            return
        try:
            self._reader.receive(data)
        except Http2Error as error:
            self._break(error.code, str(error))
        except HpackError as error:
            self._break(ErrorCode.COMPRESSION_ERROR, str(error))

    def on_data(self, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        """Count a part of a message, and the window it took."""
        self.on_window_used(end - start)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
            return
        failure = stream.take(data, start, end) if stream.opened else _UNOPENED
        if failure is not None:
            self._refuse(stream_id, stream, failure)
        elif flags & frames.FLAG_END_STREAM:
            self._finish(stream_id, stream, _UNCLOSED)

    def on_reply_start(self, data: bytes, position: int) -> None:
        """Learn a template, now and then, from a reply that did not match."""
        self._unmatched += 1
        if self._unmatched >= self._learns_at:
            self._unmatched, self._learns_at = 0, _LEARNS_EVERY
            if template := learn_template(data, position, self._template):
                self._template, self._reader.has_template = template, True

    def on_template(self, data: bytes, position: int) -> int:
        """Complete the whole replies that match the template; return the position behind them."""
        template, streams, waiting = self._template, self._streams, self._windows.waiting
        end = len(data)
        while template is not None and (stream_id := template.stream_at(data, position)):
            stream = streams.get(stream_id)
            if stream is None or stream.opened or waiting:
                break
            del streams[stream_id]
            self.answered = True
            self._consumed += template.window_bytes
            reply = (
                ReplyBody(
                    data[position + template.message_at : position + template.message_end], None
                )
                if stream.keep
                else None
            )
            position += template.size
            self._on_reply(stream.token, None, reply)
            if position == end:
                break
        self.on_window_used(0)
        return position

    def on_headers(self, flags: int, stream_id: int, block: bytes) -> None:
        """Judge a header block: the reply's headers or its trailers."""
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
        elif flags & frames.FLAG_END_STREAM:
            if stream.opened:
                failure = read_trailers(block) or (stream.missing() if stream.left else None)
            else:
                failure = read_trailers_only(block) or stream.missing()
            self._finish(stream_id, stream, failure)
        elif stream.opened:
            self._refuse(stream_id, stream, _REOPENED)
        else:
            if stream.token in self.first_bytes:
                self.first_bytes[stream.token] = monotonic_ns()
            opening = read_opening(block)
            if opening is GOOD_OPENING:
                stream.open()
            elif opening.failure is not None:
                self._refuse(stream_id, stream, opening.failure)
            elif not opening.interim:
                stream.open(opening.coding)

    @override
    def _forget_header_table(self) -> None:
        self._headers = _around_stream(SIZE_UPDATE_TO_ZERO + self._plain_block)
        self._later_headers = _around_stream(self._plain_block)

    @override
    def _on_limits(self) -> None:
        self._whole_limit = self._largest_whole()

    def _largest_whole(self) -> int:
        """Return the longest body that is sent whole; -1 if the headers take several frames."""
        if len(self._plain_block) + _MOST_TRACE_BYTES >= frames.DEFAULT_FRAME_BYTES:
            return -1
        return min(self._windows.frame_limit, _JOINED_BYTES)

    @override
    def _finish(self, stream_id: int, stream: ReplyStream, failure: Failure | None) -> None:
        del self._streams[stream_id]
        self.answered = True
        if self._windows.waiting and self._windows.forget(stream_id):
            self.out.append(frames.rst_stream(stream_id, ErrorCode.CANCEL))
        reply: ReplyBody | None = None
        if failure is None and stream.keep:
            failure, reply = stream.reply()
        self._on_reply(stream.token, failure, reply)

    def _refuse(self, stream_id: int, stream: ReplyStream, failure: Failure) -> None:
        """Reset a stream whose reply is already known to be bad."""
        self._windows.forget(stream_id)
        self.out.append(frames.rst_stream(stream_id, ErrorCode.CANCEL))
        self._finish(stream_id, stream, failure)

    @override
    def _fail_all(self, failure: Failure) -> None:
        self._windows.waiting.clear()
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            self._on_reply(stream.token, failure, None)


def _around_stream(block: bytes) -> tuple[bytes, ...]:
    """Return the HEADERS frame of a request, cut where the stream id goes.

    Headers longer than the smallest frame limit continue in CONTINUATION frames.
    """
    size = frames.DEFAULT_FRAME_BYTES
    pieces = [b""]
    for at in range(0, len(block), size):
        part = block[at : at + size]
        kind = frames.CONTINUATION if at else frames.HEADERS
        flags = frames.FLAG_END_HEADERS if at + size >= len(block) else 0
        pieces[-1] += frames.frame_start(len(part), kind, flags)
        pieces.append(part)
    return tuple(pieces)
