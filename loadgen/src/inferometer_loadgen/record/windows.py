"""Course of a measurement, second by second, in memory that does not grow with its length."""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from inferometer_api.results.result import Window
from inferometer_loadgen.record.histogram import (
    BUCKETS,
    EMPTY,
    HOUR_NS,
    Integers,
    Sparse,
    bucket_of,
)

MOST_WINDOWS = 600
STEADY_WINDOWS = 3
"""Number of one-second windows that must be alike in a warm-up until steady."""
_SHORTEST_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class SecondStatistics:
    """Counts of some seconds: queries answered or failed in them, whenever they were due."""

    seconds: float
    scheduled: int = 0
    failed: int = 0
    max_ns: int = 0
    latencies: Sparse = EMPTY

    def combine(self, other: "SecondStatistics") -> "SecondStatistics":
        """Return the counts of both together."""
        return SecondStatistics(
            self.seconds + other.seconds,
            self.scheduled + other.scheduled,
            self.failed + other.failed,
            max(self.max_ns, other.max_ns),
            self.latencies.combine(other.latencies),
        )


class Second:
    """Counters of the current second."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, dtype=np.int64)
        self._max_ns = 0
        self._failed = 0
        self._scheduled = 0

    def add(self, latencies: Integers) -> None:
        """Count answers with these latencies in nanoseconds."""
        if not len(latencies):
            return
        values = np.clip(latencies, 0, HOUR_NS)
        np.add.at(self._counts, bucket_of(values), 1)
        self._max_ns = max(self._max_ns, int(values.max()))

    def fail(self) -> None:
        """Count a query that failed."""
        self._failed += 1

    def schedule(self, count: int) -> None:
        """Count queries that were due."""
        self._scheduled += count

    def close(self, seconds: float) -> SecondStatistics:
        """Return the counts and reset them; `seconds` is the length, normally 1."""
        buckets = np.flatnonzero(self._counts).astype(np.int64)
        second = SecondStatistics(
            seconds,
            self._scheduled,
            self._failed,
            self._max_ns,
            Sparse(buckets, self._counts[buckets]),
        )
        self._counts[buckets] = 0
        self._max_ns = self._failed = self._scheduled = 0
        return second


class Windows:
    """A series of equally long windows: one second each until there are more than 600 of them.

    Then neighbours are merged and each window is twice as long, as often as needed. Only the last
    may have another length.
    """

    def __init__(self) -> None:
        self._done: list[SecondStatistics] = []
        self._open: list[SecondStatistics] = []
        self._seconds_each = 1

    def add(self, second: SecondStatistics) -> None:
        """Append the next second."""
        if len(self._done) == MOST_WINDOWS and not self._open:
            self._done = [
                _compact(left.combine(right))
                for left, right in zip(self._done[::2], self._done[1::2], strict=True)
            ]
            self._seconds_each *= 2
        self._open.append(_compact(second))
        if len(self._open) == self._seconds_each:
            self._done.append(_compact(_merge(self._open)))
            self._open = []

    def add_last(self, second: SecondStatistics) -> None:
        """Append the part after the last whole second; a short one is merged into that second."""
        last = self._open or self._done
        if last and second.seconds < _SHORTEST_SECONDS:
            last[-1] = last[-1].combine(second)
        else:
            self.add(second)

    @property
    def duration_ns(self) -> int:
        """Total length of all windows, in nanoseconds."""
        return round(sum(each.seconds for each in self.seconds()) * 1e9)

    def seconds(self) -> list[SecondStatistics]:
        """Return all windows, including one that is not full."""
        return [*self._done, *([_merge(self._open)] if self._open else [])]

    def report(self, *, open_loop: bool) -> list[Window]:
        """Return the windows for the result document."""
        windows, at = [], 0.0
        for second in self.seconds():
            start = round(at * 1000)
            at += second.seconds
            windows.append(_window(second, start, round(at * 1000) - start, open_loop=open_loop))
        return windows


def _compact(second: SecondStatistics) -> SecondStatistics:
    return replace(second, latencies=second.latencies.compact())


def _merge(seconds: list[SecondStatistics]) -> SecondStatistics:
    return reduce(SecondStatistics.combine, seconds)


def _window(
    second: SecondStatistics, start_ms: int, duration_ms: int, *, open_loop: bool
) -> Window:
    answered = second.latencies.total

    def at(percentile: float) -> int | None:
        value = second.latencies.at_percentile(percentile)
        return None if value is None else min(value, second.max_ns)

    return Window(
        start_milliseconds=start_ms,
        duration_milliseconds=duration_ms,
        scheduled=second.scheduled if open_loop else None,
        succeeded=answered,
        failed=second.failed,
        p50_nanoseconds=at(50),
        p99_nanoseconds=at(99),
        max_nanoseconds=second.max_ns if answered else None,
    )
