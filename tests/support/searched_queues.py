"""Searches for the peak of a simulated queue, whose true peak is known."""

from dataclasses import dataclass, replace
from math import exp, factorial, log
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from inferometer_api.results.search import Peak
from inferometer_loadgen.search.goal import Decision, Goal, ObservedCounts, decide_at_end
from inferometer_loadgen.search.peak import next_step
from inferometer_loadgen.search.peak_report import peak_result
from inferometer_loadgen.search.probes import (
    ProbeAt,
    ProbeResult,
    Saturation,
    SearchState,
    SingleQuery,
    with_closed_loop,
)
from inferometer_loadgen.verdict.early_stopping import max_overshoots, required_queries
from support.queues import Queue, sojourns

_NS = 1e9
_WARM_UP = 4
"""Before a probe runs so many times fewer queries than it has."""
_HALVINGS = 60
_SATURATED_SECONDS = 2.0


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
class Neighbour:
    """Other work on the server's machine, that comes and goes and makes the server slower."""

    busy_seconds: float
    """Mean length of its work; exponential, as the pauses are."""
    idle_seconds: float
    slowdown: float
    """Factor of service times meanwhile."""

    def edges(self, random: np.random.Generator, seconds: float) -> NDArray[np.float64]:
        """Draw when it begins and ends, in turn, over so many seconds at least."""
        count = 2 * int(4 + 2 * seconds / (self.busy_seconds + self.idle_seconds))
        means = np.tile([self.idle_seconds, self.busy_seconds], count // 2)
        return random.exponential(means).cumsum()


@dataclass(frozen=True, slots=True)
class SearchedQueue:
    """A queue that answers a search's probes, in no time at all."""

    queue: Queue
    goal: Goal
    neighbour: Neighbour | None = None
    max_seconds: float = float("inf")
    """Seconds of simulated time after which the search is ended."""

    def search(self, seed: int, *path: int) -> Peak:
        """Search to the end, every probe with chance of its own."""
        return _Search(self, np.random.default_rng([seed, *path])).run()


class _Search:
    """One search, and its simulated time."""

    def __init__(self, searched: SearchedQueue, random: np.random.Generator) -> None:
        self._queue, self._goal = searched.queue, searched.goal
        self._random = random
        self._neighbour = searched.neighbour
        self._max_seconds = searched.max_seconds
        self._now = 0.0
        self._edges = np.empty(0)
        if searched.neighbour is not None:
            self._edges = searched.neighbour.edges(random, 2 * searched.max_seconds)

    def run(self) -> Peak:
        """Search to the end."""
        found = SearchState()
        while True:
            ask = next_step(self._goal, found)
            if isinstance(ask, str):
                return peak_result(self._goal, found, ask)
            if self._now >= self._max_seconds:
                return peak_result(self._goal, found, "OutOfTime")
            match ask:
                case SingleQuery():
                    found = replace(found, alone=self._alone(), service_time_ns=1)
                case Saturation():
                    found = with_closed_loop(found, self._closed_loop_qps())
                case ProbeAt():
                    number = len(found.probes) + 1
                    found = replace(found, probes=(*found.probes, self._tried(ask, number)))
                case _:
                    assert_never(ask)

    def _services(self, arrivals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draw the services of queries that arrive so long after now."""
        services = self._queue.service_times(self._random, arrivals.shape)
        if self._neighbour is None:
            return services
        is_busy = np.searchsorted(self._edges, self._now + arrivals) % 2 == 1
        return np.where(is_busy, self._neighbour.slowdown * services, services)

    def _alone(self) -> ObservedCounts:
        count = self._goal.single_queries
        times = self._services(np.arange(count, dtype=np.float64) * self._queue.service_seconds)
        self._now += float(times.sum())
        return ObservedCounts(count, int((times > self._goal.bound_ns / _NS).sum()))

    def _closed_loop_qps(self) -> float:
        if self._neighbour is None:
            return 1 / self._queue.service_seconds
        arrivals = np.arange(0, _SATURATED_SECONDS, self._queue.service_seconds)
        self._now += _SATURATED_SECONDS
        return 1 / float(self._services(arrivals).mean())

    def _tried(self, ask: ProbeAt, number: int) -> ProbeResult:
        goal, limit = self._goal, self._goal.query_limit
        count = limit + limit // _WARM_UP
        arrivals = self._random.exponential(1000 / ask.milli_qps, count).cumsum()
        times = sojourns(arrivals, self._services(arrivals))
        begin = float(arrivals[-limit - 1])
        sent = int(np.searchsorted(arrivals[-limit:], begin + goal.max_seconds))
        over = (times[-limit:][:sent] > goal.bound_ns / _NS).cumsum()
        queries, decided = self._decided(over)
        if ask.runs_to_completion:
            queries, decided = sent, None
        seen = ObservedCounts(queries, int(over[queries - 1]) if queries else 0)
        self._now += begin + queries * 1000 / ask.milli_qps
        decided = decided or decide_at_end(goal.percentile, limit, seen)
        return ProbeResult(ask, seen, decided, label=f"probe {number}", seed=0)

    def _decided(self, over: NDArray[np.int64]) -> tuple[int, Decision | None]:
        """Return after how many queries a probe is decided, and how; None if it is cut off."""
        most = max_overshoots(self._goal.query_limit, self._goal.percentile)
        assert most is not None
        failed = int(np.searchsorted(over, most + 1)) + 1
        required = np.array(
            [required_queries(count, self._goal.percentile) for count in range(most + 1)]
        )
        within = required[required <= len(over)]
        passed = within[over[within - 1] <= np.arange(len(within))]
        if len(passed) and passed[0] < failed:
            return int(passed[0]), "EnoughQueries"
        if failed > len(over):
            return len(over), None
        return failed, "Overshoots"
