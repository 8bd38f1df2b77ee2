"""Waits for conditions that have no event of their own."""

import asyncio
import queue
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Protocol, TypeVar

_Result = TypeVar("_Result")
DEADLINE_SECONDS = 60.0
"""Far above what anything takes: a test that reaches it has failed."""
_LONGEST_POLL_SECONDS = 0.5


class Program(Protocol):
    """A process that something else needs."""

    name: str

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    def wait(self) -> int:
        """Wait for its end and return its exit code."""

    def tail(self) -> str:
        """Return the end of its log."""


def wait_until(
    true: Callable[[], bool],
    what: str,
    needs: Sequence[Program] = (),
    deadline_seconds: float = DEADLINE_SECONDS,
    poll_seconds: float = 0.05,
) -> None:
    """Wait until `true()`; TimeoutError past the deadline or as soon as a needed process ends.

    The longer it has waited, the more seldom it looks: a look at a cluster costs what others need.
    """
    began = time.monotonic()
    end = began + deadline_seconds
    while not true():
        for process in needs:
            if not process.running:
                raise TimeoutError(
                    f"{what} was waited for, and {process.name} ended with {process.wait()}:"
                    f" {process.tail()}"
                )
        if time.monotonic() > end:
            logs = "".join(f"\n{process.name}: {process.tail()}" for process in needs)
            raise TimeoutError(f"{what} was waited for during {deadline_seconds:g} s.{logs}")
        waited = time.monotonic() - began
        time.sleep(max(poll_seconds, min(_LONGEST_POLL_SECONDS, 0.05 * waited)))


def wait_for_event(
    event: threading.Event, what: str, deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Wait until an event is set; TimeoutError past the deadline."""
    if not event.wait(deadline_seconds):
        raise TimeoutError(f"{what} was waited for during {deadline_seconds:g} s.")


def join_thread(
    thread: threading.Thread, what: str, deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Wait until a thread has ended; TimeoutError past the deadline."""
    thread.join(deadline_seconds)
    if thread.is_alive():
        raise TimeoutError(f"{what} was waited for during {deadline_seconds:g} s.")


def result_of(future: Future[_Result], what: str) -> _Result:
    """Wait for the result of a future and return it; TimeoutError past the deadline."""
    try:
        return future.result(DEADLINE_SECONDS)
    except TimeoutError as error:
        if future.done():
            raise
        raise TimeoutError(f"{what} was waited for during {DEADLINE_SECONDS:g} s.") from error


def next_of(results: queue.Queue[_Result], what: str) -> _Result:
    """Wait for the next entry of a queue and return it; TimeoutError past the deadline."""
    try:
        return results.get(timeout=DEADLINE_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"{what} was waited for during {DEADLINE_SECONDS:g} s.") from None


def reply_of(connection: HTTPConnection, what: str) -> HTTPResponse:
    """Wait for the reply to a request and return it; TimeoutError past its deadline."""
    try:
        return connection.getresponse()
    except TimeoutError as error:
        raise TimeoutError(f"{what} was waited for during {connection.timeout} s.") from error


@contextmanager
def killed_at_deadline(process: "subprocess.Popen[Any]", what: str) -> Iterator[None]:
    """Give a block that reads from a process the deadline; TimeoutError past it."""
    expired = threading.Event()

    def end() -> None:
        expired.set()
        process.kill()

    limit = threading.Timer(DEADLINE_SECONDS, end)
    limit.start()
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        if not expired.is_set():
            raise
        failure = error
    finally:
        limit.cancel()
    if expired.is_set():
        raise TimeoutError(f"{what} was waited for during {DEADLINE_SECONDS:g} s.") from failure


@asynccontextmanager
async def within_deadline(what: str) -> AsyncIterator[None]:
    """Give a block that waits for something the deadline; TimeoutError past it."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS) as waiting:
            yield
    except TimeoutError as error:
        if not waiting.expired():
            raise
        raise TimeoutError(f"{what} was waited for during {DEADLINE_SECONDS:g} s.") from error


async def until(true: Callable[[], bool], what: str) -> None:
    """Wait until `true()` while the loop goes on; TimeoutError past the deadline."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} was waited for during {DEADLINE_SECONDS:g} s.")
        await asyncio.sleep(0.001)
