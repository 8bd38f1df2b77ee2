"""Templates of a good gRPC reply: bytes that identify another good reply without parsing it.

A server answers every call of one method with the same frames: headers, one message, trailers.
They differ in the stream id, in the message and, behind a proxy, in headers that carry no meaning
for a client (an id, a date, a duration). Some servers also write their headers in another order
each time. A reply that matches the template is good and is not read frame by frame.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from inferometer_loadgen.wire.grpc import frames, hpack
from inferometer_loadgen.wire.grpc.hpack import HpackError
from inferometer_loadgen.wire.grpc.reply import (
    GOOD_OPENING,
    MEANINGFUL_HEADERS,
    read_opening,
    read_trailers,
)

_LONG = 0x7F
"""A length, or an index, that takes more than one byte."""


@dataclass(frozen=True, slots=True)
class HeaderPattern:
    """All header blocks that hold these fields once, and else only fields of these names.

    Both are bytes as they stand in a block, so that other codings of the same are not known.
    """

    fields: frozenset[bytes]
    ignored: frozenset[bytes]

    def matches(self, data: bytes, at: int, end: int) -> bool:
        """Return whether such a block stands here; ``data`` goes on behind its end."""
        missing = len(self.fields)
        while at < end:
            begin = at
            first = data[at]
            if first >= hpack.INDEXED:
                at += 1
            else:
                if first in hpack.NEW_NAME:
                    length = data[at + 1] & _LONG
                    if length == _LONG:
                        return False
                    at += 2 + length
                else:
                    most = 0x3F if first >= hpack.WITH_INDEXING else 0x0F
                    at += 2 if first & most == most else 1
                if at >= end:
                    return False
                length = data[at] & _LONG
                if length == _LONG:
                    return False
                if data[begin:at] in self.ignored:
                    at += 1 + length
                    continue
                at += 1 + length
            if data[begin:at] not in self.fields:
                return False
            missing -= 1
        return at == end and not missing


def header_pattern(block: bytes) -> HeaderPattern:
    """Return all blocks that mean the same where only ``wanted`` names mean anything.

    Raises HpackError. Where a block's coding is beyond what is known so, it is not one of its own.
    """
    fields, ignored = set(), set()
    for part in hpack.parts(block, MEANINGFUL_HEADERS):
        if part.is_skipped:
            ignored.add(block[part.start : part.value_start])
        else:
            fields.add(block[part.start : part.end])
    return HeaderPattern(frozenset(fields), frozenset(ignored))


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
class ExactTemplate:
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
class HeaderTolerantTemplate:
    """The same where the headers are alike in each reply, and not the same.

    The numbers are of the reply that was found last.
    """

    opening: HeaderPattern
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
            or not self.opening.matches(data, block_at, block_end)
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


ReplyTemplate = ExactTemplate | HeaderTolerantTemplate


def learn_template(
    data: bytes, position: int, before: ReplyTemplate | None = None
) -> ReplyTemplate | None:
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
    opening = header_pattern(block)
    usual: ReplyTemplate
    varies = isinstance(before, HeaderTolerantTemplate) or (
        before is not None and not before.begins_with(block)
    )
    if varies and opening.ignored:
        parts = Struct(f">5s{ending_parts}")
        usual = HeaderTolerantTemplate(opening, (message_start, *ending), parts, taken)
    else:
        usual = ExactTemplate(
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
