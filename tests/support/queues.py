"""Queueing theory for one server with a queue, and for runs that end."""

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from support.oracle_process import Integers

Seconds = NDArray[np.float64]

_SECOND_NS = 1_000_000_000
_RUNS = 10_000
_AT_ONCE = 500
_MARGIN = 6
"""Standard deviations of arrivals made beyond what is expected."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Poisson arrivals at one server with a queue, first come, first served."""

    kind: Literal["M/D/1", "M/M/1"]
    """By its services: of one length, or exponential."""
    utilisation: float
    service_seconds: float
    """Their mean."""

    @property
    def rate(self) -> float:
        """Arrivals a second, in whole thousandths."""
        return round(self.utilisation / self.service_seconds, 3)

    def service_times(self, random: np.random.Generator, shape: tuple[int, ...]) -> Seconds:
        """Draw services, in seconds."""
        match self.kind:
            case "M/D/1":
                return np.full(shape, self.service_seconds)
            case "M/M/1":
                return random.exponential(self.service_seconds, shape)
            case _:
                assert_never(self.kind)

    def services(self, random: np.random.Generator, count: int) -> Integers:
        """Draw services, in nanoseconds."""
        drawn: Integers = np.rint(self.service_times(random, (count,)) * _SECOND_NS).astype(
            np.int64
        )
        return drawn


def departures(arrivals: Integers, services: Integers) -> Integers:
    """Return when each leaves, by Lindley's recursion."""
    left = np.empty_like(arrivals)
    free_at = 0
    for place, (arrival, service) in enumerate(
        zip(arrivals.tolist(), services.tolist(), strict=True)
    ):
        free_at = max(free_at, arrival) + service
        left[place] = free_at
    return left


def sojourns(arrivals: Seconds, services: Seconds) -> Seconds:
    """Return the time from arrival to departure along the last axis, for many queues at once.

    The server is free when (sum of services - arrival) was least: the recursion unrolled.
    """
    served = services.cumsum(axis=-1)
    idle = arrivals - served + services
    return served - arrivals + np.maximum.accumulate(idle, axis=-1)


def known_mean_seconds(queue: Queue) -> float:
    """Return the mean from arrival to departure: Pollaczek and Khinchine's formula."""
    squared = {"M/D/1": 1.0, "M/M/1": 2.0}[queue.kind] * queue.service_seconds**2
    wait = queue.utilisation / queue.service_seconds * squared / (2 * (1 - queue.utilisation))
    return wait + queue.service_seconds


def finite_run_means(
    queue: Queue, warm_up_seconds: float, seconds: float, seed: int, runs: int = _RUNS
) -> Seconds:
    """Return the means of thousands of simulated runs as short as ours, each from an empty queue.

    Waits of one run hang together, so that no formula for independent values gives the spread of
    its mean; simulated runs of the same length do.
    """
    random = np.random.default_rng(seed)
    expected = queue.rate * (warm_up_seconds + seconds)
    count = int(expected + _MARGIN * expected**0.5)
    means = []
    for _ in range(runs // _AT_ONCE):
        shape = (_AT_ONCE, count)
        arrivals = random.exponential(1 / queue.rate, shape).cumsum(axis=-1)
        times = sojourns(arrivals, queue.service_times(random, shape))
        within = (arrivals >= warm_up_seconds) & (arrivals < warm_up_seconds + seconds)
        means.append(np.where(within, times, 0).sum(axis=-1) / within.sum(axis=-1))
    return np.concatenate(means)
