"""Opens a connection, and reopens it in the background after a loss."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable

from inferometer_loadgen.wire.contract import (
    ConnectionFailedError,
    RequestTarget,
    connection_error_text,
)
from inferometer_loadgen.wire.tls import handshake_error

FIRST_DELAY_SECONDS = 0.01
LONGEST_DELAY_SECONDS = 1.0
_LIVED_SECONDS = 0.1
"""A server that keeps a connection this long has accepted it; it may close it when idle."""


async def connect(
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], target: RequestTarget
) -> None:
    """Open a transport to a target, with TLS if the target uses it; raises OSError."""
    tls = target.tls
    await loop.create_connection(
        protocol,
        target.host,
        target.port,
        ssl=None if tls is None else tls.context,
        server_hostname=None if tls is None else tls.server_name,
    )


class Dialer:
    """Opens a connection, and reopens it in the background until that succeeds.

    ``connect`` makes one attempt. ``on_reconnected`` is called after each success in the
    background, ``on_failed`` with the reason after each failure there. After an answer, or if the
    connection lived for 0.1 s, the first attempt follows at once. Else the delay doubles from
    0.01 s to 1 s, so that a server that accepts and closes at once is not flooded.
    """

    def __init__(
        self,
        target: RequestTarget,
        connect: Callable[[], Awaitable[None]],
        on_reconnected: Callable[[], None],
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        on_failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._opened_seconds = clock()
        """When it was last opened, in seconds of `clock`."""
        self._where = f"{target.host}:{target.port}"
        self._tls = target.tls
        self._connect = connect
        self._on_reconnected = on_reconnected
        self._on_failed = on_failed
        self._timeout_seconds = timeout_seconds
        self.last_error = ""
        """Why the last attempt in the background failed; empty after a success."""
        self._delay_seconds = 0.0
        self._dialing = False
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    async def dial(self) -> None:
        """Make one attempt; raises ConnectionFailedError."""
        self._dialing = True
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._connect()
            self._opened_seconds = self._clock()
        except TimeoutError:
            raise ConnectionFailedError(
                f"The connection to {self._where} was not open after {self._timeout_seconds:g} s."
            ) from None
        except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
            raise ConnectionFailedError(self._failed(error)) from error
        finally:
            self._dialing = False

    def redial(self, *, answered: bool) -> None:
        """Reopen the connection in the background, unless an attempt is under way."""
        if self._dialing or self._task is not None or self._stopped:
            return
        if answered or self._clock() - self._opened_seconds >= _LIVED_SECONDS:
            self._delay_seconds = 0.0
        self._task = asyncio.get_running_loop().create_task(self._redial())

    async def stop(self) -> None:
        """Stop for good, and cancel an attempt that is under way."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _failed(self, error: Exception) -> str:
        if self._tls is not None and isinstance(error, ssl.SSLError):
            return str(handshake_error(error, self._where, self._tls))
        why = connection_error_text(error) if isinstance(error, OSError) else str(error)
        return f"The connection to {self._where} could not be opened: {why.rstrip('.')}."

    async def _redial(self) -> None:
        while True:
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            self._delay_seconds = min(
                max(2 * self._delay_seconds, FIRST_DELAY_SECONDS), LONGEST_DELAY_SECONDS
            )
            try:
                await self.dial()
            except ConnectionFailedError as error:
                self.last_error = str(error)
                self._on_failed(self.last_error)
                continue
            break
        self._task = None
        self.last_error = ""
        self._on_reconnected()
