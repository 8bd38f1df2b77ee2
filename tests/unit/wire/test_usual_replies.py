"""gRPC replies that are known by their bytes mean what they mean frame by frame."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.wire.contract import FailureKind, Reply
from inferometer_loadgen.wire.grpc_usual import usual_reply
from support.wire_bytes import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    OPENING,
    TRAILERS,
    failed_reply,
    frame,
    literal,
    message,
    pieces_of,
    reply,
)
from support.wire_peer import Peer

OTHER_OPENING = OPENING + literal(b"x-request-id", b"1")
NOT_GOOD = literal(b"grpc-status", b"5")


def parts(stream_id: int, opening: bytes, body: bytes, trailers: bytes) -> bytes:
    """Make a reply of three frames."""
    return b"".join(
        (
            frame(HEADERS, END_HEADERS, stream_id, opening),
            frame(DATA, 0, stream_id, body),
            frame(HEADERS, END_HEADERS | END_STREAM, stream_id, trailers),
        )
    )


KINDS = {
    "usual": lambda stream: reply(stream, b"fine"),
    "another body": lambda stream: reply(stream, b"FINE"),
    "longer": lambda stream: reply(stream, b"finer"),
    "other headers": lambda stream: parts(stream, OTHER_OPENING, message(b"fine"), TRAILERS),
    "two frames": lambda stream: reply(stream, b"fine", frame_bytes=6),
    "an error": lambda stream: parts(stream, OPENING, message(b"fine"), NOT_GOOD),
    "trailers only": lambda stream: failed_reply(stream, (b"grpc-status", b"3")),
    "cut": lambda stream: parts(stream, OPENING, message(b"fine")[:-1], TRAILERS),
    "compressed": lambda stream: parts(stream, OPENING, b"\1" + message(b"fine")[1:], TRAILERS),
}
BODIES = {
    "usual": b"fine",
    "another body": b"FINE",
    "longer": b"finer",
    "other headers": b"fine",
    "two frames": b"fine",
}


@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
    keep=st.booleans(),
)
def test_a_reply_means_the_same_after_whichever_others(
    kinds: list[str], cuts: list[int], *, keep: bool
) -> None:
    """In any order and in any pieces each request has the answer that its own bytes are."""
    peer = Peer((3, 100))
    for token in range(len(kinds)):
        peer.send(token=token, keep=keep)
    said = b"".join(KINDS[kind](2 * place + 1) for place, kind in enumerate(kinds))
    answers = peer.receive(*pieces_of(said, cuts))
    assert [token for token, _, _ in answers] == list(range(len(kinds)))
    for kind, (_, failure, kept) in zip(kinds, answers, strict=True):
        body = BODIES.get(kind)
        assert (failure is None) == (body is not None)
        assert kept == (Reply(body, None) if keep and body is not None else None)
    assert not peer.engine.broken


def test_a_usual_reply_of_three_streams_is_none() -> None:
    """Frames that look like a reply but for their streams are read one by one."""
    peer = Peer((3, 100))
    for token in range(4):
        peer.send(token=token)
    assert [token for token, _, _ in peer.receive(reply(1))] == [0]
    frames = [frame(HEADERS, END_HEADERS, name, OPENING) for name in (3, 5)]
    bodies = [frame(DATA, 0, name, message(b"fine")) for name in (3, 5)]
    ends = [frame(HEADERS, END_HEADERS | END_STREAM, name, TRAILERS) for name in (3, 5)]
    mixed = frames[0] + frames[1] + bodies[1] + ends[1] + bodies[0] + ends[0]
    assert [(token, failure) for token, failure, _ in peer.receive(mixed)] == [(2, None), (1, None)]
    swapped = frame(HEADERS, END_HEADERS, 7, OPENING) + bodies[0] + ends[0]
    assert peer.receive(swapped) == []


def test_a_stream_that_was_begun_is_not_begun_again() -> None:
    """A whole usual reply on a stream whose headers have come is an error of that stream."""
    peer = Peer()
    peer.send(token=0)
    peer.send(token=1)
    peer.receive(reply(1))
    peer.receive(frame(HEADERS, END_HEADERS, 3, OPENING))
    [(token, failure, _)] = peer.receive(reply(3))
    assert token == 1
    assert failure is not None
    assert failure.kind is FailureKind.PROTOCOL


def test_only_a_good_whole_reply_is_usual() -> None:
    """Nothing is learned of what is cut off, bad, or more than one frame of a message."""
    assert usual_reply(b"x" + reply(1), 1) is not None
    for kind in ("two frames", "an error", "trailers only", "cut", "compressed"):
        assert usual_reply(KINDS[kind](1), 0) is None
    for end in range(len(reply(1))):
        assert usual_reply(reply(1)[:end], 0) is None
