"""The Lease in a thread of its own, so that no work of the main loop delays a renewal."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Self, TypeVar

from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.lease import Lease, LeaseConfig, now_seconds

_Result = TypeVar("_Result")


class LeaseThread:
    """Acquires, renews and releases the Lease; an async context manager.

    The thread has an event loop and a connection of its own. The main loop may be busy for seconds,
    and its connections may wait for each other. If the main loop hangs, renewals end.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ApiConnection]],
        config: LeaseConfig,
        is_alive: Callable[[], bool],
        clock: Callable[[], float] = now_seconds,
    ) -> None:
        """Create it; the thread calls `connect` once, and `is_alive` before each renewal."""
        self._connect = connect
        self._config = config
        self._is_alive = is_alive
        self._clock = clock
        self._loop = asyncio.new_event_loop()
        # A main loop that ends by an error must not wait for it.
        self._thread = threading.Thread(target=self._loop.run_forever, name="lease", daemon=True)

    async def __aenter__(self) -> Self:
        """Start the thread and connect."""
        self._thread.start()
        try:
            self._connection = await self._run(self._open_connection())
        except BaseException:
            self._stop()
            raise
        self._lease = Lease(self._connection, self._config, self._clock, self._is_alive)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection and end the thread."""
        try:
            await self._run(self._connection.__aexit__(kind, error, trace))
        finally:
            self._stop()

    async def acquire(self) -> None:
        """Wait until this operator holds the Lease."""
        await self._run(self._lease.acquire())

    async def keep_renewed(self) -> None:
        """Renew the Lease until cancelled; raise LeaseLostError if that fails for too long."""
        await self._run(self._lease.keep_renewed())

    async def release(self) -> None:
        """Let another operator take the Lease at once."""
        await self._run(self._lease.release())

    def check_held(self) -> None:
        """Raise LeaseLostError if another operator may lead by now."""
        self._lease.check_held()

    async def _open_connection(self) -> ApiConnection:
        # The client binds to the event loop in which it is made.
        return await self._connect()

    async def _run(self, work: Coroutine[None, None, _Result]) -> _Result:
        """Run something in the thread; cancelling this cancels it there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
