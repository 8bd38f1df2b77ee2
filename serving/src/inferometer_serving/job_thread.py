"""A thread for jobs that would block the event loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Job = Callable[[], None]


class JobThread:
    """One thread that runs jobs in the order of submission.

    Jobs are submitted from the event loop's thread, and their results are reported there.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self.pending = 0
        """The number of jobs submitted and not yet reported."""

    def submit(
        self, call: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """Call `call` in the thread and then `done` in the event loop, with result or error."""
        self.pending += 1

        def job() -> None:
            try:
                outcome: tuple[T | None, BaseException | None] = (call(), None)
            except BaseException as error:  # noqa: BLE001 - the submitter handles it
                outcome = (None, error)
            self._loop.call_soon_threadsafe(self._end, done, *outcome)

        self._jobs.put(job)

    async def call(self, call: Callable[[], T]) -> T:
        """Return what `call` returns in the thread; not called at all if cancelled before."""
        future: asyncio.Future[T] = self._loop.create_future()

        def unless_cancelled() -> T:
            if future.cancelled():
                raise asyncio.CancelledError
            return call()

        def done(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # T itself may hold None

        self.submit(unless_cancelled, done)
        return await future

    def stop(self, timeout_seconds: float) -> bool:
        """Let the jobs given so far end; say whether they did in time."""
        self._jobs.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _end(
        self,
        done: Callable[[T | None, BaseException | None], None],
        result: T | None,
        error: BaseException | None,
    ) -> None:
        self.pending -= 1
        done(result, error)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
