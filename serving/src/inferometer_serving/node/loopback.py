"""Round trips and bandwidth of TCP over loopback, between two processes."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError, figure, seconds_of

_HOST = "127.0.0.1"
_MESSAGE_BYTES = 64
_ROUND_TRIPS = 500
_REPEATS = 7
_CHUNK_BYTES = 1 << 18
_CHUNKS = 512
_ECHO, _COUNT = b"e", b"c"
_TIMEOUT_SECONDS = 10.0


def loopback_probes() -> Iterator[NodeProbe]:
    """Yield the probe of a connection."""
    yield NodeProbe("loopback", _measured, ("loopback/roundTrip", "loopback/bandwidth"))


def _measured() -> list[NodeFigure]:
    with _peer() as port:
        trips = [_round_trip_ns(port) for _ in range(_REPEATS)]
        rates = [_bandwidth(port) for _ in range(_REPEATS)]
    return [
        figure("loopback/roundTrip", "ns", trips, {"bytes": _MESSAGE_BYTES}),
        figure("loopback/bandwidth", "bytes/s", rates, {"chunkBytes": _CHUNK_BYTES}),
    ]


@contextmanager
def _peer() -> Iterator[int]:
    command = [sys.executable, "-m", "inferometer_serving.node.loopback"]
    peer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        line = "" if peer.stdout is None else peer.stdout.readline()
        if not line:
            raise NotMeasurableError("the other process of the benchmark did not start")
        yield int(line)
    finally:
        peer.kill()
        peer.communicate()


def _connected(port: int, manner: bytes) -> socket.socket:
    found = socket.create_connection((_HOST, port), _TIMEOUT_SECONDS)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.sendall(manner)
    return found


def _round_trip_ns(port: int) -> float:
    """Return the median of many round trips of a small message."""
    message = bytes(_MESSAGE_BYTES)
    with _connected(port, _ECHO) as connection:

        def trip() -> None:
            connection.sendall(message)
            _read(connection, _MESSAGE_BYTES)

        trip()
        return median(seconds_of(trip) for _ in range(_ROUND_TRIPS)) * 1e9


def _bandwidth(port: int) -> float:
    chunk = bytes(_CHUNK_BYTES)
    with _connected(port, _COUNT) as connection:

        def send() -> None:
            for _ in range(_CHUNKS):
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_WR)
            _read(connection, 1)  # the other end has all

        return _CHUNKS * _CHUNK_BYTES / seconds_of(send)


def _read(connection: socket.socket, count: int) -> None:
    while count:
        found = connection.recv(count)
        if not found:
            raise NotMeasurableError("the other process of the benchmark closed its connection")
        count -= len(found)


def _serve() -> None:
    """Echo, or count what comes, as the first byte of each connection says."""
    buffer = bytearray(_CHUNK_BYTES)
    with socket.create_server((_HOST, 0)) as server:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            connection, _ = server.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                is_echo = connection.recv(1) == _ECHO
                while count := connection.recv_into(buffer):
                    if is_echo:
                        connection.sendall(memoryview(buffer)[:count])
                if not is_echo:
                    connection.sendall(b"!")


if __name__ == "__main__":
    _serve()
