"""Replies that match a template mean the same as when they are parsed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.wire.contract import FailureKind, ReplyBody
from inferometer_loadgen.wire.grpc import engine as grpc_engine
from inferometer_loadgen.wire.grpc import hpack
from inferometer_loadgen.wire.grpc.reply_template import (
    ExactTemplate,
    HeaderTolerantTemplate,
    ReplyTemplate,
    learn_template,
)
from inferometer_loadgen.wire.http1.parser import ReplyParser
from inferometer_loadgen.wire.http1.reply_template import HttpReplyTemplate
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
    """Return a reply of three frames."""
    return b"".join(
        (
            frame(HEADERS, END_HEADERS, stream_id, opening),
            frame(DATA, 0, stream_id, body),
            frame(HEADERS, END_HEADERS | END_STREAM, stream_id, trailers),
        )
    )


def proxied(name: bytes) -> bytes:
    """Return the headers of a reply as a proxy forwards them."""
    return OPENING + literal(b"x-request-id", name) + literal(b"x-duration", name[:1])


def through_proxy(stream_id: int, name: bytes) -> bytes:
    """Return a good reply with headers that differ in each reply."""
    return parts(stream_id, proxied(name), message(b"fine"), TRAILERS)


KINDS = {
    "usual": lambda stream: reply(stream, b"fine"),
    "another body": lambda stream: reply(stream, b"FINE"),
    "longer": lambda stream: reply(stream, b"finer"),
    "other headers": lambda stream: parts(stream, OTHER_OPENING, message(b"fine"), TRAILERS),
    "an id": lambda stream: through_proxy(stream, b"a-123"),
    "another id": lambda stream: through_proxy(stream, b"12345678" * 9),
    "an id first": lambda stream: parts(
        stream, literal(b"x-request-id", b"a") + OPENING, message(b"fine"), TRAILERS
    ),
    "in another order": lambda stream: parts(
        stream,
        literal(b"x-duration", b"a") + OPENING[1:] + literal(b"x-request-id", b"a") + OPENING[:1],
        message(b"fine"),
        TRAILERS,
    ),
    "two of a type": lambda stream: parts(
        stream, proxied(b"a") + OPENING[1:], message(b"fine"), TRAILERS
    ),
    "a long id": lambda stream: through_proxy(stream, b"12345678" * 18),
    "an id, then another header": lambda stream: parts(
        stream, proxied(b"a") + literal(b"via", b"a"), message(b"fine"), TRAILERS
    ),
    "an id and an error": lambda stream: parts(stream, proxied(b"a"), message(b"fine"), NOT_GOOD),
    "an id and another status": lambda stream: parts(
        stream,
        literal(b":status", b"500") + proxied(b"a")[len(OPENING) :],
        message(b"fine"),
        TRAILERS,
    ),
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
    "an id": b"fine",
    "another id": b"fine",
    "an id first": b"fine",
    "in another order": b"fine",
    "two of a type": b"fine",
    "a long id": b"fine",
    "an id, then another header": b"fine",
    "two frames": b"fine",
}


@given(
    before=st.sampled_from([[], ["an id"] * 18]),
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
    keep=st.booleans(),
)
def test_a_reply_is_parsed_independently_of_earlier_replies(
    before: list[str], kinds: list[str], cuts: list[int], *, keep: bool
) -> None:
    """In any order and any pieces, each request gets the answer that its own bytes contain."""
    kinds = before + kinds
    peer = Peer((3, 100))
    for token in range(len(kinds)):
        peer.send(token=token, keep=keep)
    wire = b"".join(KINDS[kind](2 * place + 1) for place, kind in enumerate(kinds))
    answers = peer.receive(*pieces_of(wire, cuts))
    assert [token for token, _, _ in answers] == list(range(len(kinds)))
    for kind, (_, failure, reply_body) in zip(kinds, answers, strict=True):
        body = BODIES.get(kind)
        assert (failure is None) == (body is not None)
        assert reply_body == (ReplyBody(body, None) if keep and body is not None else None)
    assert not peer.engine.broken


def test_frames_of_three_streams_do_not_match() -> None:
    """Frames that look like a reply except for their streams are parsed one by one."""
    peer = Peer((3, 100))
    for token in range(5):
        peer.send(token=token)
    assert [token for token, _, _ in peer.receive(reply(1) + reply(3))] == [0, 1]
    frames = [frame(HEADERS, END_HEADERS, name, OPENING) for name in (5, 7)]
    bodies = [frame(DATA, 0, name, message(b"fine")) for name in (5, 7)]
    ends = [frame(HEADERS, END_HEADERS | END_STREAM, name, TRAILERS) for name in (5, 7)]
    mixed = frames[0] + frames[1] + bodies[1] + ends[1] + bodies[0] + ends[0]
    assert [(token, failure) for token, failure, _ in peer.receive(mixed)] == [(3, None), (2, None)]
    swapped = frame(HEADERS, END_HEADERS, 9, OPENING) + bodies[0] + ends[0]
    assert peer.receive(swapped) == []


def test_a_matching_reply_on_an_open_stream_is_an_error() -> None:
    """A whole matching reply on a stream whose headers arrived is an error of that stream."""
    peer = Peer((3, 100))
    for token in range(3):
        peer.send(token=token)
    peer.receive(reply(1) + reply(3))
    peer.receive(frame(HEADERS, END_HEADERS, 5, OPENING))
    [(token, failure, _)] = peer.receive(reply(5))
    assert token == 2
    assert failure is not None
    assert failure.kind is FailureKind.PROTOCOL


def test_an_exact_template_ignores_the_first_replys_table_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second reply teaches the exact template if the first begins with a table size update."""
    learned = []

    def learning(*arguments: Any) -> ReplyTemplate | None:
        learned.append(learn_template(*arguments))
        return learned[-1]

    monkeypatch.setattr(grpc_engine, "learn_template", learning)
    peer = Peer((3, 100))
    for token in range(60):
        peer.send(token=token)
    first = parts(1, hpack.SIZE_UPDATE_TO_ZERO + OPENING, message(b"fine"), TRAILERS)
    others = [reply(2 * token + 1, b"fine") for token in range(1, 60)]
    assert len(peer.receive(first, *others)) == 60
    assert [type(each) for each in learned] == [ExactTemplate]


def test_only_a_good_whole_reply_becomes_a_template() -> None:
    """Truncated replies, bad replies and messages of several frames teach no template."""
    assert learn_template(b"x" + reply(1), 1) is not None
    for kind in ("two frames", "an error", "trailers only", "cut", "compressed"):
        assert learn_template(KINDS[kind](1), 0) is None
    for end in range(len(reply(1))):
        assert learn_template(reply(1)[:end], 0) is None


def test_header_values_that_a_proxy_changes_are_ignored() -> None:
    """Once two replies differ only in such values, a third matches without being parsed."""
    first, second, third = (through_proxy(1, name) for name in (b"a", b"bc", b"def"))
    usual = learn_template(first, 0)
    assert usual is not None
    assert usual.stream_at(second, 0) == 0
    usual = learn_template(second, 0, usual)
    assert usual is not None
    assert usual.stream_at(b"x" + third, 1) == 1
    assert third[usual.message_at : usual.message_end] == b"fine"
    for end in range(len(third)):
        assert usual.stream_at(third[:end], 0) == 0


def test_a_new_message_length_keeps_the_exact_template() -> None:
    """Another length of the message does not make the template header-tolerant."""
    usual = learn_template(through_proxy(1, b"a"), 0)
    longer = parts(1, proxied(b"a"), message(b"longer"), TRAILERS)
    assert isinstance(learn_template(longer, 0, usual), ExactTemplate)
    assert isinstance(learn_template(through_proxy(1, b"b"), 0, usual), HeaderTolerantTemplate)


@given(data=st.data())
def test_no_changed_byte_makes_a_bad_grpc_reply_match(data: st.DataObject) -> None:
    """No change of bytes makes a reply match that would fail frame by frame."""
    wire = bytearray(through_proxy(1, b"abcdef"))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    usual = learn_template(through_proxy(1, b"x"), 0, learn_template(through_proxy(1, b"y"), 0))
    assert usual is not None
    known = usual.stream_at(bytes(wire), 0) == 1
    peer = Peer()
    peer.send(token=0)
    answers = peer.receive(bytes(wire))
    if known:
        assert [(token, failure) for token, failure, _ in answers] == [(0, None)]


HEAD_LINES = (
    b"content-length: 7",
    b"Content-Length: 7",
    b"content-length: 8",
    b"content-length:\t7 ",
    b"content-length: x",
    b"inference-header-content-length: 2",
    b"inference-header-content-length: 9",
    b"date: Sat, 21 Nov 2026 20:00:00 GMT",
    b"date: Sat, 21 Nov 2026 20:00:01 GMT",
    b"x-request-id: 1",
    b"x-request-id: another",
    b"x-request-id:",
    b"connection: keep-alive",
    b"connection: close",
    b"transfer-encoding: chunked",
    b"content-encoding: gzip",
    b"no header",
)


def http_reply(status: bytes, lines: list[bytes]) -> bytes:
    """Return a reply with a body of 7 bytes."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"", b"{}12345"])


PLAIN = [b"content-length: 7", b"inference-header-content-length: 2"]
LINES = st.lists(st.sampled_from(HEAD_LINES), max_size=3).map(lambda lines: PLAIN + lines)
LINES |= st.lists(st.sampled_from(HEAD_LINES), max_size=5)


@given(
    learned=LINES,
    lines=LINES,
    status=st.sampled_from([b"200 OK", b"200 Fine", b"503 Busy"]),
    cut=st.integers(0, 2),
)
def test_a_matching_http_reply_equals_the_parsed_one(
    learned: list[bytes], lines: list[bytes], status: bytes, cut: int
) -> None:
    """A reply that matches is good when parsed, with the same body."""
    usual = HttpReplyTemplate()
    parser = ReplyParser()
    first = http_reply(b"200 OK", learned)
    parser.start(True)
    if parser.feed(first) and parser.fits_template:
        usual.learn(first)
    reply = http_reply(status, lines)
    reply = reply[: len(reply) - cut]
    if usual.matches(reply):
        parser.start(True)
        assert parser.feed(reply)
        assert (parser.failure, parser.reusable) == (None, True)
        assert usual.reply(reply) == parser.reply
        assert reply.startswith(usual.head)
        assert usual.size == len(reply)


def test_http_headers_that_a_proxy_changes_do_not_prevent_a_match() -> None:
    """Dates, ids and lengths may differ in each reply."""
    usual = HttpReplyTemplate()
    lines = [b"Date: 1", b"X-Request-Id: abc", *PLAIN]
    usual.learn(http_reply(b"200 OK", lines))
    assert usual.matches(http_reply(b"200 OK", [b"Date: 2", b"X-Request-Id: d", *PLAIN]))
    others = [b"content-length: 8", b"inference-header-content-length: 3"]
    longer = http_reply(b"200 OK", [b"Date: 2", b"X-Request-Id:", *others]) + b"6"
    assert usual.matches(longer)
    assert usual.reply(longer) == ReplyBody(b"{}123456", 3)
    assert not usual.matches(http_reply(b"200 OK", lines[::-1]))
    assert not usual.matches(longer[:-1])
    assert not usual.matches(longer + b"7")
