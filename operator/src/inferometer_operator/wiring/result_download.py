"""Download of a run's result from the log of its load pod, one run at a time.

A large result takes more than half of the operator's memory, so that one run alone holds its own.
"""

import asyncio
import ctypes
import gc
from dataclasses import dataclass

from inferometer_api.results.reading import UnreadableResultError, read_result
from inferometer_api.results.result_transport import IncompleteError, TooLargeError, decode_log
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import DownloadedResult, Json

_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""A container counts as ended before its runtime has written the last lines of the log."""


@dataclass(slots=True)
class ResultDownload:
    """The result of one run, from its download until it is kept."""

    slot: asyncio.Semaphore
    """Shared by all runs."""
    found: DownloadedResult | None = None
    done: bool = False
    """Whether the result is kept, or never will be: the download is needed no longer."""
    _holds_slot: bool = False

    async def download(self, reader: Reader, pod: Json) -> None:
        """Download the result from an ended load pod, once no other run holds one."""
        if not self._holds_slot:
            await self.slot.acquire()
            self._holds_slot = True
        self.found = await download_result(reader, pod)
        if self.found.document is None:
            self._release_slot()

    def drop(self) -> None:
        """Forget the result, so that the next run can download its own."""
        self.found = None
        self._release_slot()

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            _release_memory()
            self.slot.release()


async def download_result(reader: Reader, pod: Json) -> DownloadedResult:
    """Return the result in the log of an ended load pod; retry while the log is incomplete."""
    found = await _read_result(reader, pod)
    for pause_seconds in _PAUSES_SECONDS:
        if found.document is not None or found.reason == "ResultTooLarge":
            break
        await asyncio.sleep(pause_seconds)
        found = await _read_result(reader, pod)
    return found


async def _read_result(reader: Reader, pod: Json) -> DownloadedResult:
    metadata = pod["metadata"]
    container = pod["spec"]["containers"][0]["name"]
    try:
        lines = await reader.read_log(metadata["namespace"], metadata["name"], container)
    except (ApiError, UnreachableError) as error:
        message = f"Cannot read the log of pod {metadata['name']}: {error}"
        return DownloadedResult(None, message, "ResultLost")
    # Several megabytes: parsed in a thread, so that the event loop continues.
    found = await asyncio.to_thread(_parse_result, lines)
    lines.clear()
    return found


def _parse_result(lines: list[str]) -> DownloadedResult:
    try:
        document = decode_log(lines)
        return DownloadedResult(read_result(document, source="The result in the log").document)
    except (IncompleteError, UnreadableResultError) as error:
        return DownloadedResult(None, str(error))
    except TooLargeError as error:
        return DownloadedResult(None, str(error), "ResultTooLarge")


def _release_memory() -> None:
    """Return the memory of a document to the system: the operator may idle for days."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
