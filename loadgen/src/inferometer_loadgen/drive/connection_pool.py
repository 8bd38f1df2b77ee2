"""Which connections are there to each server, and which of them has room for a query?"""

import asyncio
from collections import deque
from collections.abc import Sequence

from inferometer_loadgen.drive.contract import OpenConnection
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply

_AT_ONCE = 64


class ConnectionPool:
    """The connections of a step, each with a place; those to one server take turns."""

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._openers: Sequence[OpenConnection] = ()
        self.count = 0
        """Connections to each server."""
        self.connections: list[Connection] = []
        self._places: dict[int, int] = {}
        self._server_of: list[int] = []
        self.ready: list[deque[int]] = [deque() for _ in range(servers)]
        """The places of each server's connections that had room when last looked at."""
        self.is_ready: list[bool] = []
        """Of each place, whether it is in its server's `ready`."""
        self._seen_ns = [0] * servers

    def configure(self, openers: Sequence[OpenConnection], count: int) -> None:
        """Set how a connection to each server is opened, and how many to each there will be."""
        self._openers, self.count = openers, count

    async def connect(self, on_reply: OnReply, on_capacity: OnCapacity) -> None:
        """Open all connections; raises ConnectionFailedError where one fails."""
        openers = [*self._openers] * self.count
        await _open_all(openers, on_reply, on_capacity, self.connections)
        for place, connection in enumerate(self.connections):
            server = place % self._servers
            self._places[id(connection)] = place
            self._server_of.append(server)
            self.is_ready.append(True)
            self.ready[server].append(place)

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(connection.close() for connection in self.connections))

    def mark_ready(self, place: int) -> None:
        """Let a connection that is not ready take its turn again where it has room."""
        connection = self.connections[place]
        if connection.outstanding < connection.capacity:
            self.is_ready[place] = True
            self.ready[self._server_of[place]].append(place)

    def on_reconnected(self, connection: Connection, now: int) -> bool:
        """Let a connection take its turn that has more room; False where it has no place yet."""
        place = self._places.get(id(connection))
        if place is None:
            return False
        self._seen_ns[self._server_of[place]] = now
        if not self.is_ready[place]:
            self.mark_ready(place)
        return True

    def begin(self, now: int) -> None:
        """Take every server for connected now."""
        self._seen_ns = [now] * self._servers

    def lost_for_ns(self, now: int) -> int:
        """Return for how long a server has had no connection by now: the longest of all."""
        for server, connection in zip(self._server_of, self.connections, strict=True):
            if connection.connected:
                self._seen_ns[server] = now
        return now - min(self._seen_ns)

    @property
    def last_error(self) -> str:
        """Why a connection that is lost could not be opened again; empty where none tells."""
        return next((each.last_error for each in self.connections if each.last_error), "")

    @property
    def reconnects(self) -> int:
        """How often a connection was lost and opened again."""
        return sum(connection.reconnects for connection in self.connections)


async def _open_all(
    openers: Sequence[OpenConnection],
    on_reply: OnReply,
    on_capacity: OnCapacity,
    opened: list[Connection],
) -> None:
    """Open a connection by each opener, in order; `opened` takes them, also where this raises.

    Raises ConnectionFailedError where one cannot be opened.
    """
    for first in range(0, len(openers), _AT_ONCE):
        found = await asyncio.gather(
            *(open_one(on_reply, on_capacity) for open_one in openers[first : first + _AT_ONCE]),
            return_exceptions=True,
        )
        faults = []
        for connection in found:
            if isinstance(connection, BaseException):
                faults.append(connection)
            else:
                opened.append(connection)
        if faults:
            raise faults[0]
