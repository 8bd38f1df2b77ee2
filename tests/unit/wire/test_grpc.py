"""gRPC over HTTP/2: what the client writes, and how it reads replies."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inferometer_loadgen.wire.content_coding import decode_body, encode_message
from inferometer_loadgen.wire.contract import EncodedRequest, Failure, FailureKind, ReplyBody
from inferometer_loadgen.wire.grpc.connection import prepare_grpc, request_headers
from inferometer_loadgen.wire.grpc.hpack import decode
from support.wire_bytes import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    OPENING,
    PADDED,
    PRIORITISED,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    failed_reply,
    frame,
    literal,
    message,
    pieces_of,
    reply,
    settings,
    split_frames,
)
from support.wire_peer import TARGET, Peer

GOOD = ReplyBody(b"fine", None)


def failure_of(peer: Peer, *data: bytes) -> Failure:
    """Return the failure of the one answer that these bytes produce."""
    [(_, failure, reply_body)] = peer.receive(*data)
    assert failure is not None
    assert reply_body is None
    return failure


def test_the_connection_begins_with_preface_and_settings() -> None:
    """No header table, no push, large windows; the connection's own window grows too."""
    opening = Peer().opening
    assert opening.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert split_frames(opening[24:]) == [
        (
            SETTINGS,
            0,
            0,
            bytes.fromhex("00010000000000020000000000047fffffff000500100000"),
        ),
        (WINDOW_UPDATE, 0, 0, bytes.fromhex("7fff0000")),
    ]


def test_settings_are_acknowledged_before_they_are_used() -> None:
    """A body that the new window releases is written after the acknowledgement."""
    peer = Peer((4, 3))
    assert peer.acknowledged == frame(SETTINGS, ACK, 0)
    peer.send(b"12345")
    peer.written()
    peer.receive(settings((4, 100)))
    kinds = [(kind, flags) for kind, flags, _, _ in peer.frames()]
    assert kinds == [(SETTINGS, ACK), (DATA, END_STREAM)]


def test_a_request_is_headers_and_one_message() -> None:
    """The first request writes its headers in full; the next refers to the server's table."""
    peer = Peer()
    peer.send(b"one")
    peer.send(b"two")
    first, body, second, other = peer.frames()
    assert first[:3] == (HEADERS, END_HEADERS, 1)
    assert decode(first[3]) == [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/inference.GRPCInferenceService/ModelInfer"),
        (b":authority", b"host:8001"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"inferometer"),
    ]
    assert body == (DATA, END_STREAM, 1, b"\x00\x00\x00\x00\x03one")
    assert second == (HEADERS, END_HEADERS, 3, b"\x83\x86\xc2\xc1\xc0\xbf\xbe")
    assert other == (DATA, END_STREAM, 3, b"\x00\x00\x00\x00\x03two")


def test_a_server_without_a_header_table_gets_plain_headers() -> None:
    """The client disables the table once; then every request writes its headers in full."""
    peer = Peer((1, 0))
    peer.send()
    peer.send()
    first, _, second, _ = peer.frames()
    assert first[3] == b"\x20" + second[3]
    assert dict(decode(second[3]))[b":authority"] == b"host:8001"


@pytest.mark.parametrize("size", [3, 20_000])
def test_headers_longer_than_a_frame_are_continued(size: int) -> None:
    """A frame holds at most 16,384 bytes of headers; the parts follow each other directly."""
    peer = Peer(headers=(("x", "v" * 40_000),))
    for stream_id in (1, 3):
        peer.send(b"a" * size)
        first, second, third, *bodies = peer.frames()
        assert [first[:3], second[:3], third[:3]] == [
            (HEADERS, 0, stream_id),
            (CONTINUATION, 0, stream_id),
            (CONTINUATION, END_HEADERS, stream_id),
        ]
        assert [len(first[3]), len(second[3])] == [16_384, 16_384]
        assert decode(first[3] + second[3] + third[3])[-1] == (b"x", b"v" * 40_000)
        assert {(kind, name) for kind, _, name, _ in bodies} == {(DATA, stream_id)}
        assert b"".join(payload for *_, payload in bodies) == message(b"a" * size)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("keep", [True, False])
def test_compressed_messages_are_sent_and_read(coding: Any, keep: bool) -> None:  # noqa: FBT001 - a table
    """Headers name the coding of the request, and the reply is decoded if it is kept."""
    target = replace(TARGET, compression=coding)
    headers = dict(request_headers(target))
    assert headers[b"grpc-encoding"] == headers[b"grpc-accept-encoding"] == coding.encode()
    _, sent = prepare_grpc(EncodedRequest(b"tensor"), coding).pieces
    assert sent[:1] == b"\1"
    assert int.from_bytes(sent[1:5], "big") == len(sent) - 5
    assert decode_body(sent[5:], [coding.encode()], 100) == b"tensor"
    block = OPENING + literal(b"grpc-encoding", coding.encode())
    for body, fault in ((encode_message(b"fine", coding), None), (b"none", "data")):
        peer = Peer()
        peer.send(keep=keep)
        [(_, failure, found)] = peer.receive(
            frame(HEADERS, END_HEADERS, 1, block)
            + frame(DATA, 0, 1, b"\1" + message(body)[1:])
            + frame(HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS)
        )
        if fault is None or not keep:
            assert (failure, found) == (None, GOOD if keep else None)
        else:
            assert failure is not None
            assert fault in failure.message


WIRE = reply(1, b"x" * 400, frame_bytes=90)


@given(st.lists(st.integers(min_value=0), max_size=12))
@example(list(range(len(WIRE))))
def test_any_pieces_give_the_same_reply(cuts: list[int]) -> None:
    """A reply in several frames is one message, whatever the pieces."""
    peer = Peer()
    peer.send(token=7)
    answers = peer.receive(*pieces_of(WIRE, cuts))
    assert answers == [(7, None, ReplyBody(b"x" * 400, None))]
    assert peer.engine.broken is None


@given(st.integers(0, len(WIRE) - 1))
def test_a_truncated_reply_is_a_lost_connection(cut: int) -> None:
    """No answer comes early, and the loss is reported."""
    peer = Peer()
    peer.send()
    assert peer.receive(WIRE[:cut]) == []
    peer.engine.fail_outstanding("The connection was lost: reset.")
    [(_, failure, _)] = peer.answers
    assert failure == Failure(FailureKind.CONNECTION, "The connection was lost: reset.")
    assert peer.finished()


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_fail_requests_or_wait(pieces: list[bytes]) -> None:
    """Garbage never raises; each request is answered at most once."""
    peer = Peer()
    for token in range(3):
        peer.send(token=token)
    answers = peer.receive(*pieces)
    peer.engine.fail_outstanding("It was lost.")
    assert sorted(token for token, _, _ in answers + peer.answers) == [0, 1, 2]


@given(st.integers(0, len(WIRE) - 1), st.integers(0, 255))
def test_a_damaged_reply_never_raises(at: int, byte: int) -> None:
    """After a change of any byte of a good reply there is still at most one answer."""
    peer = Peer()
    peer.send()
    answers = peer.receive(WIRE[:at] + bytes((byte,)) + WIRE[at + 1 :])
    peer.engine.fail_outstanding("It was lost.")
    assert len(answers + peer.answers) == 1


def test_a_discarded_reply_is_still_checked() -> None:
    """The message is dropped, but a message that lacks a byte fails."""
    peer = Peer()
    peer.send(keep=False)
    assert peer.receive(reply(1)) == [(0, None, None)]
    peer.send(keep=False)
    short = frame(DATA, 0, 3, message(b"fine")[:-1])
    whole = frame(HEADERS, END_HEADERS, 3, OPENING) + short
    failure = failure_of(peer, whole + frame(HEADERS, END_HEADERS | END_STREAM, 3, TRAILERS))
    assert failure.kind is FailureKind.PROTOCOL
    assert "1 bytes before its message's end" in failure.message


def test_padding_priority_and_continuation_are_undone() -> None:
    """Padding, priority, CONTINUATION and interim headers do not change a reply."""
    peer = Peer()
    peer.send()
    body = message(b"fine")
    [answer] = peer.receive(
        frame(HEADERS, END_HEADERS, 1, literal(b":status", b"103")),
        frame(PRIORITY, 0, 1, b"\x00\x00\x00\x00\x10"),
        frame(
            HEADERS, PADDED | PRIORITISED, 1, b"\x02\x00\x00\x00\x00\x10" + OPENING[:9] + b"\0\0"
        ),
        frame(CONTINUATION, END_HEADERS, 1, OPENING[9:]),
        frame(DATA, PADDED, 1, b"\x04" + body[:3] + b"\0\0\0\0"),
        frame(DATA, PRIORITISED, 1, body[3:]),
        frame(0xBE, 0xFF, 1, b"an extension"),
        frame(HEADERS, END_STREAM, 1, TRAILERS[:2]),
        frame(CONTINUATION, END_HEADERS, 1, TRAILERS[2:]),
    )
    assert answer == (0, None, GOOD)


def test_headers_that_differ_in_each_reply_are_read() -> None:
    """An id that a proxy adds, Huffman-coded or not, is ignored."""
    peer = Peer()
    for number in range(300):
        peer.send()
        block = OPENING + literal(b"x-request-id", str(number).encode())
        [(_, failure, _)] = peer.receive(
            frame(HEADERS, END_HEADERS, 2 * number + 1, block)
            + frame(DATA, 0, 2 * number + 1, message(b""))
            + frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, TRAILERS)
        )
        assert failure is None


@pytest.mark.parametrize(
    ("fields", "message_text"),
    [
        (
            [(b"grpc-status", b"3"), (b"grpc-message", b"bad%20shape%3A %E2%82%AC%zz")],
            "grpc-status 3 INVALID_ARGUMENT: bad shape: €%zz",
        ),
        ([(b"grpc-status", b"14")], "grpc-status 14 UNAVAILABLE"),
        ([(b"grpc-status", b"99"), (b"grpc-message", b"a%0Ab")], "grpc-status 99: a b"),
    ],
)
def test_a_trailers_only_reply_gives_the_reason(
    fields: list[tuple[bytes, bytes]], message_text: str
) -> None:
    """The server's own error is reported, percent-decoded."""
    peer = Peer()
    peer.send()
    assert failure_of(peer, failed_reply(1, *fields)) == Failure(FailureKind.STATUS, message_text)


def opened(*rest: bytes) -> bytes:
    """Return good headers on stream 1."""
    return frame(HEADERS, END_HEADERS, 1, OPENING) + b"".join(rest)


@pytest.mark.parametrize(
    ("wire", "kind", "sentence"),
    [
        pytest.param(
            opened(
                frame(DATA, 0, 1, message(b"x")),
                frame(HEADERS, 5, 1, literal(b"grpc-status", b"13")),
            ),
            FailureKind.STATUS,
            "grpc-status 13 INTERNAL",
            id="an error behind a message",
        ),
        pytest.param(
            frame(HEADERS, END_HEADERS, 1, b"\x8d"), FailureKind.STATUS, "HTTP status 404", id="404"
        ),
        pytest.param(
            frame(HEADERS, 5, 1, literal(b":status", b"503")),
            FailureKind.STATUS,
            "HTTP status 503",
            id="503 and nothing else",
        ),
        pytest.param(
            frame(HEADERS, END_HEADERS, 1, b"\x88" + literal(b"content-type", b"text/html")),
            FailureKind.PROTOCOL,
            "'text/html', not application/grpc",
            id="no gRPC",
        ),
        pytest.param(
            frame(HEADERS, END_HEADERS, 1, literal(b"a", b"b")),
            FailureKind.PROTOCOL,
            "no :status",
            id="no status",
        ),
        pytest.param(
            failed_reply(1), FailureKind.PROTOCOL, "without a grpc-status", id="no grpc-status"
        ),
        pytest.param(
            failed_reply(1, (b"grpc-status", b"0")),
            FailureKind.PROTOCOL,
            "ended before its message",
            id="good trailers without a message",
        ),
        pytest.param(
            failed_reply(1, (b"grpc-status", b"-1")),
            FailureKind.PROTOCOL,
            "not a number",
            id="status",
        ),
        pytest.param(
            opened(frame(DATA, END_STREAM, 1, message(b"x"))),
            FailureKind.PROTOCOL,
            "without a grpc-status",
            id="no trailers",
        ),
        pytest.param(
            opened(frame(DATA, 0, 1, b"\x01" + message(b"x")[1:])),
            FailureKind.PROTOCOL,
            "compressed",
            id="compressed",
        ),
        pytest.param(
            opened(frame(DATA, 0, 1, message(b"x") + b"y")),
            FailureKind.PROTOCOL,
            "more than its one message",
            id="too long",
        ),
        pytest.param(
            frame(DATA, 0, 1, message(b"x")), FailureKind.PROTOCOL, "before its headers", id="order"
        ),
        pytest.param(
            opened(frame(HEADERS, END_HEADERS, 1, OPENING)),
            FailureKind.PROTOCOL,
            "between headers and trailers",
            id="headers twice",
        ),
        pytest.param(
            frame(RST_STREAM, 0, 1, b"\x00\x00\x00\x07"),
            FailureKind.STATUS,
            "reset the stream: REFUSED_STREAM",
            id="reset",
        ),
        pytest.param(
            frame(RST_STREAM, 0, 1, b"\x00\x00\x00\x63"),
            FailureKind.STATUS,
            "reset the stream: error 99",
            id="reset for an unknown reason",
        ),
    ],
)
def test_a_bad_reply_fails_its_own_request_only(
    wire: bytes, kind: FailureKind, sentence: str
) -> None:
    """The failure says what was wrong; the connection continues, and late frames do no harm."""
    peer = Peer()
    peer.send()
    peer.send(token=1)
    failure = failure_of(peer, wire)
    assert failure.kind is kind
    assert sentence in failure.message
    assert peer.receive(reply(1)) == []
    assert peer.receive(reply(3)) == [(1, None, GOOD)]
    assert peer.engine.broken is None


def test_a_refused_reply_resets_its_stream() -> None:
    """The client resets the stream, so that the server stops sending."""
    peer = Peer()
    peer.send()
    peer.written()
    failure_of(peer, frame(HEADERS, END_HEADERS, 1, b"\x8d"))
    assert peer.written() == frame(RST_STREAM, 0, 1, b"\x00\x00\x00\x08")
