"""Which bytes does a good reply have in common with the next?

A server answers one and the same method: headers, one message, trailers, and but for the stream and
the message the same bytes again and again. A reply that is known by its bytes need not be read
frame by frame.
"""

from dataclasses import dataclass
from struct import Struct

from inferometer_loadgen.wire import frames
from inferometer_loadgen.wire.grpc_replies import GOOD_OPENING, read_opening, read_trailers
from inferometer_loadgen.wire.hpack import HpackError

_HEADER = frames.HEADER_BYTES
_PREFIX_BYTES = 5
_END = frames.FLAG_END_HEADERS | frames.FLAG_END_STREAM


@dataclass(frozen=True, slots=True)
class UsualReply:
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

    @property
    def start(self) -> bytes:
        """How such a reply begins."""
        return self.known[0]

    def stream_at(self, data: bytes, position: int) -> int:
        """Return the stream of the usual reply that stands here whole; 0 where there is none."""
        if len(data) - position < self.size:
            return 0
        start, stream, middle, second, prefix, end, third, trailers = self.parts.unpack_from(
            data, position
        )
        if (start, middle, prefix, end, trailers) != self.known or not stream == second == third:
            return 0
        found: int = stream
        return found


def usual_reply(data: bytes, position: int) -> UsualReply | None:
    """Return what is usual of the reply that begins here; None where it is not whole, or not good.

    Good means: headers, one DATA frame with exactly one message, trailers, all of one stream.
    """
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
    block_end, message_end, end = ends
    message_at = block_end + _HEADER
    length = message_end - message_at - _PREFIX_BYTES
    prefix = b"\0" + max(0, length).to_bytes(4, "big")
    trailers_at = message_end + _HEADER
    if len(data) < end or not _is_good(data[position + _HEADER : block_end], data[trailers_at:end]):
        return None
    if length < 0 or not data.startswith(prefix, message_at):
        return None
    middle = data[position + _HEADER : block_end + 5]
    usual = UsualReply(
        known=(
            data[position : position + 5],
            middle,
            prefix,
            data[message_end : message_end + 5],
            data[trailers_at:end],
        ),
        parts=Struct(f">5sI{len(middle)}sI5s{length}x5sI{end - trailers_at}s"),
        size=end - position,
        message_at=message_at + _PREFIX_BYTES - position,
        message_end=message_end - position,
        taken=message_end - message_at,
    )
    return usual if usual.stream_at(data, position) else None


def _is_good(opening: bytes, trailers: bytes) -> bool:
    try:
        return read_opening(opening) is GOOD_OPENING and read_trailers(trailers) is None
    except HpackError:
        return False
