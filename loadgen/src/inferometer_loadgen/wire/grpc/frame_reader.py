"""Splits the bytes of an HTTP/2 connection into frames.

Bytes come in any pieces. DATA is passed on as it comes, so that large bodies are never assembled
here. Any other frame is passed on once it is whole; a header block is joined with its CONTINUATION
frames.
"""

from typing import Protocol

from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error

LARGEST_DATA_BYTES = 1 << 20
"""Longest DATA frame accepted, announced to the server in SETTINGS_MAX_FRAME_SIZE."""

_OPENING = bytes((frames.HEADERS, frames.FLAG_END_HEADERS))
"""Type and flags of the first frame of a good reply."""
_LARGEST_BLOCK_BYTES = 1 << 18
_STREAM_MASK = frames.LARGEST_STREAM_ID
_PADDED_OR_PRIORITY = frames.FLAG_PADDED | frames.FLAG_PRIORITY


class FrameHandler(Protocol):
    """Receiver of the frames."""

    def on_data(self, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        """Take a part of a DATA frame; END_STREAM is only set with its last."""

    def on_reply_start(self, data: bytes, position: int) -> None:
        """Inspect the start of a HEADERS frame that ends no stream, before `on_headers`."""

    def on_template(self, data: bytes, position: int) -> int:
        """Take whole replies that match the template; return the position behind them."""

    def on_window_used(self, size: int) -> None:
        """Count bytes of DATA frames that used the flow-control window: here, padding."""

    def on_headers(self, flags: int, stream_id: int, block: bytes) -> None:
        """Take a whole header block."""

    def on_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Take a frame of another type that HTTP/2 defines."""


class FrameReader:
    """Splits the bytes read into frames and passes them to the handler.

    If ``has_template`` is set, a frame that may begin a reply goes to ``on_template`` first.
    """

    __slots__ = (
        "_block",
        "_data_frame",
        "_data_left",
        "_first",
        "_handler",
        "_rest",
        "has_template",
    )

    def __init__(self, handler: FrameHandler) -> None:
        self.has_template = False
        self._handler = handler
        self._first = True
        self._rest = b""
        self._data_left = 0
        self._data_frame = (0, 0)
        self._block: tuple[int, int, bytes] | None = None

    def receive(self, data: bytes) -> None:
        """Take bytes that were read; raises Http2Error if the frames violate HTTP/2."""
        position = 0
        if self._data_left:
            position = self._go_on_with_data(data)
        elif self._rest:
            data = self._rest + data
            self._rest = b""
        end = len(data)
        if self._first and end >= frames.HEADER_BYTES:
            _check_first(data)
            self._first = False
        handler = self._handler
        unpack = frames.FRAME_HEADER.unpack_from
        while end - position >= frames.HEADER_BYTES:
            if (
                self.has_template
                and data.startswith(_OPENING, position + 3)
                and self._block is None
            ):
                behind = handler.on_template(data, position)
                if behind > position:
                    position = behind
                    continue
            high, low, kind, flags, stream_id = unpack(data, position)
            start = position + frames.HEADER_BYTES
            position = start + (high << 8 | low)
            if position > end:
                position = self._begin_partial(data, start, position)
                break
            self._whole(kind, flags, stream_id & _STREAM_MASK, data, start, position)
        if position < end:
            self._rest = data[position:]

    def _whole(
        self, kind: int, flags: int, stream_id: int, data: bytes, start: int, end: int
    ) -> None:
        handler = self._handler
        if self._block is not None or flags & _PADDED_OR_PRIORITY:
            self._rare(kind, flags, stream_id, data[start:end])
        elif kind == frames.DATA:
            handler.on_data(flags, stream_id, data, start, end)
        elif kind == frames.HEADERS and flags & frames.FLAG_END_HEADERS:
            if flags == frames.FLAG_END_HEADERS:
                handler.on_reply_start(data, start - frames.HEADER_BYTES)
            handler.on_headers(flags, stream_id, data[start:end])
        else:
            self._rare(kind, flags, stream_id, data[start:end])

    def _begin_partial(self, data: bytes, start: int, frame_end: int) -> int:
        """Pass on the available part of a DATA frame; wait for the rest of any other frame."""
        _, _, kind, flags, stream_id = frames.FRAME_HEADER.unpack_from(
            data, start - frames.HEADER_BYTES
        )
        size = frame_end - start
        limit = LARGEST_DATA_BYTES if kind == frames.DATA else _LARGEST_BLOCK_BYTES
        if size > limit:
            raise Http2Error(
                ErrorCode.FRAME_SIZE_ERROR,
                f"A frame of type {kind} is {size} bytes long; the limit is {limit}.",
            )
        if kind != frames.DATA or flags & frames.FLAG_PADDED or self._block is not None:
            return start - frames.HEADER_BYTES
        end = len(data)
        self._data_left = frame_end - end
        self._data_frame = (flags, stream_id & _STREAM_MASK)
        self._handler.on_data(0, stream_id & _STREAM_MASK, data, start, end)
        return end

    def _go_on_with_data(self, data: bytes) -> int:
        flags, stream_id = self._data_frame
        end = min(self._data_left, len(data))
        self._data_left -= end
        self._handler.on_data(0 if self._data_left else flags, stream_id, data, 0, end)
        return end

    def _rare(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None:
            self._continue_block(kind, flags, stream_id, payload)
        elif kind == frames.DATA:
            start, end = frames.unpad(flags & frames.FLAG_PADDED, payload)
            self._handler.on_window_used(len(payload) - (end - start))
            self._handler.on_data(flags, stream_id, payload, start, end)
        elif kind == frames.HEADERS:
            start, end = frames.unpad(flags, payload)
            self._headers(flags, stream_id, payload[start:end])
        elif kind == frames.CONTINUATION:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, "A CONTINUATION frame continues no header block."
            )
        elif kind < frames.CONTINUATION:
            self._handler.on_control(kind, flags, stream_id, payload)

    def _headers(self, flags: int, stream_id: int, block: bytes) -> None:
        if len(block) > _LARGEST_BLOCK_BYTES:
            raise Http2Error(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"A header block is longer than {_LARGEST_BLOCK_BYTES} bytes.",
            )
        if flags & frames.FLAG_END_HEADERS:
            self._block = None
            self._handler.on_headers(flags, stream_id, block)
        else:
            self._block = (flags, stream_id, block)

    def _continue_block(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None or kind != frames.CONTINUATION or stream_id != block[1]:
            raise Http2Error(
                ErrorCode.PROTOCOL_ERROR, "A header block was interrupted by another frame."
            )
        end_headers = flags & frames.FLAG_END_HEADERS
        self._headers(block[0] | end_headers, stream_id, block[2] + payload)


def _check_first(data: bytes) -> None:
    """Raise Http2Error if the first frame is not SETTINGS: the peer does not use HTTP/2."""
    if data[3] == frames.SETTINGS:
        return
    hint = ""
    if data.startswith(b"HTTP/1"):
        hint = " It answers in HTTP/1: this may be its HTTP port."
    raise Http2Error(
        ErrorCode.PROTOCOL_ERROR,
        f"The server begins with {data[:40]!r}, which is not an HTTP/2 SETTINGS frame.{hint}",
    )
