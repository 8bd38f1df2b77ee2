"""The load generator measures the waiting times of queueing theory over real sockets.

tests/virtual proves the same without sockets, exactly. The oracle is one server with a queue, first
come, first served. It computes departures on its clock (a service begins at the later of receipt
and last departure), so that late timers add no load.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import pytest
from numpy.random import SeedSequence

from inferometer_api.results.result import Step
from support.agreement import Latencies, above, below, latencies
from support.load_runs import a_plan, measure
from support.numbered import NUMBERED, QUERIES, numbered_file, query_places
from support.oracle_process import Integers, OracleProcess, Seen, oracle_process
from support.queues import Queue, departures, finite_run_means, known_mean_seconds

MS = 1_000_000
SECOND = 1_000_000_000
SEED = 20_261_121
WARM_UP_SECONDS = 1
SECONDS = 10
CONFIDENCE = 0.999
SERVICE_SECONDS = {0.3: 0.01, 0.6: 0.005, 0.8: 0.004}
"""By utilisation: where queries hardly wait, the wire's cost must be small next to a service;
where they wait long, the more of them there are, the better their mean is known."""
MARGIN = 1.5
"""A latency has at most so many times the mean gap more than what the oracle saw of it. By the ways
that a gap holds it would be 1; latencies half a millisecond too long are noticed with 1.5."""
MANY_STREAMS = {"connections": 1, "streamsPerConnection": 1000}


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    """Give an oracle that all tests of this file give orders to in turn."""
    with oracle_process() as running:
        yield running


@dataclass(frozen=True, slots=True)
class Run:
    """An open loop over gRPC; queries are in the order of the schedule, the warm-up's first."""

    step: Step
    everything: Seen
    """All that the oracle received, in the order of receipt."""
    places: Integers
    """Which of these each query was."""
    dues: Integers
    """When each was due, on the oracle's clock: late by what the window's quickest took to come."""

    @property
    def window(self) -> slice:
        """Which of the queries are the window's."""
        return slice(-self.step.counts.queries, None)

    @property
    def seen(self) -> Seen:
        """What the oracle saw of the window."""
        return self.everything[self.places[self.window]]

    @property
    def due(self) -> Integers:
        """When each query of the window was due."""
        return self.dues[self.window]

    @property
    def ours(self) -> Latencies:
        """Our latencies."""
        assert self.step.latency is not None
        return latencies(self.step.latency)

    @property
    def oracles(self) -> Integers:
        """From when each was due until its reply left: what a latency cannot be less than."""
        return self.seen.sent - self.due


def schedule(stream: SeedSequence, rate: float, count: int) -> Integers:
    """Return the schedule as documented: exponential gaps of PCG64, each in whole nanoseconds."""
    gaps = np.random.Generator(np.random.PCG64(stream)).standard_exponential(count)
    offsets: Integers = np.rint(gaps * (SECOND * 1000 / round(rate * 1000))).astype(np.int64)
    return offsets.cumsum()


def open_loop(oracle: OracleProcess, rate: float, seconds: int, warm_up_seconds: int = 0) -> Run:
    """Measure the oracle at a rate, with Poisson arrivals, the k-th query sending the number k."""
    with TemporaryDirectory() as folder:
        plan = a_plan(
            oracle.url("GRPC"),
            {"server": {"targetQps": rate}},
            load={"seed": SEED, **MANY_STREAMS, **NUMBERED},
            validity={"minDurationSeconds": seconds, "warmUpSeconds": warm_up_seconds},
            inputs_file=numbered_file(Path(folder)),
        )
        run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    (scenario,) = run.scenarios
    (step,) = scenario.steps
    everything = oracle.report()
    assert len(everything) == step.counts.queries + step.warm_up_queries
    places = query_places(everything)
    count = step.counts.queries
    assert step.counts.succeeded == step.counts.scheduled == count
    before = schedule(SeedSequence(SEED, spawn_key=(1,)), rate, len(places) - count)
    due = schedule(SeedSequence(SEED), rate, count)
    # No query is sent before it is due: so the window began no later than this.
    began = int((everything.received[places[-count:]] - due).min())
    dues = began + np.concatenate((before - warm_up_seconds * SECOND, due))
    return Run(step, everything, places, dues)


def wire_gaps(oracle: OracleProcess, delay_ns: int) -> Integers:
    """Return, by the oracle's clock alone, the times from each reply until the next query came.

    One query is sent at a time, so such a gap holds a way back, the client's own time and a way
    here: more than what the wire adds to a latency beyond the time since the query was due. The
    delay lets client and oracle go to sleep as they do between the queries of an open loop.
    """
    oracle.obey([delay_ns])
    plan = a_plan(oracle.url("GRPC"), {"singleStream": {}}, validity={"minDurationSeconds": 1})
    (scenario,) = measure(plan).scenarios
    (step,) = scenario.steps
    seen = oracle.report()[step.warm_up_queries :]
    return seen.received[1:] - seen.sent[:-1]


@pytest.mark.parametrize("utilisation", SERVICE_SECONDS)
@pytest.mark.parametrize("kind", ["M/D/1", "M/M/1"])
def test_waits_are_those_of_a_queue(
    oracle: OracleProcess,
    note: Callable[[str], None],
    require_quiet: Callable[[], None],
    kind: Literal["M/D/1", "M/M/1"],
    utilisation: float,
) -> None:
    """Each wait is Lindley's over the oracle's receipts, and the mean is what theory knows."""
    queue = Queue(kind, utilisation, SERVICE_SECONDS[utilisation])
    services = queue.services(np.random.default_rng(SEED), QUERIES)
    delay_ns = round(queue.service_seconds * SECOND)
    gaps = wire_gaps(oracle, delay_ns)
    oracle.obey(services, is_queue=True)
    run = open_loop(oracle, queue.rate, SECONDS, WARM_UP_SECONDS)
    gaps = np.concatenate((gaps, wire_gaps(oracle, delay_ns)))
    ours = run.ours

    # The oracle kept to the recursion.
    everything = run.everything
    assert (everything.due == departures(everything.received, services[: len(everything)])).all()
    assert (everything.sent >= everything.due).all()

    # Nothing we measured is less than what the recursion says.
    assert below(ours, run.oracles) == 0

    # The mean of this schedule, had nothing been late, lies where that of 99.9 of 100 runs does.
    means = finite_run_means(queue, WARM_UP_SECONDS, SECONDS, SEED)
    least, most = np.quantile(means, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)) * SECOND
    known = known_mean_seconds(queue) * SECOND
    assert abs(means.mean() * SECOND / known - 1) < 0.02
    ideal = (departures(run.dues, services[run.places]) - run.dues)[run.window].mean()
    assert least <= ideal <= most

    assert run.step.latency is not None
    measured = run.step.latency.mean_nanoseconds
    beyond = measured - run.oracles.mean()
    note(
        f"seed {SEED}, known mean {known / MS:.3f} ms, of a run {least / MS:.3f} to "
        f"{most / MS:.3f} ms, of this schedule {ideal / MS:.3f} ms, measured "
        f"{measured / MS:.3f} ms, {beyond / MS:.3f} ms beyond the oracle's; between a reply and "
        f"the next query {gaps.mean() / MS:.3f} ms"
    )
    assert beyond >= -1
    require_quiet()
    # What the oracle did not see of a latency is what the wire costs.
    assert beyond <= MARGIN * gaps.mean()
    assert above(ours, run.oracles + int(np.quantile(gaps, 0.99)), len(run.seen) // 10) == 0
    # Less the wire's cost, the measured mean lies where theory has 99.9 of 100 runs.
    assert least <= measured - gaps.mean() <= most


def test_a_stall_is_in_every_latency_that_it_held_up(
    oracle: OracleProcess, note: Callable[[str], None], require_quiet: Callable[[], None]
) -> None:
    """Queries due while the server stands still wait from when they were due, whenever sent."""
    stall_ns = 700 * MS
    gaps = wire_gaps(oracle, 5 * MS)
    oracle.obey([2 * MS], stall=(100, stall_ns))
    run = open_loop(oracle, 200, 2)
    stalled_until = int(run.everything.received[100]) + stall_ns
    held = (run.due < stalled_until) & (run.due >= stalled_until - stall_ns)
    assert held.sum() > 100
    ideal = np.maximum(2 * MS, np.where(held, stalled_until - run.due, 0))
    assert below(run.ours, ideal) == 0
    assert below(run.ours, run.oracles) == 0
    note(f"seed {SEED}, {held.sum()} of {len(held)} queries held up, none measured as less")
    require_quiet()
    assert above(run.ours, run.oracles + int(np.quantile(gaps, 0.99)), len(ideal) // 10) == 0
