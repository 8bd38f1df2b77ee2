"""What a server writes on an HTTP/2 connection, put together without the code under test."""

from collections.abc import Iterable
from itertools import pairwise

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE = range(6)
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(6, 10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 0x20


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Make one frame."""
    return (
        len(payload).to_bytes(3, "big")
        + bytes((kind, flags))
        + stream_id.to_bytes(4, "big")
        + payload
    )


def settings(*pairs: tuple[int, int]) -> bytes:
    """Make a SETTINGS frame of (key, value) pairs."""
    payload = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs)
    return frame(SETTINGS, 0, 0, payload)


def window_update(stream_id: int, increment: int) -> bytes:
    """Make a WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


def goaway(last_stream_id: int, code: int = 0, debug: bytes = b"") -> bytes:
    """Make a GOAWAY frame."""
    payload = last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big") + debug
    return frame(GOAWAY, 0, 0, payload)


def literal(name: bytes, value: bytes) -> bytes:
    """Write a header as HPACK's literal, not indexed, no Huffman code."""
    return b"\x00" + _length(name) + name + _length(value) + value


def _length(text: bytes) -> bytes:
    """Write a length of less than 255."""
    size = len(text)
    return bytes((size,) if size < 127 else (127, size - 127))


OPENING = b"\x88" + literal(b"content-type", b"application/grpc")
TRAILERS = literal(b"grpc-status", b"0")


def message(body: bytes) -> bytes:
    """Put a gRPC message together with its prefix."""
    return b"\x00" + len(body).to_bytes(4, "big") + body


def reply(stream_id: int, body: bytes = b"fine", *, frame_bytes: int = 16_384) -> bytes:
    """Make a whole good reply."""
    content = message(body)
    cuts = range(0, len(content), frame_bytes)
    data = (frame(DATA, 0, stream_id, content[at : at + frame_bytes]) for at in cuts)
    return b"".join(
        (
            frame(HEADERS, END_HEADERS, stream_id, OPENING),
            *data,
            frame(HEADERS, END_HEADERS | END_STREAM, stream_id, TRAILERS),
        )
    )


def failed_reply(stream_id: int, *fields: tuple[bytes, bytes]) -> bytes:
    """Make a reply of trailers only."""
    block = OPENING + b"".join(literal(*field) for field in fields)
    return frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block)


def split_frames(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Split into (type, flags, stream, payload) what ends with a frame."""
    found = []
    while data:
        end = 9 + int.from_bytes(data[:3], "big")
        found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9:end]))
        assert len(data) >= end
        data = data[end:]
    return found


def pieces_of(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cut ``data`` at the given places, each taken modulo its length."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]
