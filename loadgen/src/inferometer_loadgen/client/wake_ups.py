"""Lateness of this process: a timer of its own measures how late it gets the CPU.

A closed loop has no schedule to be late at. A reply that arrives at a moment is handled as late as
a timer that is due then.
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
"""Of fewer wake-ups, fewer than three are beyond the P99: one late one would decide it."""
_BLOCK = 512


class WakeUps:
    """Wakes 200 times a second once it is made; needs a running event loop."""

    def __init__(self) -> None:
        self._late = Histogram()
        self._gathered = array("q")
        self._pacer = TimerPacer(asyncio.get_running_loop(), self._on_wake, lead_ns=0)
        self._due_ns = time.monotonic_ns() + PERIOD_NS
        self._pacer.arm(self._due_ns)

    def _on_wake(self) -> None:
        now = time.monotonic_ns()
        # Wake-ups that were missed meanwhile are late as well, each by less.
        self._gathered.extend(range(now - self._due_ns, -1, -PERIOD_NS))
        self._due_ns += (1 + (now - self._due_ns) // PERIOD_NS) * PERIOD_NS
        if len(self._gathered) >= _BLOCK:
            self._flush()
        self._pacer.arm(self._due_ns)

    def _flush(self) -> None:
        self._late.add(np.array(self._gathered, dtype=np.int64))
        del self._gathered[:]

    def end(self) -> tuple[int | None, int]:
        """Stop; return the P99 of how late wake-ups were, None if too few, and the maximum."""
        self._pacer.close()
        self._flush()
        return lag_of(self._late), self._late.max_ns


def lag_of(late: Histogram) -> int | None:
    """Return the P99 of how late wake-ups were; None if they are too few."""
    return late.at_percentile(PERCENTILE) if late.count >= LEAST else None
