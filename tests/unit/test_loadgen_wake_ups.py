"""Is a process that did not run when it should have seen as late?"""

import asyncio
import time
from pathlib import Path

import pytest

from inferometer_loadgen.client import wake_ups
from inferometer_loadgen.client.client import OwnProcess
from inferometer_loadgen.client.wake_ups import PERIOD_NS, WakeUps

PERIODS = 5


def kept_busy() -> int | None:
    """Return how late a loop was that ran nothing else for some periods."""

    async def run() -> int | None:
        watched = WakeUps()
        end = time.monotonic_ns() + PERIODS * PERIOD_NS
        while time.monotonic_ns() < end:
            pass
        await asyncio.sleep(PERIOD_NS / 1e9)  # the timer, long due, comes before this
        return watched.end()

    return asyncio.run(run())


def test_a_busy_loop_is_as_late_as_it_was_busy() -> None:
    """The first wake-up that was slept through is late by all of it but its own period."""
    assert (kept_busy() or 0) >= (PERIODS - 1) * PERIOD_NS


def test_what_was_slept_through_counts_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one late wake-up is seen but as many as were due: the median is late as well."""
    monkeypatch.setattr(wake_ups, "PERCENTILE", 50.0)
    assert (kept_busy() or 0) >= (PERIODS // 2 - 1) * PERIOD_NS


def test_a_client_that_begins_anew_leaves_no_timer() -> None:
    """However often it begins, it has one timer, and none once it has told its facts."""

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def run() -> tuple[int, ...]:
        client = OwnProcess(wakes=True)
        before = descriptors()
        client.begin()
        begun = descriptors() - before
        client.begin()
        again = descriptors() - before
        client.facts()
        return begun, again, descriptors() - before

    assert asyncio.run(run()) == (1, 1, 0)


def test_a_watch_that_ends_at_once_knows_nothing() -> None:
    """Without a wake-up there is no lag."""

    async def run() -> int | None:
        return WakeUps().end()

    assert asyncio.run(run()) is None
