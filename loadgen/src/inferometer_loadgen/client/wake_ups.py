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

PERIOD_NS = 20_000_000
PERCENTILE = 99.0
_BLOCK = 512


class WakeUps:
    """Wakes 50 times a second from its making on, within a running event loop."""

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

    def end(self) -> int | None:
        """Wake no more; return the P99 of how late it was, None where it never was."""
        self._pacer.close()
        self._flush()
        return self._late.at_percentile(PERCENTILE)
