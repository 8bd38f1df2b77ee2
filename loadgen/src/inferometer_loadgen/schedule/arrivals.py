"""Arrival times of the queries of open-loop scenarios.

A schedule is a function of its arrivals, rate, seed and stream alone. It is made in blocks, and no
block size, worker or machine changes a byte of it.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from inferometer_api.scenarios.step_setting import Bursts
from inferometer_loadgen.schedule.steps import SECOND_NS, WHOLE_LOAD, LoadShare

BLOCK = 1024
"""Number of arrivals that a driver takes at a time."""

_NANOSECONDS_TIMES_MILLI = 10**12
_LEAST_ROUND_NS = SECOND_NS

Offsets = NDArray[np.int64]
"""Nanoseconds from the start of the schedule, in ascending order."""


class Stream(IntEnum):
    """Independent streams of random numbers of a seed.

    The warm-up has its own, so that the measured schedule does not depend on its length.
    """

    MEASURED = 0
    WARM_UP = 1
    INPUTS = 2
    PHASES = 3
    PROBES = 4
    MODELS = 5


def generator(seed: int, stream: Stream, *path: int) -> np.random.Generator:
    """Return numpy's Generator over PCG64 for one stream of a seed.

    The measured stream is `PCG64(seed)` itself; the others are spawned children of the seed.
    """
    spawn_key = () if stream is Stream.MEASURED else (int(stream), *path)
    sequence = np.random.SeedSequence(seed, spawn_key=spawn_key)
    return np.random.Generator(np.random.PCG64(sequence))


def probe_seed(seed: int, probe: int) -> int:
    """Return the seed of a search's probe, counted from 0.

    It is the first 32-bit word of `SeedSequence(seed, spawn_key=(4, probe))`.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(int(Stream.PROBES), probe))
    return int(sequence.generate_state(1)[0])


class Schedule(Protocol):
    """An endless sequence of arrivals."""

    def take(self, count: int) -> Offsets:
        """Return the next `count` arrivals."""


class Poisson:
    """Arrivals with exponential gaps of mean 1/rate, each rounded to a nanosecond.

    The gaps are `Generator.standard_exponential` (numpy's ziggurat) times the mean. Sums are of
    integers, so they are exact and independent of the block size.
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
        # Separate whole and fractional gap: their product with the index stays far below 2**63.
        parts = index * self._part + self._remainder
        offsets: Offsets = self._next_ns + index * self._whole + parts // self._milli_qps
        carry, self._remainder = divmod(count * self._part + self._remainder, self._milli_qps)
        self._next_ns += count * self._whole + carry
        return offsets


class PhasedPoisson:
    """Poisson arrivals at a high rate at the start of each period, and at a low one after it.

    Arrivals in disjoint intervals are independent, so each phase is a separate Poisson process. It
    draws from its own generator (`spawn_key` 3, the stream, the phase's number) and ends with its
    time. This is exact, and no arrival depends on how many were drawn before.
    """

    def __init__(self, bursts: Bursts, seed: int, stream: Stream) -> None:
        self._bursts = bursts
        self._seed = seed
        self._stream = stream
        self._phase = -1
        self._begin_ns = self._end_ns = 0
        self._usual = 1
        """Number of arrivals made at a time: usually those of a whole phase."""
        self._next_phase()

    def take(self, count: int) -> Offsets:
        """Return the next `count` arrivals."""
        found: list[Offsets] = []
        left = count
        while left:
            offsets = self._begin_ns + self._poisson.take(min(left, self._usual))
            within = offsets[: np.searchsorted(offsets, self._end_ns)]
            found.append(within)
            if len(within) < len(offsets):
                self._next_phase()
            left -= len(within)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _next_phase(self) -> None:
        bursts = self._bursts
        self._phase += 1
        period, is_low = divmod(self._phase, 2)
        start = period * bursts.period_ns
        self._begin_ns = start + (bursts.burst_ns if is_low else 0)
        self._end_ns = start + (bursts.period_ns if is_low else bursts.burst_ns)
        random = generator(self._seed, Stream.PHASES, int(self._stream), self._phase)
        rate = bursts.base_milli_qps if is_low else bursts.burst_milli_qps
        self._poisson = Poisson(rate, random)
        mean = rate * (self._end_ns - self._begin_ns) / _NANOSECONDS_TIMES_MILLI
        self._usual = math.ceil(mean + 4 * math.sqrt(mean)) + 1


class Replay:
    """Recorded arrivals, repeated a mean gap after the last of them.

    Only a warm-up needs the repetition: a window ends with the last arrival. A round lasts at least
    a second, because arrivals of a single moment define no rate.
    """

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        last_ns = int(offsets[-1])
        self._period_ns = max(_LEAST_ROUND_NS, last_ns + last_ns // len(offsets))
        self._next = 0

    def take(self, count: int) -> Offsets:
        """Return the next `count` arrivals."""
        rounds, places = np.divmod(
            np.arange(self._next, self._next + count, dtype=np.int64), len(self._offsets)
        )
        self._next += count
        offsets: Offsets = self._offsets[places] + rounds * self._period_ns
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


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """When a window of a schedule ends."""

    min_duration_ns: int
    min_queries: int
    max_duration_ns: int
    last: int | None = None
    """Total number of arrivals at which it ends, whatever the minimums (a trace)."""


class MeasuredArrivals:
    """The arrivals of a window, which ends when both minimums hold or the maximum is reached.

    The schedule alone decides which queries are measured, never their outcome, and the window's
    length is the same for every share. `is_complete` is true once no block follows. Then
    `duration_ns` is the length of the window, and `ended_early` is true if the maximum ended it
    before its minimum of queries or before the last arrival of a trace.
    """

    def __init__(
        self, schedule: Schedule, limits: WindowLimits, share: LoadShare = WHOLE_LOAD
    ) -> None:
        self._schedule = schedule
        self._limits = limits
        self._share = share
        self._last_ns = 0
        self.count = 0
        """Number of arrivals of the whole schedule so far."""
        self.is_complete = False
        self.duration_ns = limits.max_duration_ns
        self.ended_early = False

    def take(self) -> Offsets:
        """Return the share's arrivals within the window's next block, which may be none."""
        offsets = self._schedule.take(BLOCK)
        end = self._end(offsets)
        offsets = offsets[:end]
        first = (self._share.index - self.count) % self._share.workers
        self.count += end
        return offsets[first :: self._share.workers]

    def _end(self, offsets: Offsets) -> int:
        """Return how many of a block's arrivals are within the window, and note its end."""
        limits = self._limits
        longest = int(np.searchsorted(offsets, limits.max_duration_ns))
        if limits.last is None:
            lasted = int(np.searchsorted(offsets, limits.min_duration_ns))
            enough = max(limits.min_queries - self.count, lasted)
        else:
            enough = limits.last - self.count
        end = min(enough, longest, len(offsets))
        if end:
            self._last_ns = int(offsets[end - 1])
        if limits.last is not None and end == enough:
            self.is_complete = True
            self.duration_ns = self._last_ns
        elif end == enough < len(offsets):
            self.is_complete = True
            # The window lasts until the next arrival, so that its rate is the schedule's on
            # average; until its last arrival the rate would seem higher.
            until_next_ns = min(int(offsets[end]), limits.max_duration_ns)
            least_ns = limits.min_duration_ns
            self.duration_ns = least_ns if self._last_ns < least_ns else until_next_ns
        elif end == longest and longest < len(offsets):
            self.is_complete = True
            self.ended_early = self.count + end < (limits.last or limits.min_queries)
        return end


class EndlessArrivals:
    """A share's part of an endless schedule."""

    def __init__(self, schedule: Schedule, share: LoadShare = WHOLE_LOAD) -> None:
        self._schedule = schedule
        self._share = share
        self._count = 0

    def take(self) -> Offsets:
        """Return the share's arrivals within the next block, which may be none."""
        first = (self._share.index - self._count) % self._share.workers
        self._count += BLOCK
        return self._schedule.take(BLOCK)[first :: self._share.workers]
