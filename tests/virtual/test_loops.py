"""Closed loops, bursts, traces and offline send exactly what they promise, on a virtual clock."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inferometer_api.scenarios.step_setting import Arrivals, Bursts, Closed, Steady, TraceArrivals
from inferometer_loadgen.drive.prepare import schedules_of
from inferometer_loadgen.schedule.steps import WHOLE_LOAD, LoadShare
from support.drills import A_STEP, Drill, after
from support.exact import SECOND, assert_exact, poisson_schedule, within
from support.oracle_process import Integers
from support.simulated import MILLISECOND, Answer

SEED = 4_711
SECONDS = 6
STEP = replace(A_STEP, min_duration_ns=SECONDS * SECOND, seed=SEED)


def drilled(arrivals: Arrivals, share: LoadShare = WHOLE_LOAD) -> Drill:
    """Drive an open loop by the product's own schedules for these arrivals."""
    drill = Drill(
        after(5 * MILLISECOND),
        STEP,
        connections=500,
        schedules=schedules_of(arrivals, SEED, share),
    )
    drill.run()
    return drill


def sent_at(drill: Drill) -> Integers:
    """Return when each query left, from the start of the window."""
    return np.array([sent.at_ns for sent in drill.server.sent]) - drill.driver.window_ns


def phase(number: int, begin: int, end: int, rate: int) -> Integers:
    """Return the arrivals of a burst's phase as documented, made anew."""
    sequence = np.random.SeedSequence(SEED, spawn_key=(3, 0, number))
    gaps = np.random.Generator(np.random.PCG64(sequence)).standard_exponential(4000)
    offsets = np.rint(gaps * (SECOND / rate)).astype(np.int64).cumsum()
    found: Integers = begin * SECOND + offsets[offsets < (end - begin) * SECOND]
    return found


BURSTS = Bursts(50_000, 400_000, SECOND, 2 * SECOND)


def test_bursts_are_the_documented_phases() -> None:
    """Each phase is a Poisson process of its own stream, and every query leaves on time."""
    drill = drilled(BURSTS)
    expected = np.concatenate(
        [phase(second, second, second + 1, 400 if second % 2 == 0 else 50) for second in range(6)]
    )
    assert (sent_at(drill) == expected).all()
    assert drill.recorder.statistics.scheduled == len(expected)
    windows = drill.recorder.statistics.windows.report(open_loop=True)
    counts = np.histogram(expected, np.arange(7) * SECOND)[0]
    assert [window.scheduled for window in windows] == counts.tolist()


def test_constant_arrivals_have_equal_gaps() -> None:
    """The k-th query leaves at the whole nanosecond below k/rate."""
    drill = drilled(Steady("Constant", 150_500))
    expected = np.array([k * 10**12 // 150_500 for k in range(2000)])
    assert (sent_at(drill) == within(expected, SECONDS)).all()


def test_poisson_arrivals_are_those_of_the_seed() -> None:
    """The schedule is PCG64's for the seed, made anew here."""
    drill = drilled(Steady("Poisson", 300_000))
    assert (sent_at(drill) == within(poisson_schedule(SEED, 300, 4000), SECONDS)).all()


@pytest.mark.parametrize("arrivals", [BURSTS, Steady("Poisson", 300_000)], ids=["burst", "poisson"])
@pytest.mark.parametrize("workers", [2, 3])
def test_shares_of_a_fleet_join_to_the_schedule(arrivals: Arrivals, workers: int) -> None:
    """Worker i sends the queries k with k % workers == i, each at its own time."""
    whole = sent_at(drilled(arrivals))
    for index in range(workers):
        assert (
            sent_at(drilled(arrivals, LoadShare(index, workers))) == whole[index::workers]
        ).all()


def test_a_trace_is_replayed_to_its_last_query(tmp_path: Path) -> None:
    """Each recorded time, scaled, is one query; equal times are sent at once."""
    file = tmp_path / "arrivals.csv"
    file.write_text("0\n0.0\n0.005\n0.009\n1.2\n1.201\n1.21\n2.95\n")
    drill = drilled(TraceArrivals(str(file), 500))
    expected = np.array([0, 0, 5, 9, 1200, 1201, 1210, 2950]) * MILLISECOND // 2
    assert (sent_at(drill) == expected).all()
    assert_exact(drill.recorder.statistics.latency, np.full(8, 5 * MILLISECOND))
    assert drill.driver.duration_ns == expected[-1]


@pytest.mark.parametrize("clients", [1, 3, 8])
def test_clients_obey_littles_law(clients: int) -> None:
    """Answers in the window are clients times duration over the service time, exactly."""
    service = 20 * MILLISECOND
    drill = Drill(after(service), replace(STEP, loop=Closed(clients)), None, connections=clients)
    tallied = drill.run()
    # The window ends with the answer that makes it long enough; the others come with it.
    assert drill.driver.duration_ns == SECONDS * SECOND
    rounds = SECONDS * SECOND // service
    assert len(drill.server.sent) == clients * rounds
    assert_exact(tallied.latency, np.full(clients * rounds, service))
    assert clients * (rounds - 1) < tallied.answered_within <= clients * rounds


def test_a_clients_latencies_are_the_servers_times() -> None:
    """One query after another: each latency is the delay of its own reply, to the nanosecond."""
    delays = np.rint(np.random.default_rng(SEED).exponential(7e6, 5000)).astype(np.int64) + 1
    drill = Drill(
        lambda index, _: Answer(int(delays[index])), replace(STEP, loop=Closed(1)), milli_qps=None
    )
    tallied = drill.run()
    count = len(drill.server.sent)
    assert_exact(tallied.latency, delays[:count])
    assert drill.driver.duration_ns == delays[:count].sum()
    assert delays[: count - 1].sum() < SECONDS * SECOND <= delays[:count].sum()


@pytest.mark.parametrize(("connections", "streams"), [(1, 1), (2, 3), (7, 1)])
def test_offline_sends_its_samples_once_and_as_fast_as_there_is_room(
    connections: int, streams: int
) -> None:
    """So many queries at a time, none twice; the duration is that of the last round."""
    total, service = 401, 10 * MILLISECOND
    step = replace(STEP, min_queries=total, loop=Closed(None, total))
    drill = Drill(after(service), step, None, connections=connections, capacity=streams)
    tallied = drill.run()
    assert len(drill.server.sent) == tallied.latency.count == total
    assert drill.driver.duration_ns == -(-total // (connections * streams)) * service
