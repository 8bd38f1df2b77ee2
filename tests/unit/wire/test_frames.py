"""HTTP/2 frames: the same frames from any pieces, and errors for invalid ones."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.wire.grpc import frames
from inferometer_loadgen.wire.grpc.frame_reader import FrameReader
from inferometer_loadgen.wire.grpc.frames import ErrorCode, Http2Error
from support.wire_bytes import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PRIORITISED,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    pieces_of,
    settings,
)

Seen = list[tuple[object, ...]]


class Recorder:
    """Records the frames it receives, the parts of one DATA frame as one."""

    def __init__(self) -> None:
        self.seen: Seen = []
        self.padding_bytes = 0

    def on_data(self, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        """Join the body of a stream until its last frame."""
        body = data[start:end]
        last = self.seen[-1] if self.seen else ()
        if last[:2] == ("data", stream_id) and last[3] == 0:
            body = last[2] + body  # type: ignore[operator] # the third of a "data" is bytes
            self.seen.pop()
        self.seen.append(("data", stream_id, body, flags & END_STREAM))

    def on_reply_start(self, data: bytes, position: int) -> None:
        """Learn nothing."""

    def on_template(self, _data: bytes, position: int) -> int:
        """Know nothing by its bytes."""
        return position

    def on_window_used(self, size: int) -> None:
        """Count it."""
        self.padding_bytes += size

    def on_headers(self, flags: int, stream_id: int, block: bytes) -> None:
        """Note it."""
        self.seen.append(("headers", stream_id, block, flags & END_STREAM))

    def on_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Note it."""
        self.seen.append((kind, flags, stream_id, payload))


def read(*pieces: bytes) -> Recorder:
    """Return the frames that a new reader finds in these pieces."""
    recorder = Recorder()
    reader = FrameReader(recorder)
    for piece in pieces:
        reader.receive(piece)
    return recorder


WIRE = b"".join(
    (
        settings((3, 100)),
        frame(HEADERS, END_HEADERS, 1, b"open"),
        frame(DATA, 0, 1, b"d" * 300),
        frame(DATA, PADDED, 1, b"\x03body\x00\x00\x00"),
        frame(PING, 0, 0, b"12345678"),
        frame(HEADERS, PADDED | PRIORITISED, 3, b"\x01\x00\x00\x00\x00\x10one\x00"),
        frame(CONTINUATION, 0, 3, b"two"),
        frame(CONTINUATION, END_HEADERS, 3, b"three"),
        frame(0xFA, PADDED, 7, b"unknown"),
        frame(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x05"),
        frame(DATA, PADDED | END_STREAM, 1, b"\x00"),
        frame(DATA, END_STREAM, 5, b"end"),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, b""),
    )
)
SEEN: Seen = [
    (SETTINGS, 0, 0, b"\x00\x03\x00\x00\x00\x64"),
    ("headers", 1, b"open", 0),
    ("data", 1, b"d" * 300 + b"body", 0),
    (PING, 0, 0, b"12345678"),
    ("headers", 3, b"onetwothree", 0),
    (WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x05"),
    ("data", 1, b"", 1),
    ("data", 5, b"end", 1),
    ("headers", 3, b"", 1),
]


@given(st.lists(st.integers(min_value=0), max_size=12))
def test_any_pieces_give_the_same_frames(cuts: list[int]) -> None:
    """Padding, priority and CONTINUATION are removed, whatever the pieces."""
    recorder = read(*pieces_of(WIRE, cuts))
    assert recorder.seen == SEEN
    assert recorder.padding_bytes == 4 + 1


def test_single_bytes_give_the_same_frames() -> None:
    """Frames are read from pieces of one byte."""
    assert read(*(WIRE[at : at + 1] for at in range(len(WIRE)))).seen == SEEN


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_arbitrary_bytes_are_frames_or_an_http2_error(pieces: list[bytes]) -> None:
    """Garbage raises only Http2Error, also after a valid beginning."""
    for start in (b"", settings()):
        with suppress(Http2Error):
            read(start, *pieces)


@pytest.mark.parametrize(
    ("wire", "code", "sentence"),
    [
        pytest.param(
            b"HTTP/1.1 400 Bad", ErrorCode.PROTOCOL_ERROR, "may be its HTTP port", id="HTTP/1"
        ),
        pytest.param(
            frame(PING, 0, 0, b"12345678"), ErrorCode.PROTOCOL_ERROR, "SETTINGS", id="PING"
        ),
        pytest.param(
            settings() + b"\xff\xff\xff\x01\x00\x00\x00\x00\x01",
            ErrorCode.FRAME_SIZE_ERROR,
            "16777215 bytes long",
            id="a frame too long",
        ),
        pytest.param(
            settings() + b"\x10\x00\x01\x00\x00\x00\x00\x00\x01",
            ErrorCode.FRAME_SIZE_ERROR,
            "1048577 bytes long",
            id="a DATA frame too long",
        ),
        pytest.param(
            settings() + frame(HEADERS, 0, 1, b"x") + frame(DATA, 0, 1, b"x"),
            ErrorCode.PROTOCOL_ERROR,
            "interrupted",
            id="a block interrupted",
        ),
        pytest.param(
            settings() + frame(HEADERS, 0, 1, b"x") + frame(CONTINUATION, 0, 3, b"x"),
            ErrorCode.PROTOCOL_ERROR,
            "interrupted",
            id="another stream's CONTINUATION",
        ),
        pytest.param(
            settings() + frame(CONTINUATION, END_HEADERS, 1, b"x"),
            ErrorCode.PROTOCOL_ERROR,
            "continues no header block",
            id="CONTINUATION of nothing",
        ),
        pytest.param(
            settings() + frame(HEADERS, 0, 1) + 9 * frame(CONTINUATION, 0, 1, b"x" * 30_000),
            ErrorCode.ENHANCE_YOUR_CALM,
            "longer than 262144",
            id="an endless block",
        ),
        pytest.param(
            settings() + frame(DATA, PADDED, 1, b"\x05abcd"),
            ErrorCode.PROTOCOL_ERROR,
            "padding is longer",
            id="too much padding",
        ),
        pytest.param(
            settings() + frame(DATA, PADDED, 1), ErrorCode.FRAME_SIZE_ERROR, "pad length", id="none"
        ),
    ],
)
def test_invalid_frames_raise_an_error(wire: bytes, code: ErrorCode, sentence: str) -> None:
    """The error carries the standard's code and says what was wrong."""
    with pytest.raises(Http2Error, match=sentence) as raised:
        read(wire)
    assert raised.value.code is code


def test_written_frames_match_the_standard() -> None:
    """Golden bytes of each frame that a client writes."""
    assert frame(SETTINGS, ACK, 0) == frames.SETTINGS_ACK
    assert frames.settings({1: 0, 4: 7}) == settings((1, 0), (4, 7))
    assert frames.window_update(3, 5) == bytes.fromhex("00000408000000000300000005")
    assert frames.ping_ack(b"abcdefgh") == bytes.fromhex("000008060100000000") + b"abcdefgh"
    assert frames.rst_stream(5, ErrorCode.CANCEL) == bytes.fromhex("00000403000000000500000008")
    assert frames.goaway(0, ErrorCode.PROTOCOL_ERROR) == bytes.fromhex(
        "0000080700000000000000000000000001"
    )
