"""The server keeps connections that arrive all at once while it is busy."""

import resource
import select
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from support import onnx_models
from support.requirements import cannot_run
from support.serving_process import serving
from support.waiting import DEADLINE_SECONDS

CONNECTIONS = 1500
_OTHER_FILES = 200
_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
_CONNECT_SECONDS = 60.0
"""The server stays stopped, so a connection without room in its queue never succeeds."""


def test_simultaneous_connections_are_accepted(tmp_path: Path) -> None:
    """A server that cannot accept just now loses none of 1,500 connections, and answers each."""
    if not _SOMAXCONN.exists() or int(_SOMAXCONN.read_text()) < CONNECTIONS:
        cannot_run(f"this kernel lets fewer than {CONNECTIONS} connections wait (somaxconn)")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < CONNECTIONS + _OTHER_FILES:
        cannot_run(f"this process may not open {CONNECTIONS} connections (ulimit -n)")
    model = onnx_models.save(onnx_models.add(), tmp_path / "add.onnx")
    with ExitStack() as stack:
        server = stack.enter_context(serving(model, "--http-port", "0", "--grpc-port", "0"))
        server.signal(signal.SIGSTOP)
        stack.callback(server.signal, signal.SIGCONT)
        clients = [stack.enter_context(_connecting(server.http_port)) for _ in range(CONNECTIONS)]
        assert _unconnected(clients) == 0
        server.signal(signal.SIGCONT)
        for client in clients:
            client.settimeout(DEADLINE_SECONDS)
            client.sendall(_REQUEST)
        for client in clients:
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")


def _connecting(port: int) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    return client


def _unconnected(clients: list[socket.socket]) -> int:
    """Return the number of clients without a connection at the deadline."""
    poller = select.poll()
    waiting = {client.fileno() for client in clients}
    for descriptor in waiting:
        poller.register(descriptor, select.POLLOUT)
    until = time.monotonic() + _CONNECT_SECONDS
    while waiting and (left := until - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(left * 1000):
            waiting.discard(descriptor)
            poller.unregister(descriptor)
    return len(waiting)
