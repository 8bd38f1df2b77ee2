"""How are many connections opened, not all at the same moment?"""

import asyncio
from collections.abc import Sequence

from inferometer_loadgen.drive.contract import OpenConnection
from inferometer_loadgen.wire import Connection, OnCapacity, OnReply

_AT_ONCE = 64


async def open_all(
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
