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
"""Prefix of a length, or an index, of more than one byte."""


@dataclass(frozen=True, slots=True)
class HeaderPattern:
    """All header blocks with each required field once, and otherwise only ignored fields.

    Both are encoded bytes, so that a different encoding of the same field does not match.
    """

    required: frozenset[bytes]
    ignored: frozenset[bytes]

    def matches(self, data: bytes, at: int, end: int) -> bool:
        """Return whether the block at ``data[at:end]`` matches."""
        missing = len(self.required)
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
            if data[begin:at] not in self.required:
                return False
            missing -= 1
        return at == end and not missing


def header_pattern(block: bytes) -> HeaderPattern:
    """Return the pattern of blocks that mean the same as this one; raises HpackError.

    Only the names in MEANINGFUL_HEADERS carry meaning. A block with lengths of several bytes does
    not match its own pattern.
    """
    required, ignored = set(), set()
    for part in hpack.parts(block, MEANINGFUL_HEADERS):
        if part.is_skipped:
            ignored.add(block[part.start : part.value_start])
        else:
            required.add(block[part.start : part.end])
    return HeaderPattern(frozenset(required), frozenset(ignored))


_HEADER = frames.HEADER_BYTES
_START = 5
"""Bytes of a frame header before the stream id."""
_PREFIX_BYTES = 5
_END = frames.FLAG_END_HEADERS | frames.FLAG_END_STREAM


class _Spans(NamedTuple):
    """Ends of the parts of a reply, in bytes."""

    block_end: int
    message_end: int
    end: int


@dataclass(slots=True)
class ExactTemplate:
    """Good reply whose bytes are the same except for the stream id and the message."""

    known: tuple[bytes, bytes, bytes, bytes, bytes]
    """Start of the headers' frame; header block and start of the message's frame; the message's
    prefix; start of the trailers' frame; trailers' block."""
    parts: Struct
    """Unpacks the five parts and the stream id at its three positions, in order."""
    size: int
    message_at: int
    """Offset of the message, behind its prefix."""
    message_end: int
    window_bytes: int
    """Bytes of the flow-control window that the message's frame uses."""

    def begins_with(self, block: bytes) -> bool:
        """Return whether its header block is exactly this one."""
        return self.known[1][:-_START] == block

    def stream_at(self, data: bytes, position: int) -> int:
        """Return the stream id of a whole matching reply at this position; 0 if there is none."""
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
    """Good reply whose meaningless headers vary in value and order.

    ``size``, ``message_at`` and ``message_end`` belong to the reply that matched last.
    """

    opening: HeaderPattern
    known: tuple[bytes, bytes, bytes, bytes]
    """Start of the message's frame; the message's prefix; start of the trailers' frame; trailers'
    block."""
    parts: Struct
    """Unpacks the four parts and the stream id at its two positions."""
    window_bytes: int
    size: int = 0
    message_at: int = 0
    message_end: int = 0

    def stream_at(self, data: bytes, position: int) -> int:
        """Return the stream id of a whole matching reply at this position; 0 if there is none."""
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
        self.message_end = block_end + _HEADER + self.window_bytes - position
        found: int = stream
        return found


ReplyTemplate = ExactTemplate | HeaderTolerantTemplate


def learn_template(
    data: bytes, position: int, previous: ReplyTemplate | None = None
) -> ReplyTemplate | None:
    """Return the template of the reply at this position; None if it is not whole or not good.

    A good reply has headers, one DATA frame with exactly one message, and trailers, all on one
    stream. ``previous`` is the template so far: if this reply's headers differ from it, they vary.
    """
    spans = _spans(data, position)
    if spans is None:
        return None
    block_at, trailers_at = position + _HEADER, spans.message_end + _HEADER
    if not _is_good(data[block_at : spans.block_end], data[trailers_at : spans.end]):
        return None
    window_bytes = spans.message_end - spans.block_end - _HEADER
    length = window_bytes - _PREFIX_BYTES
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
    template: ReplyTemplate
    varies = isinstance(previous, HeaderTolerantTemplate) or (
        previous is not None and not previous.begins_with(block)
    )
    if varies and opening.ignored:
        parts = Struct(f">5s{ending_parts}")
        template = HeaderTolerantTemplate(opening, (message_start, *ending), parts, window_bytes)
    else:
        template = ExactTemplate(
            known=(data[position : position + 5], block + message_start, *ending),
            parts=Struct(f">5sI{len(block) + 5}s{ending_parts}"),
            size=spans.end - position,
            message_at=spans.block_end + _HEADER + _PREFIX_BYTES - position,
            message_end=spans.message_end - position,
            window_bytes=window_bytes,
        )
    return template if template.stream_at(data, position) else None


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
