"""What came of the queries of one step?

The driver tells of each query as it happens; times are gathered in flat arrays and counted in
blocks, so that recording one costs a fraction of a microsecond.
"""

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from inferometer_loadgen.record.histogram import Histogram, Integers
from inferometer_loadgen.record.windows import STEADY_WINDOWS, Second, SecondStatistics, Windows

BLOCK = 2048
"""Queries after which their times are counted."""


@dataclass(slots=True)
class StepStatistics:
    """Everything that was counted in one step; read when the step is over."""

    latency: Histogram = field(default_factory=Histogram)
    service_time: Histogram = field(default_factory=Histogram)
    dispatch_lag: Histogram = field(default_factory=Histogram)
    windows: Windows = field(default_factory=Windows)
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    scheduled: int = 0
    waited_for_connection: int = 0
    checked_replies: int = 0
    warm_up_queries: int = 0
    warm_up_answered: int = 0
    """Those of them that were answered well, some within the window."""
    answered_within: int = 0
    """Queries answered well between the window's edges, whenever they were sent."""
    unanswered_early: int = 0
    """In open loops: how many queries were usually unanswered in the window's first quarter."""
    unanswered_late: int = 0
    """The same of its last quarter."""
    overshoots: int = 0
    """Queries that failed or took longer than the bound, where the step is judged by one."""


class Recorder:
    """Counts the queries of one step.

    `latencies`, `service_times` and `lags` are arrays of nanoseconds that the driver appends to;
    `flush` counts and empties them, and the driver calls it when one is `BLOCK` long. So does
    `warm_ups`, where the warm-up goes on until it is steady.
    """

    def __init__(self, bound_ns: int | None = None) -> None:
        self.statistics = StepStatistics()
        self.latencies = array("q")
        self.service_times = array("q")
        self.lags = array("q")
        self.warm_ups = array("q")
        self._bound_ns = bound_ns
        self._second = Second()
        self.last_second: SecondStatistics | None = None
        self.warm_up_windows: deque[SecondStatistics] = deque(maxlen=STEADY_WINDOWS)
        """The last whole seconds of the warm-up, where it goes on until it is steady."""
        self._answered_before: int | None = None
        """How many were answered before the window; None while there is none."""

    def begin_window(self) -> None:
        """Count what is answered from now on as answered within the window."""
        self._answered_before = self.answered_at_all

    def end_window(self) -> None:
        """Count what is answered from now on as answered after the window."""
        self.flush()
        self._answered_before = None

    def flush(self) -> None:
        """Count the times gathered so far."""
        tallied = self.statistics
        latencies = _emptied(self.latencies)
        tallied.latency.add(latencies)
        self._second.add(latencies)
        if self._bound_ns is not None:
            tallied.overshoots += int(np.count_nonzero(latencies > self._bound_ns))
        tallied.service_time.add(_emptied(self.service_times))
        lags = _emptied(self.lags)
        tallied.dispatch_lag.add(lags)
        tallied.scheduled += len(lags)
        self._second.schedule(len(lags))
        if self._answered_before is not None:
            tallied.answered_within = self.answered_at_all - self._answered_before

    def fail(self, kind: str, message: str) -> None:
        """Count a measured query that has no good answer."""
        self.statistics.errors[kind] += 1
        self.statistics.examples.setdefault(kind, message)
        self.statistics.overshoots += self._bound_ns is not None
        self._second.fail()

    def end_second(self) -> None:
        """Close the current second."""
        self.flush()
        self.last_second = self._second.close(1.0)
        self.statistics.windows.add(self.last_second)

    def end_warm_up_second(self) -> None:
        """Close the current second of a warm-up that goes on until it is steady."""
        second = Second()
        second.add(_emptied(self.warm_ups))
        self.warm_up_windows.append(second.close(1.0))

    def end(self, seconds: float) -> None:
        """Close the last second, of which only a part is over."""
        self.flush()
        self.statistics.windows.add_last(self._second.close(seconds))

    @property
    def answered(self) -> int:
        """Queries answered well within the window so far."""
        return self.statistics.latency.count + len(self.latencies)

    @property
    def answered_at_all(self) -> int:
        """Queries answered well so far, those of the warm-up among them."""
        return self.answered + self.statistics.warm_up_answered

    @property
    def failed(self) -> int:
        """Queries failed within the window so far."""
        return self.statistics.errors.total()


def _emptied(times: "array[int]") -> Integers:
    values = np.array(times, dtype=np.int64)
    del times[:]
    return values
