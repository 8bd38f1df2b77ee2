"""Download of a run's result from the log of its load pod, one run at a time.

A large result takes some megabytes, so that one run alone holds its own. No run holds it while it
waits for the cluster.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from pydantic import ValidationError

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.results.gzip_members import IncompleteError
from inferometer_api.results.reading import UnreadableDocumentError, read_result
from inferometer_api.results.result_transport import LogDecoder, LoggedResult, TooLargeError
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import LOG_SETTLED_SECONDS, Reader
from inferometer_operator.reconcile.observed import DownloadedResult, Json
from inferometer_operator.reconcile.result_packer import ReceivedResult

_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""After each attempt that failed; the last one again and again."""
_HOLD_SECONDS = 1.0
"""The longest pause over which a run keeps its result in memory."""


@dataclass(slots=True)
class ResultDownload:
    """The result of one run, from its download until it is kept."""

    slot: asyncio.Semaphore
    """Shared by all runs."""
    clock: Callable[[], float] = time.monotonic
    found: DownloadedResult | None = None
    done: bool = False
    """Whether the result is kept, or never will be: the download is needed no longer."""
    _holds_slot: bool = False
    _failures: int = 0
    _due: float = 0.0
    _fault: str = ""
    """The last fault, since `_since`."""
    _since: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether to try to download now."""
        return self.found is None or (self.found.passing and self.clock() >= self._due)

    @property
    def must_wait(self) -> bool:
        """Whether another run holds its result in memory."""
        return self.slot.locked() and not self._holds_slot

    @property
    def next_seconds(self) -> float | None:
        """Seconds until the next attempt, or None if nothing failed."""
        if self.found is None or not self.found.passing or self.done:
            return None
        return max(0.1, self._due - self.clock())

    async def download(self, reader: Reader, pod: Json) -> None:
        """Try once to download the result of an ended load pod; wait while another run holds one.

        `found` is the result then, or why there is none, and whether another attempt may find it.
        """
        if not self._holds_slot:
            await self.slot.acquire()
            self._holds_slot = True
        try:
            self.found = await download_result(reader, pod)
        finally:
            if self.found is None or self.found.result is None:
                self._release_slot()
        if self.found.result is None:
            self.found = self._note_failure(self.found)
        else:
            self._failures = 0

    def release(self, pause_seconds: float | None) -> None:
        """Forget the result before a pause: for good if it is done, else if the pause is long."""
        holds = self.found is not None and self.found.result is not None
        if self.done or (holds and (pause_seconds is None or pause_seconds > _HOLD_SECONDS)):
            self.drop()

    def drop(self) -> None:
        """Forget the result, so that the next run can download its own."""
        self.found = None
        self._release_slot()

    def _note_failure(self, found: DownloadedResult) -> DownloadedResult:
        """Return a failed attempt with whether it may pass; the next one is due after a pause."""
        now = self.clock()
        if found.fault != self._fault:
            self._fault, self._since = found.fault, now
        self._due = now + _PAUSES_SECONDS[min(self._failures, len(_PAUSES_SECONDS) - 1)]
        self._failures += 1
        if found.reason == "ResultIncomplete" and now < self._since + LOG_SETTLED_SECONDS:
            return replace(found, passing=True)
        return found

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self.slot.release()


async def download_result(reader: Reader, pod: Json) -> DownloadedResult:
    """Return the result in the log of an ended load pod, or why there is none."""
    metadata = pod["metadata"]
    container = pod["spec"]["containers"][0]["name"]
    decoder = LogDecoder()
    log = reader.stream_log(metadata["namespace"], metadata["name"], container)
    try:
        # What is no part of a result is dropped as it arrives: a log may be long.
        async with aclosing(log):
            async for piece in log:
                if not decoder.feed(piece):
                    break
        logged = decoder.finish()
    except (ApiError, ApiUnreachableError) as error:
        # Whatever it is passes: a kubelet that starts does not know its pods yet.
        message = f"Cannot read the log of pod {metadata['name']}: {error}"
        return DownloadedResult(None, message, "ResultLost", passing=True)
    except IncompleteError as error:
        return DownloadedResult(None, str(error))
    except TooLargeError as error:
        return DownloadedResult(None, str(error), "ResultTooLarge")
    return parse_result(logged)


def parse_result(logged: LoggedResult) -> DownloadedResult:
    """Return a result with what the operator needs of it parsed, or why it cannot be read."""
    try:
        head = read_result(logged.head, source="The result in the log").document
        scenarios = LoadReport.read_json(logged.report).scenarios
    except UnreadableDocumentError as error:
        return DownloadedResult(None, str(error))
    except ValidationError:
        return DownloadedResult(None, "The result in the log has no readable report.")
    return DownloadedResult(ReceivedResult(head, tuple(scenarios), logged.body_gz))
