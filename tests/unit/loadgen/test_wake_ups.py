"""A process that did not run when it should have counts as late."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from inferometer_loadgen.client import wake_ups
from inferometer_loadgen.client.load_client import OwnProcess
from inferometer_loadgen.client.wake_ups import LEAST, PERIOD_NS, WakeUps, lag_of
from inferometer_loadgen.record.histogram import Histogram
from inferometer_loadgen.verdict.rules.client import WAKE_UP_PERIOD_NS
from support.drills import Drill, after
from support.simulated import MILLISECOND

PERIODS = 5


async def busy() -> None:
    """Let the loop run nothing else for some periods."""
    end = time.monotonic_ns() + PERIODS * PERIOD_NS
    while time.monotonic_ns() < end:
        pass
    await asyncio.sleep(PERIOD_NS / 1e9)  # the timer, long due, comes before this


def longest_busy_ns() -> int | None:
    """Return how late a loop was that ran nothing else for some periods."""

    async def run() -> int | None:
        watched = WakeUps()
        await busy()
        return watched.end()[0]

    return asyncio.run(run())


def test_a_wake_up_is_late_by_the_busy_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first wake-up that was slept through is late by all of it but its own period."""
    monkeypatch.setattr(wake_ups, "LEAST", 1)
    assert (longest_busy_ns() or 0) >= (PERIODS - 1) * PERIOD_NS


def test_the_longest_standstill_is_reported_for_any_number_of_wake_ups() -> None:
    """The greatest lag needs no hundred others: it is how long the loop stood still."""

    async def run() -> tuple[int | None, int | None]:
        client = OwnProcess(wakes=True)
        client.begin()
        await busy()
        facts = client.facts()
        return facts.wake_up_lag_nanoseconds, facts.wake_up_lag_max_nanoseconds

    usual, most = asyncio.run(run())
    assert usual is None
    assert (most or 0) >= (PERIODS - 1) * PERIOD_NS


def test_what_was_slept_through_counts_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one late wake-up is seen but as many as were due: the median is late as well."""
    monkeypatch.setattr(wake_ups, "PERCENTILE", 50.0)
    monkeypatch.setattr(wake_ups, "LEAST", 1)
    assert (longest_busy_ns() or 0) >= (PERIODS // 2 - 1) * PERIOD_NS


def descriptors() -> int:
    """Return how many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_client_that_begins_anew_leaves_no_timer() -> None:
    """However often it begins, it has one timer, and none once its facts were read."""

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


def test_a_driver_that_is_closed_leaves_no_timer() -> None:
    """Its client may have begun, and its facts may never have been read."""
    drill = Drill(after(MILLISECOND), milli_qps=None)
    drill.run()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        drill.driver.client.begin()
        await drill.driver.close()

    before = descriptors()
    loop.run_until_complete(run())
    assert descriptors() == before
    loop.close()


def test_the_verdict_uses_the_wake_up_period() -> None:
    """A rule counts how much waiting makes one wake-up in a hundred late."""
    assert WAKE_UP_PERIOD_NS == PERIOD_NS


def test_one_late_wake_up_of_a_short_step_is_no_percentile() -> None:
    """Only where some are beyond the P99 it is not just the latest that there was."""

    def found(count: int, late: int) -> int | None:
        lags = Histogram()
        lags.add(np.array([3 * MILLISECOND] * late + [MILLISECOND // 20] * (count - late)))
        return lag_of(lags)

    assert found(0, 0) is None
    assert found(LEAST - 1, 1) is None
    assert (found(LEAST, 1) or 0) < MILLISECOND
    assert (found(LEAST, 4) or 0) >= 3 * MILLISECOND


def test_a_step_of_two_seconds_has_wake_ups_enough() -> None:
    """Steps of a sweep are no longer than that, and starved clients are found in them."""
    assert LEAST * PERIOD_NS <= 1_500_000_000
