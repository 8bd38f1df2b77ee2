"""Which bytes does a good reply have in common with the next?

A server answers one and the same method: headers, one message, trailers, and but for the stream
and the message the same bytes again and again, or but for headers that mean nothing here. What is
known by its bytes need not be read frame by frame.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from inferometer_loadgen.wire import frames
from inferometer_loadgen.wire.grpc_replies import (
    GOOD_OPENING,
    good_openings_like,
    read_opening,
    read_trailers,
)
from inferometer_loadgen.wire.hpack import HpackError
from inferometer_loadgen.wire.hpack_alike import AlikeBlocks

_HEADER = frames.HEADER_BYTES
_START = 5
"""Bytes of a frame before its stream."""
_PREFIX_BYTES = 5
_END = frames.FLAG_END_HEADERS | frames.FLAG_END_STREAM


class _Spans(NamedTuple):
    """Where the parts of a reply end."""

    block_end: int
    message_end: int
    end: int


@dataclass(slots=True)
class SameReply:
    """A good reply's bytes around its message and the three places where its stream stands."""

    known: tuple[bytes, bytes, bytes, bytes, bytes]
    """The beginning of the headers' frame; the header block and the beginning of the message's
    frame; the message's prefix; the beginning of the trailers' frame; their block."""
    parts: Struct
    """Reads the five and the stream at its three places, in the order of the reply."""
    size: int
    message_at: int
    """Where the message itself begins, behind its prefix."""
    message_end: int
    taken: int
    """What the message's frame takes of the windows, in bytes."""

    def begins_with(self, block: bytes) -> bool:
        """Return whether its headers are just these."""
        return self.known[1][:-_START] == block

    def stream_at(self, data: bytes, position: int) -> int:
        """Return the stream of such a reply that stands here whole; 0 where there is none."""
        if len(data) - position < self.size:
            return 0
        start, stream, middle, second, prefix, end, third, trailers = self.parts.unpack_from(
            data, position
        )
        if (start, middle, prefix, end, trailers) != self.known or not stream == second == third:
            return 0
        found: int = stream
        return found


@dataclass(slots=True)
class VaryingReply:
    """The same where the headers are alike in each reply, and not the same.

    The numbers are of the reply that was found last.
    """

    opening: AlikeBlocks
    known: tuple[bytes, bytes, bytes, bytes]
    """The beginning of the message's frame, the message's prefix, the beginning of the trailers'
    frame, their block."""
    parts: Struct
    """Reads the four and the stream at its two places."""
    taken: int
    size: int = 0
    message_at: int = 0
    message_end: int = 0

    def stream_at(self, data: bytes, position: int) -> int:
        """Return the stream of such a reply that stands here whole; 0 where there is none."""
        if len(data) - position < _HEADER:
            return 0
        high, low, kind, flags, stream = frames.FRAME_HEADER.unpack_from(data, position)
        block_at = position + _HEADER
        block_end = block_at + (high << 8 | low)
        if (
            len(data) < block_end + self.parts.size
            or kind != frames.HEADERS
            or flags != frames.FLAG_END_HEADERS
            or not self.opening.hold(data, block_at, block_end)
        ):
            return 0
        start, second, prefix, end, third, trailers = self.parts.unpack_from(data, block_end)
        if (start, prefix, end, trailers) != self.known or not stream == second == third:
            return 0
        self.size = block_end + self.parts.size - position
        self.message_at = block_end + _HEADER + _PREFIX_BYTES - position
        self.message_end = block_end + _HEADER + self.taken - position
        found: int = stream
        return found


UsualReply = SameReply | VaryingReply


def usual_reply(data: bytes, position: int, before: UsualReply | None = None) -> UsualReply | None:
    """Return what is usual of the reply that begins here; None where it is not whole, or not good.

    Good means: headers, one DATA frame with exactly one message, trailers, all of one stream.
    ``before`` is what was usual: where this reply is not it, its headers vary.
    """
    spans = _spans(data, position)
    if spans is None:
        return None
    block_at, trailers_at = position + _HEADER, spans.message_end + _HEADER
    if not _is_good(data[block_at : spans.block_end], data[trailers_at : spans.end]):
        return None
    taken = spans.message_end - spans.block_end - _HEADER
    length = taken - _PREFIX_BYTES
    prefix = b"\0" + max(0, length).to_bytes(4, "big")
    if length < 0 or not data.startswith(prefix, spans.block_end + _HEADER):
        return None
    message_start = data[spans.block_end : spans.block_end + 5]
    ending = (
        prefix,
        data[spans.message_end : spans.message_end + 5],
        data[trailers_at : spans.end],
    )
    ending_parts = f"I5s{length}x5sI{len(ending[2])}s"
    block = data[block_at : spans.block_end]
    opening = good_openings_like(block)
    usual: UsualReply
    varies = isinstance(before, VaryingReply) or (
        before is not None and not before.begins_with(block)
    )
    if varies and opening.passed_over:
        parts = Struct(f">5s{ending_parts}")
        usual = VaryingReply(opening, (message_start, *ending), parts, taken)
    else:
        usual = SameReply(
            known=(data[position : position + 5], block + message_start, *ending),
            parts=Struct(f">5sI{len(block) + 5}s{ending_parts}"),
            size=spans.end - position,
            message_at=spans.block_end + _HEADER + _PREFIX_BYTES - position,
            message_end=spans.message_end - position,
            taken=taken,
        )
    return usual if usual.stream_at(data, position) else None


def _spans(data: bytes, position: int) -> _Spans | None:
    ends: list[int] = []
    at = position
    for kind, flags in (
        (frames.HEADERS, frames.FLAG_END_HEADERS),
        (frames.DATA, 0),
        (frames.HEADERS, _END),
    ):
        if len(data) < at + _HEADER or data[at + 3] != kind or data[at + 4] != flags:
            return None
        at += _HEADER + int.from_bytes(data[at : at + 3], "big")
        ends.append(at)
    return _Spans(*ends) if at <= len(data) else None


def _is_good(opening: bytes, trailers: bytes) -> bool:
    try:
        return read_opening(opening) is GOOD_OPENING and read_trailers(trailers) is None
    except HpackError:
        return False
