"""A stall is in every latency of an open loop, and is named where a closed loop hides it."""

from dataclasses import replace

import numpy as np
import pytest

from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.record.histogram import bucket_of
from inferometer_loadgen.record.silences import longest_ns
from support.agreement import nearest_rank
from support.drills import A_STEP, Drill
from support.exact import assert_exact, poisson_schedule, within
from support.simulated import MILLISECOND, SECOND, Answer

SERVICE = 2 * MILLISECOND
STALL = 2 * SECOND
AT = 100
"""The request with whose receipt the server stops answering."""
SEED = 1
RATE = 200.0


class StallingServer:
    """Answers after a fixed time, except that nothing leaves during one stall."""

    def __init__(self) -> None:
        self.until = 0

    def __call__(self, index: int, now: int) -> Answer:
        """Return how long request `index` takes."""
        if index == AT:
            self.until = now + STALL
        return Answer(max(SERVICE, self.until - now))


@pytest.mark.parametrize("connections", [1, 2, 1000])
def test_an_open_loop_shows_a_stall_in_full(connections: int) -> None:
    """Each query due within the stall waits from when it was due, however many connections."""
    drill = Drill(
        StallingServer(),
        replace(A_STEP, min_duration_ns=20 * SECOND),
        round(RATE * 1000),
        connections=connections,
        poisson=True,
    )
    tallied = drill.run()
    due = within(poisson_schedule(SEED, RATE, 8000), 20)
    assert tallied.scheduled == len(due)
    assert_exact(tallied.latency, expected_latencies(due, connections))
    assert (tallied.waited_for_connection > 0) == (connections < 1000)


def expected_latencies(
    due: "np.typing.NDArray[np.int64]", places: int
) -> "np.typing.NDArray[np.int64]":
    """Return the latencies of a stalling server behind so many places, reckoned one by one."""
    free = [0] * places
    until = 0
    found = []
    for index, at in enumerate(due.tolist()):
        place = min(range(places), key=free.__getitem__)
        sent = max(at, free[place])
        if index == AT:
            until = sent + STALL
        free[place] = max(sent + SERVICE, until)
        found.append(free[place] - at)
    return np.array(found)


def test_coordinated_omission_is_what_separates_the_two_loops() -> None:
    """At the same server the open loop's P99 shows the stall, and the closed loop's does not.

    The closed loop sends nothing meanwhile. Its longest silence is the stall, exactly.
    """
    step = replace(A_STEP, min_duration_ns=20 * SECOND)
    open_loop = Drill(StallingServer(), step, round(RATE * 1000), connections=1000, poisson=True)
    closed_loop = Drill(StallingServer(), replace(step, loop=Closed(1)), milli_qps=None)
    shown, hidden = (each.run().latency.distribution() for each in (open_loop, closed_loop))
    assert shown is not None
    assert hidden is not None
    p99 = [
        next(each.nanoseconds for each in of.percentiles if each.percentile == 99.0)
        for of in (shown, hidden)
    ]
    times = np.sort(expected_latencies(within(poisson_schedule(SEED, RATE, 8000), 20), 1000))
    late = times[nearest_rank(99.0, len(times)) - 1]
    assert (bucket_of(np.array(p99)) == bucket_of(np.array([late, SERVICE]))).all()
    assert hidden.max_nanoseconds == STALL
    assert longest_ns(closed_loop.driver.silences) == STALL
    assert longest_ns(open_loop.driver.silences) == 0


@pytest.mark.parametrize("clients", [1, 4])
def test_a_closed_loop_counts_every_query_and_loses_none(clients: int) -> None:
    """Each client has one query in the stall; every other takes the service time."""
    step = replace(A_STEP, min_duration_ns=20 * SECOND, loop=Closed(clients))
    drill = Drill(StallingServer(), step, milli_qps=None, connections=clients)
    tallied = drill.run()
    count = len(drill.server.sent)
    expected = np.full(count, SERVICE)
    expected[:clients] = STALL
    # The other clients were sent their query a service time before the stall began, or with it.
    assert tallied.latency.count == count
    assert tallied.latency.max_ns == STALL
    assert tallied.errors == {}
    if clients == 1:
        assert_exact(tallied.latency, expected)
