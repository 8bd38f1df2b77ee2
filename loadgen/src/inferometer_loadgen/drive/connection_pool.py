"""Pool of the connections of one step."""

import asyncio
from collections import deque
from collections.abc import Sequence

from inferometer_loadgen.drive.contract import OpenConnection
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply

_AT_ONCE = 64


class ConnectionPool:
    """The connections of a step, each with an index; those to one server take turns."""

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._openers: Sequence[OpenConnection] = ()
        self.count = 0
        """Connections to each server."""
        self.connections: list[Connection] = []
        self._places: dict[int, int] = {}
        self._server_of: list[int] = []
        self.ready: list[deque[int]] = [deque() for _ in range(servers)]
        """The indices of each server's connections that had capacity when last checked."""
        self.is_ready: list[bool] = []
        """Of each index, whether it is in its server's `ready`."""
        self._seen_ns = [0] * servers

    def configure(self, openers: Sequence[OpenConnection], count: int) -> None:
        """Set how to open a connection to each server, and how many to open to each."""
        self._openers, self.count = openers, count

    async def connect(self, on_reply: OnReply, on_capacity: OnCapacity) -> None:
        """Open all connections; raises ConnectionFailedError if one fails."""
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
        """Let a connection that is not ready take its turn again if it has capacity."""
        connection = self.connections[place]
        if connection.outstanding < connection.capacity:
            self.is_ready[place] = True
            self.ready[self._server_of[place]].append(place)

    def on_reconnected(self, connection: Connection, now: int) -> bool:
        """Let a connection with new capacity take its turn; return False if it has no index yet."""
        place = self._places.get(id(connection))
        if place is None:
            return False
        self._seen_ns[self._server_of[place]] = now
        if not self.is_ready[place]:
            self.mark_ready(place)
        return True

    def begin(self, now: int) -> None:
        """Count every server as connected now."""
        self._seen_ns = [now] * self._servers

    def lost_for_ns(self, now: int) -> int:
        """Return how long the worst server has had no connection."""
        for server, connection in zip(self._server_of, self.connections, strict=True):
            if connection.connected:
                self._seen_ns[server] = now
        return now - min(self._seen_ns)

    @property
    def last_error(self) -> str:
        """Why a lost connection could not be reopened; empty if that is not known."""
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
    """Open a connection with each opener, in order, and append them to `opened`.

    Raises ConnectionFailedError if one cannot be opened; `opened` has the others then.
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
