"""Whose result is in memory now?

A large one takes more than half of what the operator may: of all runs only one holds its result.
"""

import asyncio
from dataclasses import dataclass

from inferometer_operator.cluster.reading import Reader
from inferometer_operator.reconcile.observed import Collected, Json
from inferometer_operator.wiring.result_log import collected, give_back_memory


@dataclass(slots=True)
class HeldResult:
    """What one run's load pod has left, from when it is read until it is kept."""

    room: asyncio.Semaphore
    """Of all runs."""
    found: Collected | None = None
    done: bool = False
    """Whether it is kept, or will never be: nobody needs it here any more."""
    _inside: bool = False

    async def collect(self, reader: Reader, pod: Json) -> None:
        """Read the result of an ended load pod, once no other run holds one."""
        if not self._inside:
            await self.room.acquire()
            self._inside = True
        self.found = await collected(reader, pod)
        if self.found.document is None:
            self._leave()

    def drop(self) -> None:
        """Forget the result, so that the next may be read."""
        self.found = None
        self._leave()

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            give_back_memory()
            self.room.release()
