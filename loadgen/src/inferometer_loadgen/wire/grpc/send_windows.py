"""HTTP/2 flow control of requests: which bytes may be sent now (RFC 9113, section 5.2)."""

from dataclasses import dataclass

from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error


@dataclass(slots=True)
class PendingBody:
    """Unsent rest of a request's body, and the send window of its stream."""

    rest: memoryview
    window: int


class SendWindows:
    """Send windows of a connection and its streams, and the bodies that wait for them.

    Bodies leave first come, first served; one whose stream is blocked is skipped. The window of a
    stream is dropped once its body has left. ``waiting`` holds the bodies by stream. A caller that
    sends a whole body past the queue subtracts it from ``connection_window``.
    """

    __slots__ = ("_frame_bytes", "_stream_window", "connection_window", "waiting")

    def __init__(self) -> None:
        self.connection_window = frames.DEFAULT_WINDOW
        self._stream_window = frames.DEFAULT_WINDOW
        self._frame_bytes = frames.DEFAULT_FRAME_BYTES
        self.waiting: dict[int, PendingBody] = {}

    @property
    def frame_limit(self) -> int:
        """Longest body that a new stream may send as one frame, ignoring the connection window."""
        return max(0, min(self._frame_bytes, self._stream_window))

    def add(self, stream_id: int, body: bytes) -> None:
        """Queue a new stream's body; ``take`` returns what may be sent at once."""
        self.waiting[stream_id] = PendingBody(memoryview(body), self._stream_window)

    def forget(self, stream_id: int) -> bool:
        """Drop the rest of a body; return whether there was any."""
        return self.waiting.pop(stream_id, None) is not None

    def clear(self) -> None:
        """Drop all bodies."""
        self.waiting.clear()

    def take(self) -> list[bytes | memoryview]:
        """Return the frames that may be sent now, and shrink the windows by them."""
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
        """Apply a WINDOW_UPDATE; raises Http2Error if a window overflows."""
        if stream_id == 0:
            self.connection_window = _enlarged(self.connection_window, increment)
        elif waiting := self.waiting.get(stream_id):
            waiting.window = _enlarged(waiting.window, increment)

    def set_stream_window(self, size: int) -> None:
        """Apply SETTINGS_INITIAL_WINDOW_SIZE, which also changes the windows of open streams."""
        if size > frames.LARGEST_WINDOW:
            raise Http2Error(
                ErrorCode.FLOW_CONTROL_ERROR,
                f"SETTINGS_INITIAL_WINDOW_SIZE is {size}; the maximum is 2147483647.",
            )
        for waiting in self.waiting.values():
            waiting.window = _enlarged(waiting.window, size - self._stream_window)
        self._stream_window = size

    def set_frame_bytes(self, size: int) -> None:
        """Apply SETTINGS_MAX_FRAME_SIZE."""
        if not frames.DEFAULT_FRAME_BYTES <= size <= frames.LARGEST_FRAME_BYTES:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR,
                f"SETTINGS_MAX_FRAME_SIZE is {size}; 16384 to 16777215 is allowed.",
            )
        self._frame_bytes = size


def _enlarged(window: int, increment: int) -> int:
    if window + increment > frames.LARGEST_WINDOW:
        raise Http2Error(
            ErrorCode.FLOW_CONTROL_ERROR,
            f"A window of {window} bytes grew by {increment}, past 2147483647.",
        )
    return window + increment
