"""The HTTP server: listens, and holds the connections until they are done."""

import asyncio
import os
import socket
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from typing import Any

from typing_extensions import override

from inferometer_serving.errors import StartRefusedError
from inferometer_serving.http.connection import ConnectionOwner, HttpConnection
from inferometer_serving.http.head import Head
from inferometer_serving.http.outbox import Outbox
from inferometer_serving.metrics import Exposition
from inferometer_serving.server_state import Phase, ServerState

_HEADS_KEPT = 1024
_RECEIVE_BYTES = 65536
_SWEEP_SECONDS = 5.0
_UNFINISHED_SECONDS = 60.0
_BACKLOG = 65535
"""More than any kernel grants: its own limit (net.core.somaxconn) holds."""


class HttpServer(ConnectionOwner):
    """Listens on one port."""

    def __init__(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self.state = state
        options = state.options
        served = (options.run_namespace, options.run, ",".join(options.model_names))
        self.exposition = Exposition(state.metrics, served, state.version)
        self.heads: dict[bytes, Head] = {}
        self.loop = loop
        self.outbox = Outbox(loop, spans=state.spans)
        self.receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._connections: set[HttpConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._drained = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> int:
        """Listen and return the port. Raises StartRefusedError if it is not available."""
        try:
            with ExitStack() as stack:
                listening = _both_families(host, port)
                where: dict[str, Any] = {"host": host, "port": port}
                if listening is not None:
                    stack.callback(listening.close)
                    where = {"sock": listening}
                self._server = await self.loop.create_server(
                    lambda: HttpConnection(self), backlog=_BACKLOG, **where
                )
                stack.pop_all()
        except OSError as error:
            raise port_refused("HTTP", "--http-port", host, port, error) from error
        self._sweep()
        first: socket.socket = self._server.sockets[0]
        return int(first.getsockname()[1])

    async def drain(self) -> None:
        """Accept nothing more, and return once every request that has begun is answered."""
        if self._server is not None:
            self._server.close()
        self._notice_drained()
        await self._drained.wait()

    async def close(self, timeout_seconds: float) -> None:
        """End every connection once its answers are sent, or after the time-out."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in self._connections.copy():
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._empty.wait()
        for connection in self._connections.copy():
            connection.abort()

    @override
    def keep_head(self, raw_head: bytes, head: Head) -> None:
        if len(self.heads) >= _HEADS_KEPT:
            self.heads.clear()
        self.heads[raw_head] = head

    @override
    def opened(self, connection: HttpConnection) -> None:
        self._connections.add(connection)
        self._empty.clear()

    @override
    def closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()
        if self.state.phase is Phase.DRAINING:
            self._notice_drained()

    @override
    def begin(self, work: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)  # the loop itself holds it but weakly
        task.add_done_callback(self._tasks.discard)

    def _notice_drained(self) -> None:
        if not any(each.is_busy for each in self._connections):
            self._drained.set()

    def _sweep(self) -> None:
        """End connections whose request began and does not come to its end."""
        oldest = self.loop.time() - _UNFINISHED_SECONDS
        for each in self._connections.copy():
            if each.waiting_since is not None and each.waiting_since < oldest:
                each.time_out()
        self._sweep_timer = self.loop.call_later(_SWEEP_SECONDS, self._sweep)


def _both_families(host: str, port: int) -> socket.socket | None:
    """Return a socket for IPv6 and IPv4 where the host is ::, as gRPC takes it; else None."""
    if host != "::" or not socket.has_dualstack_ipv6():
        return None
    return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)


def port_refused(
    protocol: str, flag: str, host: str, port: int, error: Exception
) -> StartRefusedError:
    """Return the error for a port that cannot be listened on."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        reason = os.strerror(error.errno or 0)  # asyncio's text has the address again
    return StartRefusedError(
        f"Cannot listen on port {port} of {host} for {protocol} ({flag}): {reason}. "
        "Stop the process that uses it, or set another port; 0 selects a free one."
    )
