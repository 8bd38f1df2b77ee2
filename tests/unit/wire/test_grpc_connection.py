"""gRPC over HTTP/2: events that concern the connection and all requests on it."""

import pytest

from inferometer_loadgen.wire.contract import FailureKind, ReplyBody
from inferometer_loadgen.wire.grpc import reply as grpc_reply
from inferometer_loadgen.wire.grpc.engine import GrpcEngine
from inferometer_loadgen.wire.grpc.http2_client import ConnectionEvent
from support.wire_bytes import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    goaway,
    reply,
    settings,
    split_frames,
    window_update,
)
from support.wire_peer import Peer, request

GOOD = ReplyBody(b"fine", None)


@pytest.mark.parametrize(
    ("wire", "code", "sentence"),
    [
        pytest.param(reply(5), 1, "stream 5, never opened", id="a stream never opened"),
        pytest.param(frame(DATA, 0, 2, b"x"), 1, "stream 2", id="a stream of the server"),
        pytest.param(frame(RST_STREAM, 0, 9, bytes(4)), 1, "stream 9", id="reset, never opened"),
        pytest.param(frame(RST_STREAM, 0, 1, bytes(3)), 6, "3 bytes long", id="short reset"),
        pytest.param(frame(PING, 0, 0, b"short"), 6, "5 bytes long instead of 8", id="short PING"),
        pytest.param(frame(PING, 0, 1, bytes(8)), 1, "came on stream 1", id="PING on a stream"),
        pytest.param(frame(GOAWAY, 0, 0, b"1234"), 6, "GOAWAY", id="short GOAWAY"),
        pytest.param(
            frame(SETTINGS, 0, 0, b"12345"), 6, "not a multiple of 6", id="short SETTINGS"
        ),
        pytest.param(frame(SETTINGS, ACK, 0, b"123456"), 6, "holds settings", id="full ACK"),
        pytest.param(settings((4, 2**31)), 3, "2147483648", id="a window too large"),
        pytest.param(settings((5, 1)), 1, "MAX_FRAME_SIZE is 1", id="frames too small"),
        pytest.param(window_update(0, 0), 1, "0 bytes", id="a window that does not grow"),
        pytest.param(window_update(0, 2**31 - 1), 3, "past 2147483647", id="a window too wide"),
        pytest.param(frame(PUSH_PROMISE, 4, 1, bytes(8)), 1, "pushed", id="push"),
        pytest.param(frame(HEADERS, 4, 1, b"\xbe"), 9, "entry 62", id="a header table"),
    ],
)
def test_a_protocol_error_fails_all_requests_and_sends_goaway(
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
    assert peer.events == [ConnectionEvent.LIMITS, ConnectionEvent.RETIRED]
    assert peer.receive(wire, reply(1)) == []
    assert peer.written() == b""


def test_pings_are_answered_with_the_next_write() -> None:
    """The answer and the next request are written together, in order; a PING ACK gets no answer."""
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


def test_only_the_answer_to_a_ping_can_wait_for_the_next_request() -> None:
    """No other output waits; on a connection that the server closes, none waits."""

    def can_wait(*received: bytes) -> bool:
        peer = Peer()
        peer.written()
        peer.receive(b"".join(received))
        return peer.engine.can_wait

    ping = frame(PING, 0, 0, b"12345678")
    assert can_wait(ping)
    assert not can_wait()
    assert not can_wait(frame(SETTINGS, 0, 0, b""))
    assert not can_wait(ping, frame(SETTINGS, 0, 0, b""))
    assert not can_wait(goaway(2**31 - 1), ping)


def test_a_cancelled_request_is_reset_and_never_answered() -> None:
    """Its late reply is ignored, other requests continue, and a second cancel finds nothing."""
    peer = Peer()
    peer.send(token=5)
    peer.send(token=6)
    peer.written()
    assert peer.engine.cancel(5) == ""
    assert peer.engine.cancel(5) is None
    assert peer.written() == frame(RST_STREAM, 0, 1, b"\x00\x00\x00\x08")
    assert peer.receive(reply(1) + reply(3)) == [(6, None, GOOD)]


@pytest.mark.parametrize(
    ("received", "clause"),
    [
        (0, ""),
        (1, "only its headers had arrived"),
        (2, "its message lacked 3 bytes"),
        (3, "its trailers were missing"),
    ],
)
def test_cancel_returns_what_had_arrived_of_the_reply(received: int, clause: str) -> None:
    """A query that times out reports which part of its reply had arrived."""
    headers, data, _ = split_frames(reply(1))
    body = data[3]
    parts = [
        frame(HEADERS, headers[1], 1, headers[3]),
        frame(DATA, 0, 1, body[:-3]),
        frame(DATA, 0, 1, body[-3:]),
    ]
    peer = Peer()
    peer.send()
    assert peer.receive(*parts[:received]) == []
    assert peer.engine.cancel(0) == clause


def test_cancel_reports_a_request_that_flow_control_held_back() -> None:
    """The server never received it whole, so no answer was missing."""
    peer = Peer((4, 10))
    peer.send(100 * b"x")
    assert "held back a part of the request" in (peer.engine.cancel(0) or "")


def test_an_overlong_message_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message longer than the limit is counted and dropped."""
    monkeypatch.setattr(grpc_reply, "MAX_BUFFERED_REPLY_BYTES", 3)
    peer = Peer()
    peer.send()
    assert peer.receive(reply(1)) == [(0, None, None)]


def test_two_goaways_close_a_connection_gracefully() -> None:
    """The first only stops new streams; the second fails the requests not taken."""
    peer = Peer()
    for token in range(3):
        peer.send(token=token)
    peer.written()
    assert peer.receive(goaway(2**31 - 1) + frame(PING, 0, 0, b"draining")) == []
    assert peer.written() == frame(PING, ACK, 0, b"draining")
    assert peer.retired()
    assert peer.events == [ConnectionEvent.LIMITS, ConnectionEvent.RETIRED]
    [(token, failure, _)] = peer.receive(goaway(3, 11, b"too_many_pings"))
    assert token == 2
    assert failure is not None
    assert failure.kind is FailureKind.CONNECTION
    assert "did not take the request: ENHANCE_YOUR_CALM (too_many_pings)" in failure.message
    assert peer.receive(reply(3)) == [(1, None, GOOD)]
    assert not peer.finished()
    assert peer.receive(reply(1)) == [(0, None, GOOD)]
    assert peer.finished()
    assert peer.events == [ConnectionEvent.LIMITS, ConnectionEvent.RETIRED]


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
    """Each SETTINGS reaches the owner with the limit in force."""
    peer = Peer((3, 2))
    assert (peer.engine.max_streams, peer.events) == (2, [ConnectionEvent.LIMITS])
    peer.receive(settings((3, 8)))
    assert (peer.engine.max_streams, peer.events) == (
        8,
        [ConnectionEvent.LIMITS, ConnectionEvent.LIMITS],
    )


def test_the_receive_window_is_returned() -> None:
    """Half of it used, padding and cancelled streams included, the client returns it."""
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
    """After close, no callback is called."""
    peer = Peer()
    peer.send()
    peer.engine.forget()
    peer.engine.fail_outstanding("It was lost.")
    assert peer.answers == []
    assert isinstance(peer.engine, GrpcEngine)
