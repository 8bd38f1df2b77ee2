"""Searches for the peak of a simulated queue, whose true peak is known."""

from dataclasses import dataclass, replace
from math import exp, factorial, log
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from inferometer_api.results.search import Peak
from inferometer_loadgen.search.goal import Decision, Goal, ObservedCounts
from inferometer_loadgen.search.peak import (
    ProbeAt,
    ProbeResult,
    Saturation,
    SearchState,
    SingleQuery,
    next_step,
    peak_result,
)
from inferometer_loadgen.verdict.early_stopping import max_overshoots, required_queries
from support.queues import Queue, sojourns

_NS = 1e9
_WARM_UP = 4
"""Before a probe runs so many times fewer queries than it has."""
_HALVINGS = 60


def true_peak(queue: Queue, percentile: float, bound_seconds: float) -> float:
    """Return the rate at which just so many are answered within the bound, in the steady state."""
    share = 1 - percentile / 100
    service = queue.service_seconds
    if queue.kind == "M/M/1":  # times are exponential with the rate that is left over
        return 1 / service - log(1 / share) / bound_seconds
    low, high = 0.0, 1 / service
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if 1 - _waits_within(middle, service, bound_seconds - service) > share:
            high = middle
        else:
            low = middle
    return low


def _waits_within(rate: float, service: float, seconds: float) -> float:
    """Return how many of M/D/1's waits are within a time: Erlang's sum (1909).

    Its terms alternate; for times of few services they are small enough to be added up.
    """
    total = 0.0
    for served in range(int(seconds / service) + 1):
        left = rate * (seconds - served * service)
        total += (-left) ** served / factorial(served) * exp(left)
    return (1 - rate * service) * total


@dataclass(frozen=True, slots=True)
class SearchedQueue:
    """A queue that answers a search's probes, in no time at all."""

    queue: Queue
    goal: Goal

    def search(self, seed: int, *path: int) -> Peak:
        """Search to the end, every probe with chance of its own."""
        random = np.random.default_rng([seed, *path])
        found = SearchState()
        while True:
            ask = next_step(self.goal, found)
            match ask:
                case str():
                    return peak_result(self.goal, found, ask)
                case SingleQuery():
                    found = replace(found, alone=self._alone(random), service_time_ns=1)
                case Saturation():
                    found = replace(found, closed_loop_qps=1 / self.queue.service_seconds)
                case ProbeAt():
                    found = replace(found, probes=(*found.probes, self._tried(random, ask)))
                case _:
                    assert_never(ask)

    def _alone(self, random: np.random.Generator) -> ObservedCounts:
        count = self.goal.single_queries
        times = self.queue.service_times(random, (count,))
        return ObservedCounts(count, int((times > self.goal.bound_ns / _NS).sum()))

    def _tried(self, random: np.random.Generator, ask: ProbeAt) -> ProbeResult:
        limit = self.goal.query_limit
        count = limit + limit // _WARM_UP
        arrivals = random.exponential(1000 / ask.milli_qps, count).cumsum()
        times = sojourns(arrivals, self.queue.service_times(random, (count,)))
        over = (times[-limit:] > self.goal.bound_ns / _NS).cumsum()
        at, decided = self._decided(over)
        queries = limit if ask.runs_to_completion else at
        seen = ObservedCounts(queries, int(over[queries - 1]))
        return ProbeResult(ask, seen, decided, label="probe", seed=0)

    def _decided(self, over: NDArray[np.int64]) -> tuple[int, Decision]:
        """Return after how many queries a probe is decided, and how."""
        most = max_overshoots(self.goal.query_limit, self.goal.percentile)
        assert most is not None
        failed = int(np.searchsorted(over, most + 1)) + 1
        required = np.array(
            [required_queries(count, self.goal.percentile) for count in range(most + 1)]
        )
        passed = required[over[required - 1] <= np.arange(most + 1)]
        if len(passed) and passed[0] < failed:
            return int(passed[0]), "EnoughQueries"
        return min(failed, len(over)), "Overshoots"
