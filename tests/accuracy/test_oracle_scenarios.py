"""The counts and times of every scenario are those of a server that knows the answers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import ScenarioResult, Step
from support.agreement import above, below, closed_loop_bounds, latencies
from support.load_runs import a_plan, measure
from support.numbered import NUMBERED, numbered_file
from support.oracle_process import Integers, OracleProcess, Seen, oracle_process

MS = 1_000_000
SECOND = 1_000_000_000
SEED = 4_711
MEAN_DELAY_NS = 6 * MS
LONG_NS = 200 * MS
"""So much longer every other query of several clients is delayed: all wait at once then, also on a
machine so busy that the oracle takes up few requests a second."""
MANY_STREAMS = {"connections": 1, "streamsPerConnection": 1000}
HELD_UP_NS = 50 * MS
"""More than the wire costs; a machine that is busy holds few replies up for so long."""
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    """Give an oracle that all tests of this file give orders to in turn."""
    with oracle_process() as running:
        yield running


def delays(sometimes_ns: int = 0) -> Integers:
    """Return exponential delays, to one in two of which so much is added."""
    random = np.random.default_rng(SEED)
    usually = np.rint(random.exponential(MEAN_DELAY_NS, 4096)).astype(np.int64)
    return usually + np.where(random.random(4096) < 0.5, sometimes_ns, 0)


def steps_and_seen(
    oracle: OracleProcess, plan: LoadPlan, sometimes_ns: int = 0
) -> tuple[ScenarioResult, list[tuple[Step, Seen]]]:
    """Measure one scenario; return it, and each step with what the oracle saw of its window."""
    oracle.obey(delays(sometimes_ns))
    run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    (scenario,) = run.scenarios
    seen = oracle.report()
    windows = []
    first = 0
    for step in scenario.steps:
        first += step.warm_up_queries
        windows.append((step, seen[first : first + step.counts.queries]))
        first += step.counts.queries
        assert step.counts.failed == 0
    assert first == len(seen)
    assert (seen.sent > 0).all()
    return scenario, windows


@dataclass(frozen=True, slots=True)
class ClosedCase:
    """A scenario, and of each step its samples per query and its clients."""

    scenario: Mapping[str, Any]
    samples: tuple[int, ...]
    clients: tuple[int, ...]


CLOSED = {
    "batch": ClosedCase({"batchSizes": [1, 4]}, (1, 4), (1, 1)),
    "multiStream": ClosedCase({"samplesPerQuery": 8}, (8,), (1,)),
    "concurrency": ClosedCase({"clients": [1, 4, 8]}, (1, 1, 1), (1, 4, 8)),
    "offline": ClosedCase({"samples": 1603, "batchSize": 4}, (4,), (8,)),
}


@BOTH
@pytest.mark.parametrize("kind", CLOSED)
def test_closed_loops_agree_step_by_step(
    oracle: OracleProcess,
    note: Callable[[str], None],
    protocol: str,
    kind: str,
) -> None:
    """Each step's queries and samples are the oracle's, and no time is outside its gaps."""
    case = CLOSED[kind]
    streams = 1 if protocol == "HTTP" else 4
    plan = a_plan(
        oracle.url(protocol),
        {kind: case.scenario},
        load={"connections": 8 // streams, "streamsPerConnection": streams},
        validity={"minDurationSeconds": 2 * len(case.clients)},
    )
    _, windows = steps_and_seen(oracle, plan, LONG_NS if max(case.clients) > 1 else 0)
    for (step, seen), of_query, outstanding in zip(
        windows, case.samples, case.clients, strict=True
    ):
        assert (seen.samples == of_query).all()
        assert step.counts.samples == seen.samples.sum()
        connections = min(8 // streams, outstanding) if protocol == "GRPC" else outstanding
        assert len(np.unique(seen.connection)) == connections
        assert most_at_once(seen) == outstanding
        assert step.latency is not None
        ours = latencies(step.latency)
        most = closed_loop_bounds(seen, outstanding // connections)
        assert below(ours, seen.own) == 0
        assert above(ours, most) == 0
        # The window ends with the answer that makes it long enough, while the other clients wait.
        within = len(seen) if kind == "offline" else len(seen) - (outstanding - 1)
        seconds_long = step.duration_nanoseconds / SECOND
        assert round(step.achieved_qps * seconds_long, 3) == within
        assert step.duration_nanoseconds >= np.sort(seen.sent)[within - 1] - seen.received[0]
        known = most < SECOND
        cost = np.median((most - seen.own)[known]) / 1000
        note(f"{step.label or 'seed ' + str(SEED)}: {len(seen)} queries, wire <= {cost:.0f} us")


def most_at_once(seen: Seen) -> int:
    """Return how many inferences the oracle had at once, at most."""
    times = np.concatenate((seen.received, seen.sent))
    change = np.repeat([1, -1], len(seen))
    return int(change[np.argsort(times, kind="stable")].cumsum().max())


def test_offline_sends_each_sample_once(oracle: OracleProcess) -> None:
    """Samples that fill no whole batch are rounded up to one, and none is sent twice."""
    plan = a_plan(oracle.url("HTTP"), {"offline": {"samples": 1603, "batchSize": 4}})
    _, ((step, seen),) = steps_and_seen(oracle, plan)
    assert step.counts.queries == len(seen) == 401


def schedule_of(kind: str) -> Integers:
    """Return the arrivals within 3 s, made anew from what the documentation says."""
    if kind == "constant":
        return np.arange(3 * 150, dtype=np.int64) * SECOND // 150
    if kind == "trace":
        return np.array([0, 0, 5, 9, 1200, 1201, 1210, 2950], dtype=np.int64) * MS // 2
    return np.concatenate([_phase(0, 0, 1, 400), _phase(1, 1, 2, 50), _phase(2, 2, 3, 400)])


def _phase(number: int, begin: int, end: int, rate: int) -> Integers:
    sequence = np.random.SeedSequence(SEED, spawn_key=(3, 0, number))
    gaps = np.random.Generator(np.random.PCG64(sequence)).standard_exponential(2000)
    offsets = np.rint(gaps * (SECOND / rate)).astype(np.int64).cumsum()
    within: Integers = begin * SECOND + offsets[offsets < (end - begin) * SECOND]
    return within


OPEN: dict[str, Mapping[str, Any]] = {
    "constant": {"server": {"targetQps": 150, "arrivals": "Constant"}},
    "burst": {"burst": {"baseQps": 50, "burstQps": 400, "burstSeconds": 1, "periodSeconds": 2}},
    "trace": {"trace": {"uri": "file:arrivals.csv", "timeScale": "0.5"}},
}


@pytest.mark.parametrize("kind", OPEN)
def test_open_loops_keep_to_their_schedule(
    oracle: OracleProcess,
    note: Callable[[str], None],
    require_quiet: Callable[[], None],
    kind: str,
    tmp_path: Path,
) -> None:
    """Exactly the queries of the schedule are sent, none early, and each counts from its time.

    From above that is held to what the wire cannot cost; test_oracle_agreement.py is exact there.
    """
    arrivals = tmp_path / "arrivals.csv"
    arrivals.write_text("0\n0.0\n0.005\n0.009\n1.2\n1.201\n1.21\n2.95\n")
    plan = a_plan(
        oracle.url("GRPC"),
        OPEN[kind],
        load={"seed": SEED, **MANY_STREAMS, **NUMBERED},
        validity={"minDurationSeconds": 3},
        inputs_file=numbered_file(tmp_path),
    ).model_copy(update={"trace_files": {"s0": str(arrivals)}})
    _, ((step, seen),) = steps_and_seen(oracle, plan)
    offsets = schedule_of(kind)
    assert step.counts.scheduled == len(seen) == len(offsets)
    assert (seen.number >= 0).all()
    seen = seen[np.argsort(seen.number)]
    began = int((seen.received - offsets).min())
    least = seen.sent - (began + offsets)
    assert step.latency is not None
    ours = latencies(step.latency)
    assert below(ours, least) == 0
    # How late each came to the oracle, after the quickest.
    late = (seen.received - offsets - began) / 1000
    note(f"seed {SEED}, {len(seen)} queries, late by {np.median(late):.0f} us in the median")
    require_quiet()
    assert above(ours, least + HELD_UP_NS, len(seen) // 10) == 0
