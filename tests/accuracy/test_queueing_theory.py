"""Do we measure the waiting times that queueing theory knows?

The oracle is one server with a queue, first come, first served. It reckons departures on its clock
(a service begins at the later of receipt and last departure), so that late timers add no load.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from inferometer_api.result import Step
from support.agreement import Latencies, above, below, latencies
from support.load_runs import a_plan, measure
from support.oracle_process import Integers, OracleProcess, Seen, oracle_process
from support.queues import Queue, departures, finite_run_means, known_mean_seconds

MS = 1_000_000
SECOND = 1_000_000_000
SEED = 20_261_121
WARM_UP_SECONDS = 1
SECONDS = 10
TABLE = 8192
"""Services drawn, more than are needed."""
CONFIDENCE = 0.999
SERVICE_SECONDS = 0.004
MANY_STREAMS = {"connections": 1, "streamsPerConnection": 1000}


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    """Give an oracle that all tests of this file give orders to in turn."""
    with oracle_process() as running:
        yield running


@dataclass(frozen=True, slots=True)
class Run:
    """An open loop over gRPC on one connection: receipts come in the order of the schedule."""

    step: Step
    seen: Seen
    """Of the window."""
    first: int
    """The oracle's number of the window's first inference."""
    due: Integers
    """When each was due, on the oracle's clock: late by what the quickest one took to come."""

    @property
    def ours(self) -> Latencies:
        """Our latencies."""
        assert self.step.latency is not None
        return latencies(self.step.latency)

    @property
    def oracles(self) -> Integers:
        """From when each was due until its reply left: what a latency cannot be less than."""
        return self.seen.sent - self.due


def schedule(rate: float, count: int) -> Integers:
    """Return the schedule as documented: exponential gaps of PCG64, each in whole nanoseconds."""
    gaps = np.random.Generator(np.random.PCG64(SEED)).standard_exponential(count)
    offsets: Integers = np.rint(gaps * (SECOND * 1000 / round(rate * 1000))).astype(np.int64)
    return offsets.cumsum()


def open_loop(oracle: OracleProcess, rate: float, seconds: int, warm_up_seconds: int = 0) -> Run:
    """Measure the oracle at a rate, with Poisson arrivals."""
    plan = a_plan(
        oracle.url("GRPC"),
        {"server": {"targetQps": rate}},
        load={"seed": SEED, **MANY_STREAMS},
        validity={"minDurationSeconds": seconds, "warmUpSeconds": warm_up_seconds},
    )
    run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    (step,) = run.scenarios[0].steps
    seen = oracle.report()
    assert len(seen) == step.counts.queries + step.warm_up_queries
    seen = seen[step.warm_up_queries :]
    assert step.counts.succeeded == step.counts.scheduled == len(seen)
    due = schedule(rate, len(seen))
    # No query is sent before it is due: so the window began no later than this.
    began = int((seen.received - due).min())
    return Run(step, seen, step.warm_up_queries, began + due)


def wires_cost(oracle: OracleProcess, rate: float) -> Integers:
    """Return latencies, sorted, of queries that are answered at once: what the wire costs."""
    oracle.obey()
    return open_loop(oracle, rate, 1).ours.high


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("kind", ["M/D/1", "M/M/1"])
def test_waits_are_those_of_a_queue(
    oracle: OracleProcess,
    tell: Callable[[str], None],
    kind: Literal["M/D/1", "M/M/1"],
    utilisation: float,
) -> None:
    """Each wait is Lindley's over the oracle's receipts, and the mean is what theory knows."""
    queue = Queue(kind, utilisation, SERVICE_SECONDS)
    services = queue.services(np.random.default_rng(SEED), TABLE)
    cost = wires_cost(oracle, queue.rate)
    oracle.obey(services, is_queue=True)
    run = open_loop(oracle, queue.rate, SECONDS, WARM_UP_SECONDS)
    cost = np.sort(np.concatenate((cost, wires_cost(oracle, queue.rate))))
    ours, seen = run.ours, run.seen

    # The oracle kept to the recursion.
    mine = services[run.first : run.first + len(seen)]
    backlog = int(seen.due[0] - mine[0])
    assert (seen.due == departures(seen.received, mine, backlog)).all()
    assert (seen.sent >= seen.due).all()

    # Nothing we measured is less than what the recursion says, and hardly anything is more than
    # that and the slowest query that was answered at once; a tenth may be, where others on this
    # machine took its cores meanwhile.
    assert below(ours, run.oracles) == 0
    exceptions = len(seen) // 10
    assert above(ours, run.oracles + cost[-1], exceptions) == 0

    # The mean lies where that of 99.9 of 100 runs of this length lies. Queries come later than they
    # were due; what that adds to the oracle's own times is known from them, and taken off.
    means = finite_run_means(queue, WARM_UP_SECONDS, SECONDS, SEED)
    least, most = np.quantile(means, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)) * SECOND
    known = known_mean_seconds(queue) * SECOND
    assert abs(means.mean() * SECOND / known - 1) < 0.02
    assert run.step.latency is not None
    ideal = departures(run.due, mine, backlog) - run.due
    disturbance = run.oracles.mean() - ideal.mean()
    mean = run.step.latency.mean_nanoseconds - disturbance
    tell(
        f"seed {SEED}, known mean {known / MS:.3f} ms, of a run "
        f"{least / MS:.3f} to {most / MS:.3f} ms, ours {mean / MS:.3f} ms with the wire's "
        f"{cost.mean() / MS:.3f} ms, after {disturbance / MS:.3f} ms of disturbance"
    )
    assert least <= mean <= most + cost.mean()


def test_a_stall_is_in_every_latency_that_it_held_up(
    oracle: OracleProcess, tell: Callable[[str], None]
) -> None:
    """Queries due while the server stands still wait from when they were due, whenever sent."""
    stall_ns = 700 * MS
    cost = wires_cost(oracle, 200)
    oracle.obey([2 * MS], stall=(100, stall_ns))
    run = open_loop(oracle, 200, 2)
    stalled_until = int(run.seen.received[100 - run.first]) + stall_ns
    held = (run.due < stalled_until) & (run.due >= stalled_until - stall_ns)
    assert held.sum() > 100
    ideal = np.maximum(2 * MS, np.where(held, stalled_until - run.due, 0))
    assert below(run.ours, ideal) == 0
    assert below(run.ours, run.oracles) == 0
    assert above(run.ours, run.oracles + cost[-1], len(ideal) // 10) == 0
    tell(f"seed {SEED}, {held.sum()} of {len(held)} queries held up, none measured as less")
