"""How did a measurement go, second by second, in memory that does not grow with its length?"""

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
"""How many windows of one second a warm-up must have alike where it goes on until it is steady."""
_SHORTEST_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class SecondStatistics:
    """What happened within some seconds: queries answered or failed then, whenever due."""

    seconds: float
    scheduled: int = 0
    failed: int = 0
    max_ns: int = 0
    latencies: Sparse = EMPTY

    def combine(self, other: "SecondStatistics") -> "SecondStatistics":
        """Return what happened within both."""
        return SecondStatistics(
            self.seconds + other.seconds,
            self.scheduled + other.scheduled,
            self.failed + other.failed,
            max(self.max_ns, other.max_ns),
            self.latencies.combine(other.latencies),
        )


class Second:
    """What happens within the second that is not over."""

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
        """Return what happened and begin anew; `seconds` is how long it took, normally 1."""
        buckets = np.flatnonzero(self._counts).astype(np.int64)
        tally = SecondStatistics(
            seconds,
            self._scheduled,
            self._failed,
            self._max_ns,
            Sparse(buckets, self._counts[buckets]),
        )
        self._counts[buckets] = 0
        self._max_ns = self._failed = self._scheduled = 0
        return tally


class Windows:
    """A series of equally long windows: one second each until there are more than 600 of them.

    Then neighbours are joined and each window is twice as long, as often as needed. Only the last
    may have another length.
    """

    def __init__(self) -> None:
        self._done: list[SecondStatistics] = []
        self._open: list[SecondStatistics] = []
        self._seconds_each = 1

    def add(self, tally: SecondStatistics) -> None:
        """Append what happened within the next second."""
        if len(self._done) == MOST_WINDOWS and not self._open:
            self._done = [
                _packed(left.combine(right))
                for left, right in zip(self._done[::2], self._done[1::2], strict=True)
            ]
            self._seconds_each *= 2
        self._open.append(_packed(tally))
        if len(self._open) == self._seconds_each:
            self._done.append(_packed(_joined(self._open)))
            self._open = []

    def add_last(self, tally: SecondStatistics) -> None:
        """Append what happened after the last whole second; a short rest joins that second."""
        last = self._open or self._done
        if last and tally.seconds < _SHORTEST_SECONDS:
            last[-1] = last[-1].combine(tally)
        else:
            self.add(tally)

    @property
    def duration_ns(self) -> int:
        """How long all windows are together."""
        return round(sum(each.seconds for each in self.tallies()) * 1e9)

    def tallies(self) -> list[SecondStatistics]:
        """Return all windows, the one that is not full included."""
        return [*self._done, *([_joined(self._open)] if self._open else [])]

    def report(self, *, open_loop: bool) -> list[Window]:
        """Return the windows as the result document has them."""
        windows, at = [], 0.0
        for tally in self.tallies():
            start = round(at * 1000)
            at += tally.seconds
            windows.append(_window(tally, start, round(at * 1000) - start, open_loop=open_loop))
        return windows


def _packed(tally: SecondStatistics) -> SecondStatistics:
    return replace(tally, latencies=tally.latencies.compact())


def _joined(tallies: list[SecondStatistics]) -> SecondStatistics:
    return reduce(SecondStatistics.combine, tallies)


def _window(tally: SecondStatistics, start_ms: int, duration_ms: int, *, open_loop: bool) -> Window:
    answered = tally.latencies.total

    def at(percentile: float) -> int | None:
        value = tally.latencies.at_percentile(percentile)
        return None if value is None else min(value, tally.max_ns)

    return Window(
        start_milliseconds=start_ms,
        duration_milliseconds=duration_ms,
        scheduled=tally.scheduled if open_loop else None,
        succeeded=answered,
        failed=tally.failed,
        p50_nanoseconds=at(50),
        p99_nanoseconds=at(99),
        max_nanoseconds=tally.max_ns if answered else None,
    )
