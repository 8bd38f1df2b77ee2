"""How late is this process when a moment comes at which it should run?

A timer of its own asks, since a closed loop has no schedule to be late at: a reply that comes then
is taken up as late as the timer is.
"""

import asyncio
import time
from array import array

import numpy as np

from inferometer_loadgen.client.pace import TimerPacer
from inferometer_loadgen.record.histogram import Histogram

PERIOD_NS = 5_000_000
PERCENTILE = 99.0
LEAST = 300
"""Of fewer wake-ups, fewer than three are beyond the P99: it would tell of one that was late."""
_BLOCK = 512


class WakeUps:
    """Wakes 200 times a second from its making on, within a running event loop."""

    def __init__(self) -> None:
        self._late = Histogram()
        self._gathered = array("q")
        self._pacer = TimerPacer(asyncio.get_running_loop(), self._on_wake, lead_ns=0)
        self._due_ns = time.monotonic_ns() + PERIOD_NS
        self._pacer.arm(self._due_ns)

    def _on_wake(self) -> None:
        now = time.monotonic_ns()
        # Those that were slept through are late as well, each by less.
        self._gathered.extend(range(now - self._due_ns, -1, -PERIOD_NS))
        self._due_ns += (1 + (now - self._due_ns) // PERIOD_NS) * PERIOD_NS
        if len(self._gathered) >= _BLOCK:
            self._flush()
        self._pacer.arm(self._due_ns)

    def _flush(self) -> None:
        self._late.add(np.array(self._gathered, dtype=np.int64))
        del self._gathered[:]

    def end(self) -> tuple[int | None, int]:
        """Wake no more; return how late it was: the P99, None of too few wake-ups, and at most."""
        self._pacer.close()
        self._flush()
        return lag_of(self._late), self._late.max_ns


def lag_of(late: Histogram) -> int | None:
    """Return the P99 of how late wake-ups were; None where they are too few to have one."""
    return late.at_percentile(PERCENTILE) if late.count >= LEAST else None
