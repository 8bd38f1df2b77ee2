"""Which bytes of requests may be sent now, by the peer's flow control (RFC 9113, section 5.2)?"""

from dataclasses import dataclass

from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error


@dataclass(slots=True)
class PendingBody:
    """The rest of one request's body and the window of its stream."""

    rest: memoryview
    window: int


class SendWindows:
    """Both send windows of a connection, and the bodies that wait for them.

    Bodies leave first come, first served; one whose stream is blocked is passed over. The windows
    of streams whose body has left are not kept: nothing more will be sent on them.
    ``waiting`` holds the bodies by stream; ``connection_window`` may be drawn on by whoever sends
    a whole body past the queue.
    """

    __slots__ = ("_frame_bytes", "_stream_window", "connection_window", "waiting")

    def __init__(self) -> None:
        self.connection_window = frames.DEFAULT_WINDOW
        self._stream_window = frames.DEFAULT_WINDOW
        self._frame_bytes = frames.DEFAULT_FRAME_BYTES
        self.waiting: dict[int, PendingBody] = {}

    @property
    def frame_limit(self) -> int:
        """The longest body that a new stream may send as one frame, the connection apart."""
        return max(0, min(self._frame_bytes, self._stream_window))

    def add(self, stream_id: int, body: bytes) -> None:
        """Let a new stream's body wait; ``take`` sends what may leave at once."""
        self.waiting[stream_id] = PendingBody(memoryview(body), self._stream_window)

    def forget(self, stream_id: int) -> bool:
        """Drop what is left of a body; True if anything was."""
        return self.waiting.pop(stream_id, None) is not None

    def clear(self) -> None:
        """Drop all bodies."""
        self.waiting.clear()

    def take(self) -> list[bytes | memoryview]:
        """Cut the frames that may be sent now; the windows shrink by them."""
        out: list[bytes | memoryview] = []
        for stream_id in list(self.waiting):
            if self.connection_window <= 0:
                break
            self._take_from(stream_id, out)
        return out

    def _take_from(self, stream_id: int, out: list[bytes | memoryview]) -> None:
        waiting = self.waiting[stream_id]
        while True:
            size = min(len(waiting.rest), waiting.window, self.connection_window, self._frame_bytes)
            if size <= 0:
                return
            last = size == len(waiting.rest)
            flags = frames.FLAG_END_STREAM if last else 0
            start = frames.frame_start(size, frames.DATA, flags)
            out += (start + stream_id.to_bytes(4, "big"), waiting.rest[:size])
            waiting.rest = waiting.rest[size:]
            waiting.window -= size
            self.connection_window -= size
            if last:
                del self.waiting[stream_id]
                return

    def grow(self, stream_id: int, increment: int) -> None:
        """Take a WINDOW_UPDATE; raises Http2Error where a window overflows."""
        if stream_id == 0:
            self.connection_window = _grown(self.connection_window, increment)
        elif waiting := self.waiting.get(stream_id):
            waiting.window = _grown(waiting.window, increment)

    def set_stream_window(self, size: int) -> None:
        """Take SETTINGS_INITIAL_WINDOW_SIZE, which also moves the windows of open streams."""
        if size > frames.LARGEST_WINDOW:
            raise Http2Error(
                ErrorCode.FLOW_CONTROL_ERROR,
                f"SETTINGS_INITIAL_WINDOW_SIZE is {size}, at most 2147483647 is allowed.",
            )
        for waiting in self.waiting.values():
            waiting.window = _grown(waiting.window, size - self._stream_window)
        self._stream_window = size

    def set_frame_bytes(self, size: int) -> None:
        """Take SETTINGS_MAX_FRAME_SIZE."""
        if not frames.DEFAULT_FRAME_BYTES <= size <= frames.LARGEST_FRAME_BYTES:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR,
                f"SETTINGS_MAX_FRAME_SIZE is {size}, 16384 to 16777215 is allowed.",
            )
        self._frame_bytes = size


def _grown(window: int, increment: int) -> int:
    if window + increment > frames.LARGEST_WINDOW:
        raise Http2Error(
            ErrorCode.FLOW_CONTROL_ERROR,
            f"A window of {window} bytes grew by {increment}, past 2147483647.",
        )
    return window + increment
