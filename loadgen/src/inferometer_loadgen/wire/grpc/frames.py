"""HTTP/2 frames, settings and error codes (RFC 9113)."""

from enum import IntEnum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9
FRAME_HEADER = Struct(">HBBBI")
"""Length (upper 16 bits, lower 8), type, flags, stream: the 9 bytes before each payload."""

DATA = 0
HEADERS = 1
PRIORITY = 2
RST_STREAM = 3
SETTINGS = 4
PUSH_PROMISE = 5
PING = 6
GOAWAY = 7
WINDOW_UPDATE = 8
CONTINUATION = 9

FLAG_END_STREAM = 0x1
FLAG_ACK = 0x1
FLAG_END_HEADERS = 0x4
FLAG_PADDED = 0x8
FLAG_PRIORITY = 0x20

SETTINGS_HEADER_TABLE_SIZE = 1
SETTINGS_ENABLE_PUSH = 2
SETTINGS_MAX_CONCURRENT_STREAMS = 3
SETTINGS_INITIAL_WINDOW_SIZE = 4
SETTINGS_MAX_FRAME_SIZE = 5

DEFAULT_WINDOW = 65_535
DEFAULT_FRAME_BYTES = 16_384
DEFAULT_HEADER_TABLE_BYTES = 4_096
LARGEST_FRAME_BYTES = (1 << 24) - 1
LARGEST_WINDOW = (1 << 31) - 1
LARGEST_STREAM_ID = (1 << 31) - 1

_SETTING = Struct(">HI")
_GOAWAY = Struct(">II")


class ErrorCode(IntEnum):
    """Error codes of streams and connections (RFC 9113, section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Http2Error(Exception):
    """The peer violated HTTP/2, so that the connection must end; the message says how."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def error_name(code: int) -> str:
    """Return the name of an error code, or its number if it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return one whole frame."""
    return frame_start(len(payload), kind, flags) + stream_id.to_bytes(4, "big") + payload


def frame_start(length: int, kind: int, flags: int) -> bytes:
    """Return the five bytes of a frame header that precede the stream id."""
    return length.to_bytes(3, "big") + bytes((kind, flags))


def settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


SETTINGS_ACK = frame(SETTINGS, FLAG_ACK, 0)


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the settings of a frame in their order; raises Http2Error if one is cut off."""
    if len(payload) % _SETTING.size:
        raise Http2Error(
            ErrorCode.FRAME_SIZE_ERROR,
            f"A SETTINGS frame is {len(payload)} bytes long, which is not a multiple of 6.",
        )
    return [(key, value) for key, value in _SETTING.iter_unpack(payload)]


def ping_ack(payload: bytes) -> bytes:
    """Return the answer to a PING."""
    return frame(PING, FLAG_ACK, 0, payload)


def window_update(stream_id: int, increment: int) -> bytes:
    """Return a WINDOW_UPDATE of a stream, or of the connection (stream 0)."""
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def goaway(last_stream_id: int, code: ErrorCode, debug: bytes = b"") -> bytes:
    """Return a GOAWAY frame."""
    return frame(GOAWAY, 0, 0, _GOAWAY.pack(last_stream_id, code) + debug)


def read_goaway(payload: bytes) -> tuple[int, int, bytes]:
    """Return the last stream that the peer processes, its error code and its debug text."""
    if len(payload) < _GOAWAY.size:
        raise Http2Error(
            ErrorCode.FRAME_SIZE_ERROR,
            f"A GOAWAY frame is {len(payload)} bytes long; at least 8 are required.",
        )
    last_stream_id, code = _GOAWAY.unpack_from(payload)
    return last_stream_id & LARGEST_STREAM_ID, code, payload[_GOAWAY.size :]


def unpad(flags: int, payload: bytes) -> tuple[int, int]:
    """Return the start and end of a payload without its padding and priority."""
    start, end = 0, len(payload)
    if flags & FLAG_PADDED:
        if start == end:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "A padded frame has no pad length.")
        end -= payload[start]
        start += 1
    if flags & FLAG_PRIORITY:
        start += 5
    if start > end:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "A frame's padding is longer than the frame.")
    return start, end
