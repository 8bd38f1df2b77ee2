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
    """A good reply's bytes between the three places where its stream stands.

    ``start`` begins the headers' frame; ``middle``, behind the stream, is the header block and the
    beginning of the message's frame; ``prefix`` begins the message; ``end`` begins the trailers'
    frame and ``trailers`` is its block. All but ``start`` stand at the offsets given.
    """

    start: bytes
    middle: bytes
    prefix: bytes
    end: bytes
    trailers: bytes
    prefix_at: int
    end_at: int
    trailers_at: int
    message_at: int
    """Where the message itself begins, behind its prefix."""
    message_bytes: int
    """Of the message's frame: what it takes of the windows."""
    size: int
    streams: Struct
    """Reads the stream at its three places."""

    def stream_at(self, data: bytes, position: int) -> int:
        """Return the stream of the usual reply that stands here whole; 0 where there is none."""
        if (
            len(data) - position < self.size
            or not data.startswith(self.middle, position + _HEADER)
            or not data.startswith(self.prefix, position + self.prefix_at)
            or not data.startswith(self.end, position + self.end_at)
            or not data.startswith(self.trailers, position + self.trailers_at)
            or not data.startswith(self.start, position)
        ):
            return 0
        first, second, third = self.streams.unpack_from(data, position)
        return first if first == second == third else 0


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
    usual = UsualReply(
        start=data[position : position + 5],
        middle=data[position + _HEADER : block_end + 5],
        prefix=prefix,
        end=data[message_end : message_end + 5],
        trailers=data[trailers_at:end],
        prefix_at=message_at - position,
        end_at=message_end - position,
        trailers_at=trailers_at - position,
        message_at=message_at + _PREFIX_BYTES - position,
        message_bytes=message_end - message_at,
        size=end - position,
        streams=Struct(
            f">5xI{block_end + 5 - position - _HEADER}xI{message_end + 5 - message_at}xI"
        ),
    )
    return usual if usual.stream_at(data, position) else None


def _is_good(opening: bytes, trailers: bytes) -> bool:
    try:
        return read_opening(opening) is GOOD_OPENING and read_trailers(trailers) is None
    except HpackError:
        return False
