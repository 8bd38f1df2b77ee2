"""When does each query of an open-loop scenario arrive?

A schedule is a function of its arrivals, rate, seed and stream alone: it is made in blocks, and no
block size, worker or machine changes a byte of it.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Literal, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

BLOCK = 1024
"""Arrivals that a driver asks for at a time."""

_NANOSECONDS_TIMES_MILLI = 10**12

Offsets = NDArray[np.int64]
"""Nanoseconds from the start of the schedule, never falling."""


class Stream(IntEnum):
    """Which of a seed's independent streams of random numbers is drawn from.

    Warm-up has one of its own, so that the measured schedule does not depend on its length.
    """

    MEASURED = 0
    WARM_UP = 1
    INPUTS = 2


def generator(seed: int, stream: Stream, *path: int) -> np.random.Generator:
    """Return numpy's Generator over PCG64 for one stream of a seed.

    The measured stream is `PCG64(seed)` itself; every other is a spawned child of that seed.
    """
    spawn_key = () if stream is Stream.MEASURED else (int(stream), *path)
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key)
    return np.random.Generator(np.random.PCG64(sequence))


class Schedule(Protocol):
    """An endless sequence of arrivals."""

    def take(self, count: int) -> Offsets:
        """Return the next `count` arrivals."""


class Poisson:
    """Arrivals with exponential gaps of mean 1/rate, each rounded to a nanosecond.

    The gaps are `Generator.standard_exponential` (numpy's ziggurat) times the mean. Sums are of
    integers, so that they are exact and do not depend on the block they are made in.
    """

    def __init__(self, milli_qps: int, random: np.random.Generator) -> None:
        self._mean_gap_ns = _NANOSECONDS_TIMES_MILLI / milli_qps
        self._random = random
        self._last_ns = 0

    def take(self, count: int) -> Offsets:
        """Return the next `count` arrivals."""
        gaps = self._random.standard_exponential(count) * self._mean_gap_ns
        offsets: Offsets = self._last_ns + np.rint(gaps).astype(np.int64).cumsum()
        if count:
            self._last_ns = int(offsets[-1])
        return offsets


class Constant:
    """Arrivals at equal gaps: the k-th, counted from 0, at the whole nanosecond below k/rate."""

    def __init__(self, milli_qps: int) -> None:
        self._whole, self._part = divmod(_NANOSECONDS_TIMES_MILLI, milli_qps)
        self._milli_qps = milli_qps
        self._next_ns = 0
        self._remainder = 0

    def take(self, count: int) -> Offsets:
        """Return the next `count` arrivals."""
        index = np.arange(count, dtype=np.int64)
        # Whole and fractional gap apart: their product with the index stays far below 2**63.
        parts = index * self._part + self._remainder
        offsets: Offsets = self._next_ns + index * self._whole + parts // self._milli_qps
        carry, self._remainder = divmod(count * self._part + self._remainder, self._milli_qps)
        self._next_ns += count * self._whole + carry
        return offsets


def arrivals(
    kind: Literal["Poisson", "Constant"], milli_qps: int, seed: int, stream: Stream
) -> Schedule:
    """Return the schedule of a `server` scenario at a rate in thousandths of queries a second."""
    match kind:
        case "Poisson":
            return Poisson(milli_qps, generator(seed, stream))
        case "Constant":
            return Constant(milli_qps)
        case _:
            assert_never(kind)


def one_by_one(schedule: Schedule, block: int = BLOCK) -> Iterator[int]:
    """Yield a schedule's arrivals as Python integers, made `block` at a time."""
    while True:
        yield from schedule.take(block).tolist()


class MeasuredArrivals(Iterator[int]):
    """The arrivals of a window, which ends when both minimums hold or the maximum is reached.

    Which queries are measured follows from the schedule alone, never from how they fared. After
    the last one `duration_ns` says how long the window is and `ended_early` whether the maximum
    cut it before its minimum of queries.
    """

    def __init__(
        self, schedule: Schedule, min_duration_ns: int, min_queries: int, max_duration_ns: int
    ) -> None:
        self._offsets = one_by_one(schedule)
        self._min_duration_ns = min_duration_ns
        self._min_queries = min_queries
        self._max_duration_ns = max_duration_ns
        self._last_ns = 0
        self.count = 0
        self.duration_ns = max_duration_ns
        self.ended_early = False

    @override
    def __next__(self) -> int:
        """Return the next arrival within the window, from the window's start."""
        offset = next(self._offsets)
        if self.count >= self._min_queries and offset >= self._min_duration_ns:
            self.duration_ns = max(self._min_duration_ns, self._last_ns)
            raise StopIteration
        if offset >= self._max_duration_ns:
            self.ended_early = self.count < self._min_queries
            raise StopIteration
        self.count += 1
        self._last_ns = offset
        return offset
