"""Sans-I/O engine of a gRPC client on one HTTP/2 connection.

The engine is fed what was read and leaves what must be written in ``out``. One write per read
suffices: whatever callbacks send while frames are read is joined to it.
"""

from collections.abc import Callable
from enum import Enum
from time import monotonic_ns

from inferometer_loadgen.wire.contract import (
    Failure,
    FailureKind,
    OnReply,
    PreparedRequest,
    ReplyBody,
    printable_line,
)
from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frame_reader import LARGEST_DATA_BYTES, FrameReader
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error
from inferometer_loadgen.wire.grpc.hpack import SIZE_UPDATE_TO_ZERO, HpackError, RequestBlocks
from inferometer_loadgen.wire.grpc.reply import (
    GOOD_OPENING,
    ReplyStream,
    read_opening,
    read_trailers,
    read_trailers_only,
)
from inferometer_loadgen.wire.grpc.reply_template import ReplyTemplate, learn_template
from inferometer_loadgen.wire.grpc.send_windows import SendWindows

# Above this, copying a body to join it to its headers costs more than a second buffer.
_JOINED_BYTES = 32_768
_LEARNS_FIRST = 2
"""Number of the first reply to learn from: the very first may begin with a table size update."""
_LEARNS_EVERY = 16
"""Unmatched replies until another is learned: some servers' replies never match."""
_MOST_TRACE_BYTES = 128
"""Room for the field of a traced request in its header block."""
_UNLIMITED = (1 << 32) - 1
_PING_ACK_START = frames.ping_ack(bytes(8))[:5]
_PREAMBLE = (
    frames.PREFACE,
    frames.settings(
        {
            frames.SETTINGS_HEADER_TABLE_SIZE: 0,
            frames.SETTINGS_ENABLE_PUSH: 0,
            frames.SETTINGS_INITIAL_WINDOW_SIZE: frames.LARGEST_WINDOW,
            frames.SETTINGS_MAX_FRAME_SIZE: LARGEST_DATA_BYTES,
        }
    ),
    frames.window_update(0, frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW),
)

_UNOPENED = Failure(FailureKind.PROTOCOL, "The reply's message came before its headers.")
_UNCLOSED = Failure(FailureKind.PROTOCOL, "The reply ended without a grpc-status.")
_REOPENED = Failure(FailureKind.PROTOCOL, "The reply holds headers between headers and trailers.")
# By frame type: required payload length, and whether it must be on stream 0; None: no requirement.
_CONTROL_FRAMES: dict[int, tuple[int | None, bool | None]] = {
    frames.PRIORITY: (5, False),
    frames.RST_STREAM: (4, False),
    frames.SETTINGS: (None, True),
    frames.PUSH_PROMISE: (None, None),
    frames.PING: (8, True),
    frames.GOAWAY: (None, True),
    frames.WINDOW_UPDATE: (4, None),
}


class ConnectionEvent(Enum):
    """Event that changes a connection as a whole."""

    LIMITS = "the server's settings came; the first time, the connection is ready"
    RETIRED = "no new streams can be opened"


class GrpcEngine:
    """Client side of one HTTP/2 connection that carries unary calls of one method.

    ``out`` is what must be written next, in order; ``bulky`` is true if joining it would copy large
    bodies. ``max_streams`` is the server's limit. ``answered`` is true once a call was answered.
    ``broken`` says why the connection must be closed at once; None if it need not.
    """

    def __init__(
        self,
        blocks: RequestBlocks,
        on_reply: OnReply,
        on_event: Callable[[ConnectionEvent], None],
        last_stream_id: int = frames.LARGEST_STREAM_ID,
    ) -> None:
        self.out: list[bytes | memoryview] = list(_PREAMBLE)
        self.bulky = False
        self.max_streams = _UNLIMITED
        self.retired = self.answered = False
        self.broken: str | None = None
        self._on_reply = on_reply
        self._on_event = on_event
        self._streams: dict[int, ReplyStream] = {}
        self.first_bytes: dict[int, int] = {}
        """When replies to traced requests began, by token; 0 until then."""
        self._next_id = 1
        self._last_id = last_stream_id
        self._plain_block = blocks.plain
        self._headers = _around_stream(blocks.first)
        self._later_headers = _around_stream(blocks.later)
        self._windows = SendWindows()
        self._whole_limit = self._largest_whole()
        self._consumed = 0
        self._template: ReplyTemplate | None = None
        self._unmatched, self._learns_at = 0, _LEARNS_FIRST
        self._reader = FrameReader(self)

    @property
    def finished(self) -> bool:
        """Whether the transport can be closed."""
        return self.broken is not None or (self.retired and not self._streams)

    @property
    def can_wait(self) -> bool:
        """Whether the only output is a PING's answer, which may leave with the next request."""
        out = self.out
        return len(out) == 1 and not self.retired and out[0][:5] == _PING_ACK_START

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

    def lost(self, sentence: str) -> None:
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

    def on_window_used(self, size: int) -> None:
        """Count the flow-control window that a frame used; return it once half of it is used."""
        self._consumed += size
        if self._consumed > frames.LARGEST_WINDOW // 2:
            self.out.append(frames.window_update(0, self._consumed))
            self._consumed = 0

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

    def on_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Take a frame that concerns the connection or a stream, not a reply."""
        wanted_bytes, of_connection = _CONTROL_FRAMES[kind]
        if wanted_bytes is not None and len(payload) != wanted_bytes:
            raise Http2Error(
                ErrorCode.FRAME_SIZE_ERROR,
                f"A frame of type {kind} is {len(payload)} bytes long instead of {wanted_bytes}.",
            )
        if of_connection is not None and of_connection != (stream_id == 0):
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, f"A frame of type {kind} came on stream {stream_id}."
            )
        match kind:
            case frames.WINDOW_UPDATE:
                self._on_window_update(stream_id, int.from_bytes(payload, "big"))
            case frames.PING if not flags & frames.FLAG_ACK:
                self.out.append(frames.ping_ack(payload))
            case frames.SETTINGS:
                self._on_settings(flags, payload)
            case frames.RST_STREAM:
                self._on_rst_stream(stream_id, int.from_bytes(payload, "big"))
            case frames.GOAWAY:
                self._on_goaway(*frames.read_goaway(payload))
            case frames.PUSH_PROMISE:
                raise Http2Error(
                    ErrorCode.PROTOCOL_ERROR,
                    "The server pushed a stream, which the client disabled.",
                )
            case _:
                pass  # PRIORITY, and the ACK of a PING: nothing to do

    def _on_window_update(self, stream_id: int, increment: int) -> None:
        increment &= frames.LARGEST_WINDOW
        if stream_id:
            self._check_known(stream_id)
        if not increment:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "A WINDOW_UPDATE grants 0 bytes.")
        self._windows.grow(stream_id, increment)
        if self._windows.waiting:
            self._send_waiting()

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & frames.FLAG_ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "A SETTINGS ACK holds settings.")
            return
        for key, value in frames.read_settings(payload):
            match key:
                case frames.SETTINGS_INITIAL_WINDOW_SIZE:
                    self._windows.set_stream_window(value)
                case frames.SETTINGS_MAX_FRAME_SIZE:
                    self._windows.set_frame_bytes(value)
                case frames.SETTINGS_MAX_CONCURRENT_STREAMS:
                    self.max_streams = value
                case frames.SETTINGS_HEADER_TABLE_SIZE if value < frames.DEFAULT_HEADER_TABLE_BYTES:
                    self._headers = _around_stream(SIZE_UPDATE_TO_ZERO + self._plain_block)
                    self._later_headers = _around_stream(self._plain_block)
        # The acknowledgement leaves before any frame that uses the new limits.
        self.out.append(frames.SETTINGS_ACK)
        self._whole_limit = self._largest_whole()
        self._send_waiting()
        self._on_event(ConnectionEvent.LIMITS)

    def _on_rst_stream(self, stream_id: int, code: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
            return
        self._windows.forget(stream_id)
        sentence = f"The server reset the stream: {frames.error_name(code)}."
        self._finish(stream_id, stream, Failure(FailureKind.STATUS, sentence))

    def _on_goaway(self, last_stream_id: int, code: int, debug: bytes) -> None:
        self._retire()
        quoted = f" ({debug.decode('utf-8', 'replace')})" if debug else ""
        failure = Failure(
            FailureKind.CONNECTION,
            printable_line(
                "The server closes the connection and did not take the request: "
                f"{frames.error_name(code)}{quoted}."
            ),
        )
        for stream_id in [name for name in self._streams if name > last_stream_id]:
            if stream := self._streams.get(stream_id):
                self._windows.forget(stream_id)
                self._finish(stream_id, stream, failure)

    def _largest_whole(self) -> int:
        """Return the longest body that is sent whole; -1 if the headers take several frames."""
        if len(self._plain_block) + _MOST_TRACE_BYTES >= frames.DEFAULT_FRAME_BYTES:
            return -1
        return min(self._windows.frame_limit, _JOINED_BYTES)

    def _send_waiting(self) -> None:
        if pieces := self._windows.take():
            self.out += pieces
            self.bulky = True

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

    def _retire(self) -> None:
        if not self.retired:
            self.retired = True
            self._on_event(ConnectionEvent.RETIRED)

    def _break(self, code: ErrorCode, message: str) -> None:
        self.broken = printable_line(message)
        self.out.append(frames.goaway(0, code))
        self._retire()
        self._fail_all(Failure(FailureKind.PROTOCOL, self.broken))

    def _fail_all(self, failure: Failure) -> None:
        self._windows.waiting.clear()
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            self._on_reply(stream.token, failure, None)

    def _check_known(self, stream_id: int) -> None:
        """Ignore a frame of a stream that is over; raise Http2Error for one never opened."""
        if stream_id % 2 == 0 or stream_id >= self._next_id:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, f"A frame came on stream {stream_id}, never opened."
            )


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
