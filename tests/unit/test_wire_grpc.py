"""gRPC over HTTP/2: what is written, what replies amount to, and what ends streams."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inferometer_loadgen.wire.contract import Failure, FailureKind, Reply
from inferometer_loadgen.wire.grpc_engine import Event, GrpcEngine
from inferometer_loadgen.wire.hpack import decode
from support.wire_bytes import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    OPENING,
    PADDED,
    PING,
    PRIORITISED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    failed_reply,
    frame,
    goaway,
    literal,
    message,
    pieces_of,
    reply,
    settings,
    split_frames,
    window_update,
)
from support.wire_peer import Peer, request

GOOD = Reply(b"fine", None)


def failure_of(peer: Peer, *data: bytes) -> Failure:
    """Take the failure of the one answer that these bytes bring."""
    [(_, failure, kept)] = peer.receive(*data)
    assert failure is not None
    assert kept is None
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
    """A body that the new window lets go leaves behind the acknowledgement."""
    peer = Peer((4, 3))
    assert peer.acknowledged == frame(SETTINGS, ACK, 0)
    peer.send(b"12345")
    peer.written()
    peer.receive(settings((4, 100)))
    kinds = [(kind, flags) for kind, flags, _, _ in peer.frames()]
    assert kinds == [(SETTINGS, ACK), (DATA, END_STREAM)]


def test_a_request_is_headers_and_one_message() -> None:
    """The first request spells its headers out, the next refers to the server's table."""
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
    """The table's end is told once, then every request spells its headers out."""
    peer = Peer((1, 0))
    peer.send()
    peer.send()
    first, _, second, _ = peer.frames()
    assert first[3] == b"\x20" + second[3]
    assert dict(decode(second[3]))[b":authority"] == b"host:8001"


WIRE = reply(1, b"x" * 400, frame_bytes=90)


@given(st.lists(st.integers(min_value=0), max_size=12))
@example(list(range(len(WIRE))))
def test_any_pieces_give_the_same_reply(cuts: list[int]) -> None:
    """A reply in several frames is one message, whatever is read at once."""
    peer = Peer()
    peer.send(token=7)
    answers = peer.receive(*pieces_of(WIRE, cuts))
    assert answers == [(7, None, Reply(b"x" * 400, None))]
    assert peer.engine.broken is None


@given(st.integers(0, len(WIRE) - 1))
def test_a_truncated_reply_is_a_lost_connection(cut: int) -> None:
    """Nothing is answered early, and the loss is told."""
    peer = Peer()
    peer.send()
    assert peer.receive(WIRE[:cut]) == []
    peer.engine.lost("The connection was lost: reset.")
    [(_, failure, _)] = peer.answers
    assert failure == Failure(FailureKind.CONNECTION, "The connection was lost: reset.")
    assert peer.finished()


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_fail_requests_or_wait(pieces: list[bytes]) -> None:
    """Garbage never raises; each request is answered at most once, by then or at the loss."""
    peer = Peer()
    for token in range(3):
        peer.send(token=token)
    answers = peer.receive(*pieces)
    peer.engine.lost("It was lost.")
    assert sorted(token for token, _, _ in answers + peer.answers) == [0, 1, 2]


@given(st.integers(0, len(WIRE) - 1), st.integers(0, 255))
def test_a_damaged_reply_never_raises(at: int, byte: int) -> None:
    """With any byte of a good reply changed there is still one answer at most."""
    peer = Peer()
    peer.send()
    answers = peer.receive(WIRE[:at] + bytes((byte,)) + WIRE[at + 1 :])
    peer.engine.lost("It was lost.")
    assert len(answers + peer.answers) == 1


def test_a_reply_that_is_not_kept_is_still_checked() -> None:
    """The message is dropped, but one that lacks a byte fails."""
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
    """What proxies may do to a reply changes nothing; interim headers say nothing."""
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
    """An id that a proxy adds, Huffman-coded or not, is passed over."""
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
def test_trailers_alone_say_why(fields: list[tuple[bytes, bytes]], message_text: str) -> None:
    """The server's own error comes through, percent-decoded."""
    peer = Peer()
    peer.send()
    assert failure_of(peer, failed_reply(1, *fields)) == Failure(FailureKind.STATUS, message_text)


def opened(*rest: bytes) -> bytes:
    """Begin a reply well on stream 1."""
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
            failed_reply(1, (b"grpc-status", b"-1")), FailureKind.PROTOCOL, "no number", id="status"
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
    """The failure says what was wrong, the connection goes on, late frames do no harm."""
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
    """The server is told that nobody reads on."""
    peer = Peer()
    peer.send()
    peer.written()
    failure_of(peer, frame(HEADERS, END_HEADERS, 1, b"\x8d"))
    assert peer.written() == frame(RST_STREAM, 0, 1, b"\x00\x00\x00\x08")


@pytest.mark.parametrize(
    ("wire", "code", "sentence"),
    [
        pytest.param(reply(5), 1, "stream 5, never opened", id="a stream never opened"),
        pytest.param(frame(DATA, 0, 2, b"x"), 1, "stream 2", id="a stream of the server"),
        pytest.param(frame(RST_STREAM, 0, 9, bytes(4)), 1, "stream 9", id="reset, never opened"),
        pytest.param(frame(RST_STREAM, 0, 1, bytes(3)), 6, "3 bytes long", id="short reset"),
        pytest.param(frame(PING, 0, 0, b"short"), 6, "5 bytes long in place of 8", id="short PING"),
        pytest.param(frame(PING, 0, 1, bytes(8)), 1, "came on stream 1", id="PING on a stream"),
        pytest.param(frame(GOAWAY, 0, 0, b"1234"), 6, "GOAWAY", id="short GOAWAY"),
        pytest.param(frame(SETTINGS, 0, 0, b"12345"), 6, "no multiple of 6", id="short SETTINGS"),
        pytest.param(frame(SETTINGS, ACK, 0, b"123456"), 6, "holds settings", id="full ACK"),
        pytest.param(settings((4, 2**31)), 3, "2147483648", id="a window too large"),
        pytest.param(settings((5, 1)), 1, "MAX_FRAME_SIZE is 1", id="frames too small"),
        pytest.param(window_update(0, 0), 1, "0 bytes", id="a window that does not grow"),
        pytest.param(window_update(0, 2**31 - 1), 3, "past 2147483647", id="a window too wide"),
        pytest.param(frame(PUSH_PROMISE, 4, 1, bytes(8)), 1, "pushed", id="push"),
        pytest.param(frame(HEADERS, 4, 1, b"\xbe"), 9, "entry 62", id="a header table"),
    ],
)
def test_a_broken_connection_fails_all_and_says_goodbye(
    wire: bytes, code: int, sentence: str
) -> None:
    """Each request fails with the reason, GOAWAY carries the standard's code, nothing follows."""
    peer = Peer()
    peer.send()
    peer.send(token=1)
    peer.written()
    answers = peer.receive(wire)
    assert [token for token, _, _ in answers] == [0, 1]
    for _, failure, _ in answers:
        assert failure is not None
        assert failure.kind is FailureKind.PROTOCOL
        assert sentence in failure.message
    assert peer.frames()[-1] == (GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big"))
    assert peer.finished()
    assert peer.events == [Event.LIMITS, Event.RETIRED]
    assert peer.receive(wire, reply(1)) == []
    assert peer.written() == b""


def test_pings_are_answered_with_the_next_write() -> None:
    """The answer and the next request leave together, in order; an answer is not answered."""
    peer = Peer()
    engine = peer.engine
    engine._on_reply = lambda token, _failure, _reply: engine.send(request(b"next"), token, False)
    peer.send()
    peer.written()
    peer.receive(
        frame(PING, 0, 0, b"12345678") + reply(1) + frame(PING, ACK, 0, b"abcdefgh"),
    )
    assert [item[:3] for item in peer.frames()] == [
        (PING, ACK, 0),
        (HEADERS, END_HEADERS, 3),
        (DATA, END_STREAM, 3),
    ]


def test_a_cancelled_request_is_reset_and_never_answered() -> None:
    """Its late reply is passed over; others go on; nobody is found twice."""
    peer = Peer()
    peer.send(token=5)
    peer.send(token=6)
    peer.written()
    assert peer.engine.cancel(5)
    assert not peer.engine.cancel(5)
    assert peer.written() == frame(RST_STREAM, 0, 1, b"\x00\x00\x00\x08")
    assert peer.receive(reply(1) + reply(3)) == [(6, None, GOOD)]


def test_goaway_comes_twice() -> None:
    """The first ends new streams only; the second fails what the server did not take."""
    peer = Peer()
    for token in range(3):
        peer.send(token=token)
    peer.written()
    assert peer.receive(goaway(2**31 - 1) + frame(PING, 0, 0, b"draining")) == []
    assert peer.written() == frame(PING, ACK, 0, b"draining")
    assert peer.retired()
    assert peer.events == [Event.LIMITS, Event.RETIRED]
    [(token, failure, _)] = peer.receive(goaway(3, 11, b"too_many_pings"))
    assert token == 2
    assert failure is not None
    assert failure.kind is FailureKind.CONNECTION
    assert "did not take the request: ENHANCE_YOUR_CALM (too_many_pings)" in failure.message
    assert peer.receive(reply(3)) == [(1, None, GOOD)]
    assert not peer.finished()
    assert peer.receive(reply(1)) == [(0, None, GOOD)]
    assert peer.finished()
    assert peer.events == [Event.LIMITS, Event.RETIRED]


def test_the_last_stream_id_retires_the_connection() -> None:
    """The request on it is still answered."""
    peer = Peer(last_stream_id=3)
    peer.send()
    assert not peer.retired()
    peer.send(token=1)
    assert peer.retired()
    assert peer.receive(reply(1) + reply(3)) == [(0, None, GOOD), (1, None, GOOD)]
    assert peer.finished()


def test_the_limit_of_streams_follows_the_server() -> None:
    """Each SETTINGS is told to the owner with the limit in force."""
    peer = Peer((3, 2))
    assert (peer.engine.max_streams, peer.events) == (2, [Event.LIMITS])
    peer.receive(settings((3, 8)))
    assert (peer.engine.max_streams, peer.events) == (8, [Event.LIMITS, Event.LIMITS])


def test_the_receive_window_is_given_back() -> None:
    """Once half of it is used, padding and abandoned streams included, the server gets it back."""
    peer = Peer()
    peer.send()
    peer.engine.cancel(0)
    peer.written()
    part = frame(DATA, PADDED, 1, b"\xff" + bytes(1 << 20)[:-1])
    granted = 0
    for _ in range(1100):
        peer.receive(part)
        for kind, _, stream_id, payload in peer.frames():
            assert (kind, stream_id) == (WINDOW_UPDATE, 0)
            granted += int.from_bytes(payload, "big")
    assert granted == 2**30


def test_an_engine_ends_quietly_when_its_requests_are_forgotten() -> None:
    """After closing for good nobody is called."""
    peer = Peer()
    peer.send()
    peer.engine.forget()
    peer.engine.lost("It was lost.")
    assert peer.answers == []
    assert isinstance(peer.engine, GrpcEngine)
