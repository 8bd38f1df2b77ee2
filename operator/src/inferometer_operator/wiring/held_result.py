"""Whose result is in memory now?

A large one takes more than half of what the operator may: of all runs only one holds its result.
"""

import asyncio
from dataclasses import dataclass

from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import DownloadedResult, Json
from inferometer_operator.wiring.result_download import download_result, release_memory


@dataclass(slots=True)
class ResultDownload:
    """What one run's load pod has left, from when it is read until it is kept."""

    room: asyncio.Semaphore
    """Of all runs."""
    found: DownloadedResult | None = None
    done: bool = False
    """Whether it is kept, or will never be: nobody needs it here any more."""
    _inside: bool = False

    async def collect(self, reader: Reader, pod: Json) -> None:
        """Read the result of an ended load pod, once no other run holds one."""
        if not self._inside:
            await self.room.acquire()
            self._inside = True
        self.found = await download_result(reader, pod)
        if self.found.document is None:
            self._leave()

    def drop(self) -> None:
        """Forget the result, so that the next may be read."""
        self.found = None
        self._leave()

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            release_memory()
            self.room.release()
