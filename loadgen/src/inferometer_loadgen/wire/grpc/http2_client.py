"""HTTP/2 connection of a client: settings, flow control, stream resets, and its end (RFC 9113)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum

from inferometer_loadgen.wire.contract import Failure, FailureKind, printable_line
from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frame_reader import LARGEST_DATA_BYTES
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error
from inferometer_loadgen.wire.grpc.reply import ReplyStream
from inferometer_loadgen.wire.grpc.send_windows import SendWindows

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


class Http2Client(ABC):
    """The connection's own frames; a subclass sends requests on its streams and takes the replies.

    ``out`` is what must be written next, in order; ``bulky`` is true if joining it would copy large
    bodies. ``max_streams`` is the server's limit. ``broken`` says why the connection must be closed
    at once; None if it need not.
    """

    def __init__(self, on_event: Callable[[ConnectionEvent], None]) -> None:
        self.out: list[bytes | memoryview] = list(_PREAMBLE)
        self.bulky = False
        self.max_streams = _UNLIMITED
        self.retired = False
        self.broken: str | None = None
        self._on_event = on_event
        self._streams: dict[int, ReplyStream] = {}
        """Those that wait for their reply's end."""
        self._next_id = 1
        self._windows = SendWindows()
        self._consumed = 0

    @abstractmethod
    def _forget_header_table(self) -> None:
        """Send headers that refer to no table: the server keeps none."""

    @abstractmethod
    def _on_limits(self) -> None:
        """Apply the server's new limits to requests."""

    @abstractmethod
    def _finish(self, stream_id: int, stream: ReplyStream, failure: Failure | None) -> None:
        """End a stream whose request was answered or failed."""

    @abstractmethod
    def _fail_all(self, failure: Failure) -> None:
        """End all streams."""

    @property
    def finished(self) -> bool:
        """Whether the transport can be closed."""
        return self.broken is not None or (self.retired and not self._streams)

    @property
    def can_wait(self) -> bool:
        """Whether the only output is a PING's answer, which may leave with the next request."""
        out = self.out
        return len(out) == 1 and not self.retired and out[0][:5] == _PING_ACK_START

    def on_window_used(self, size: int) -> None:
        """Count the flow-control window that a frame used; return it once half of it is used."""
        self._consumed += size
        if self._consumed > frames.LARGEST_WINDOW // 2:
            self.out.append(frames.window_update(0, self._consumed))
            self._consumed = 0

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
                    self._forget_header_table()
        # The acknowledgement leaves before any frame that uses the new limits.
        self.out.append(frames.SETTINGS_ACK)
        self._on_limits()
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

    def _send_waiting(self) -> None:
        if pieces := self._windows.take():
            self.out += pieces
            self.bulky = True

    def _retire(self) -> None:
        if not self.retired:
            self.retired = True
            self._on_event(ConnectionEvent.RETIRED)

    def _break(self, code: ErrorCode, message: str) -> None:
        self.broken = printable_line(message)
        self.out.append(frames.goaway(0, code))
        self._retire()
        self._fail_all(Failure(FailureKind.PROTOCOL, self.broken))

    def _check_known(self, stream_id: int) -> None:
        """Ignore a frame of a stream that is over; raise Http2Error for one never opened."""
        if stream_id % 2 == 0 or stream_id >= self._next_id:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, f"A frame came on stream {stream_id}, never opened."
            )
