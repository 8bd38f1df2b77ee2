"""Flow control: both send windows are exact to the byte, whatever is blocked."""

from hypothesis import given
from hypothesis import strategies as st

from support.wire_bytes import (
    DATA,
    END_STREAM,
    HEADERS,
    RST_STREAM,
    failed_reply,
    message,
    settings,
    window_update,
)
from support.wire_peer import Peer


def data_frames(peer: Peer) -> list[tuple[int, int, int]]:
    """Return the (stream, bytes, END_STREAM) of the DATA frames that are written now."""
    return [
        (stream_id, len(payload), flags & END_STREAM)
        for kind, flags, stream_id, payload in peer.frames()
        if kind == DATA
    ]


def test_a_body_is_cut_to_the_servers_frames() -> None:
    """Frames are as long as the server allows, and the last one ends the stream."""
    peer = Peer()
    peer.send(bytes(40_000))
    assert data_frames(peer) == [(1, 16_384, 0), (1, 16_384, 0), (1, 40_005 - 32_768, 1)]


def test_larger_frames_are_used_if_the_server_allows_them() -> None:
    """One frame carries as much as the windows allow."""
    peer = Peer((5, 1 << 20), (4, 1 << 20))
    peer.send(bytes(50_000))
    assert data_frames(peer) == [(1, 50_005, 1)]


def test_a_blocked_stream_is_skipped() -> None:
    """A stream without window does not block those behind it, and continues when it gets some."""
    peer = Peer((4, 10))
    peer.send(b"x" * 20)
    peer.send(b"y" * 5)
    assert data_frames(peer) == [(1, 10, 0), (3, 10, 1)]
    peer.receive(window_update(1, 14))
    assert data_frames(peer) == [(1, 14, 0)]
    peer.receive(window_update(1, 100))
    assert data_frames(peer) == [(1, 1, 1)]


def test_the_connections_window_is_served_first_come_first_served() -> None:
    """When the whole connection is blocked, the oldest body continues first."""
    peer = Peer((4, 1 << 20))
    peer.send(bytes(65_000))
    peer.send(bytes(1_000))
    peer.send(b"")
    written = data_frames(peer)
    assert written[-2:] == [(1, 65_005 - 3 * 16_384, 1), (3, 65_535 - 65_005, 0)]
    peer.receive(window_update(0, 475))
    assert data_frames(peer) == [(3, 475, 1)]
    peer.receive(window_update(0, 5))
    assert data_frames(peer) == [(5, 5, 1)]


def test_small_bodies_use_the_connections_window_too() -> None:
    """A body sent at once, with its headers, counts like one that had to wait."""
    peer = Peer((4, 1 << 20))
    for _ in range(10):
        peer.send(bytes(10_000))
    assert sum(size for _, size, _ in data_frames(peer)) == 65_535


def test_a_smaller_window_makes_those_of_open_streams_negative() -> None:
    """After SETTINGS shrinks a window below zero, its stream waits until it is positive again."""
    peer = Peer((4, 10))
    peer.send(b"x" * 20)
    peer.written()
    peer.receive(settings((4, 4)), window_update(1, 6))
    assert data_frames(peer) == []
    peer.receive(window_update(1, 1))
    assert data_frames(peer) == [(1, 1, 0)]


def test_the_rest_of_a_body_is_dropped_after_its_reply() -> None:
    """When a server answers early, the client resets the stream and drops the rest of the body."""
    peer = Peer((4, 10))
    peer.send(b"x" * 20)
    peer.written()
    [(_, failure, _)] = peer.receive(failed_reply(1, (b"grpc-status", b"8")))
    assert failure is not None
    assert [(kind, stream_id) for kind, _, stream_id, _ in peer.frames()] == [(RST_STREAM, 1)]
    peer.receive(window_update(1, 100))
    assert data_frames(peer) == []


sizes = st.one_of(st.integers(0, 40), st.integers(0, 100_000))
steps = st.one_of(
    st.tuples(st.just("send"), sizes),
    st.tuples(st.just("connection"), st.integers(1, 70_000)),
    st.tuples(st.just("stream"), st.integers(1, 70_000)),
    st.tuples(st.just("initial"), sizes),
    st.tuples(st.just("frames"), st.integers(16_384, 40_000)),
)


@given(st.lists(steps, max_size=25))
def test_no_window_is_ever_overdrawn_and_all_bodies_arrive(plan: list[tuple[str, int]]) -> None:
    """A server with its own accounting never sees a byte that it did not allow."""
    peer = Peer()
    server = _Accounts()
    for step, amount in plan:
        match step:
            case "send":
                peer.send(b"%d" % amount * (amount // 4))
                server.expect(amount)
            case "connection":
                server.connection += amount
                peer.receive(window_update(0, amount))
            case "stream" if server.open:
                server.windows[server.open[0]] += amount
                peer.receive(window_update(server.open[0], amount))
            case "initial":
                server.set_initial(amount)
                peer.receive(settings((4, amount)))
            case "frames":
                server.frame_bytes = amount
                peer.receive(settings((5, amount)))
            case _:
                pass  # no stream is open yet
        server.check(peer.frames())
    for stream_id in server.open:
        peer.receive(window_update(stream_id, 10_000_000))
    peer.receive(window_update(0, 100_000_000))
    server.connection += 100_000_000
    server.windows = dict.fromkeys(server.windows, 10_000_000)
    server.check(peer.frames())
    assert peer.engine.broken is None
    assert server.bodies == server.expected


class _Accounts:
    """A server's view of the windows, and the bodies that it received."""

    def __init__(self) -> None:
        self.connection = self.initial = 65_535
        self.frame_bytes = 16_384
        self.windows: dict[int, int] = {}
        self.expected: list[bytes] = []
        self.bodies: list[bytes] = []
        self.open: list[int] = []

    def expect(self, amount: int) -> None:
        self.windows[2 * len(self.expected) + 1] = self.initial
        self.expected.append(message(b"%d" % amount * (amount // 4)))

    def set_initial(self, size: int) -> None:
        for stream_id in self.windows:
            self.windows[stream_id] += size - self.initial
        self.initial = size

    def check(self, written: list[tuple[int, int, int, bytes]]) -> None:
        for kind, flags, stream_id, payload in written:
            if kind == HEADERS:
                assert stream_id == 2 * len(self.bodies) + 1
                self.bodies.append(b"")
                self.open.append(stream_id)
            if kind == DATA:
                assert stream_id in self.open
                assert len(payload) <= self.frame_bytes
                self.bodies[stream_id // 2] += payload
                self.connection -= len(payload)
                self.windows[stream_id] -= len(payload)
                assert self.connection >= 0
                assert self.windows[stream_id] >= 0
                if flags & END_STREAM:
                    self.open.remove(stream_id)
