"""The open loop measures exactly the waiting times of queueing theory, on a virtual clock."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from support.drills import A_STEP, Drill
from support.exact import assert_exact, poisson_schedule, within
from support.oracle_process import Integers
from support.queues import Queue, departures, finite_run_means, known_mean_seconds
from support.simulated import MILLISECOND, SECOND, Answer

SEED = 1
"""The seed with which a drill makes its schedule."""
CONFIDENCE = 0.999
SERVICE_SECONDS = 0.004
LOADS = (0.3, 0.6, 0.8)
RUN_SECONDS = 60


class QueueServer:
    """One server with a queue: replies leave by Lindley's recursion, whatever the connection."""

    def __init__(self, services: Integers) -> None:
        self._services = services.tolist()
        self._free_at = 0

    def __call__(self, index: int, now: int) -> Answer:
        """Return when request `index`, received now, is answered."""
        self._free_at = max(self._free_at, now) + self._services[index]
        return Answer(self._free_at - now)


def queue_drill(queue: Queue, services: Integers, connections: int, *, seconds: int) -> Drill:
    """Return a drill of Poisson arrivals at a queue."""
    return Drill(
        QueueServer(services),
        replace(A_STEP, min_duration_ns=seconds * SECOND),
        round(queue.rate * 1000),
        connections=connections,
        poisson=True,
        timeout_ns=600 * SECOND,
    )


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", ["M/D/1", "M/M/1"])
@pytest.mark.parametrize(
    "connections", [1, 400], ids=["waits-at-the-client", "waits-at-the-server"]
)
def test_each_wait_is_lindleys(
    kind: Literal["M/D/1", "M/M/1"], load: float, connections: int
) -> None:
    """Every latency is its query's own, whether the query waits at the client or at the server.

    With one connection the client holds the queue, and the service time is that of one query. With
    many the server holds it.
    """
    queue = Queue(kind, load, SERVICE_SECONDS)
    services = queue.services(np.random.default_rng(SEED), 2 * RUN_SECONDS * round(queue.rate))
    tallied = queue_drill(queue, services, connections, seconds=RUN_SECONDS).run()
    due = within(poisson_schedule(SEED, queue.rate, len(services)), RUN_SECONDS)
    services = services[: len(due)]
    expected = departures(due, services) - due
    assert tallied.scheduled == len(due)
    assert_exact(tallied.latency, expected)
    assert_exact(tallied.service_time, services if connections == 1 else expected)
    assert tallied.dispatch_lag.max_ns == 0
    waited = int((expected > services).sum())
    assert tallied.waited_for_connection == (waited if connections == 1 else 0)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", ["M/D/1", "M/M/1"])
def test_the_mean_is_pollaczek_and_khinchines(kind: Literal["M/D/1", "M/M/1"], load: float) -> None:
    """The measured mean lies among those of 99.9 % of simulated runs, whose mean is the formula's.

    The seeds are fixed: the comparison has one outcome.
    """
    queue = Queue(kind, load, SERVICE_SECONDS)
    services = queue.services(np.random.default_rng([SEED, 2]), 4 * 10 * round(queue.rate))
    tallied = queue_drill(queue, services, 400, seconds=10).run()
    means = finite_run_means(queue, 0, 10, SEED, runs=2000)
    least, most = np.quantile(means, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)) * SECOND
    distribution = tallied.latency.distribution()
    assert distribution is not None
    assert least <= distribution.mean_nanoseconds <= most
    # Runs that begin empty are a little below the steady state.
    assert abs(means.mean() / known_mean_seconds(queue) - 1) < 0.03


def test_a_late_client_is_in_the_latency_and_in_the_lag() -> None:
    """What the client is late counts: the latency is from the schedule, the lag says why."""
    late = 3 * MILLISECOND
    drill = Drill(
        lambda _index, _now: Answer(2 * MILLISECOND),
        milli_qps=100_000,
        connections=10,
        lateness=lambda _: late,
    )
    tallied = drill.run()
    count = 1000
    assert_exact(tallied.latency, np.full(count, 5 * MILLISECOND))
    assert_exact(tallied.service_time, np.full(count, 2 * MILLISECOND))
    assert_exact(tallied.dispatch_lag, np.full(count, late))
