"""Is every scenario driven as it says, over both protocols, at a server that knows the answers?"""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import Step
from support.load_runs import LoadRun, a_plan, measure
from support.oracle import Oracle, fixed, serving

BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
MS = 1_000_000


def run_of(protocol: str, oracle: Oracle, *scenarios: Mapping[str, Any], **more: Any) -> LoadRun:
    """Measure an oracle; the run must end well, and the counts must be the oracle's."""
    with serving(oracle):
        run = measure(a_plan(oracle.url(protocol), *scenarios, **more))
    assert run.outcome.state == "Complete", run.outcome.message
    steps = [step for scenario in run.scenarios for step in scenario.steps]
    assert all(step.counts.failed == 0 for step in steps)
    sent = sum(step.counts.queries + step.warm_up_queries for step in steps)
    assert sent == len(oracle.answered)
    return run


@BOTH
def test_clients_are_outstanding_at_a_time(protocol: str) -> None:
    """Each number of clients is a step, whose rate is Little's law for a server of fixed delay."""
    oracle = Oracle(law=fixed(0.02))
    run = run_of(
        protocol,
        oracle,
        {"concurrency": {"clients": [1, 4, 9]}},
        load={"connections": 2},
        validity={"warmUpSeconds": 1, "minDurationSeconds": 3},
    )
    (scenario,) = run.scenarios
    assert [step.label for step in scenario.steps] == ["clients 1", "clients 4", "clients 9"]
    for step, clients in zip(scenario.steps, (1, 4, 9), strict=True):
        assert step.latency is not None
        outstanding = step.achieved_qps * step.latency.mean_nanoseconds / 1e9
        # What a pause of the process takes off at one edge or adds at the other.
        edges = step.latency.max_nanoseconds + (step.longest_silence_nanoseconds or 0)
        held_up = edges / step.duration_nanoseconds
        assert outstanding == pytest.approx(clients, rel=0.02 + held_up)


@BOTH
def test_offline_sends_its_samples_once(protocol: str) -> None:
    """The samples are sent in batches, as many at a time as the connections have room for."""
    oracle = Oracle(law=fixed(0.01))
    run = run_of(
        protocol,
        oracle,
        {"offline": {"samples": 1000, "batchSize": 8}},
        load={"connections": 2, "streamsPerConnection": 3},
        validity={"warmUpSeconds": 1},
    )
    step = only_step(run)
    assert step.counts.queries == 125
    assert step.counts.samples == 1000
    assert {query.samples for query in oracle.answered[3:]} == {8}
    room = 2 if protocol == "HTTP" else 6
    assert step.drain_nanoseconds == 0
    least_ns = -(-125 // room) * 10 * MS
    assert step.duration_nanoseconds >= least_ns
    assert step.achieved_samples_per_second == pytest.approx(1000 * 1e9 / step.duration_nanoseconds)


@BOTH
def test_a_query_of_multi_stream_has_all_its_samples(protocol: str) -> None:
    """One query of so many samples at a time, the next when it is answered."""
    oracle = Oracle(law=fixed(0.005))
    run = run_of(protocol, oracle, {"multiStream": {"samplesPerQuery": 5}})
    step = only_step(run)
    assert {query.samples for query in oracle.answered} == {5}
    assert step.counts.samples == 5 * step.counts.queries
    ordered = sorted(oracle.answered, key=lambda query: query.received_ns)
    assert all((before.sent_ns or 0) <= after.received_ns for before, after in pairwise(ordered))


@BOTH
def test_a_burst_is_at_the_start_of_each_period(protocol: str) -> None:
    """Seconds of a burst have its rate, the others the low one."""
    run = run_of(
        protocol,
        Oracle(law=fixed(0.002)),
        {"burst": {"baseQps": 20, "burstQps": 400, "burstSeconds": 1, "periodSeconds": 2}},
        validity={"minDurationSeconds": 4},
    )
    step = only_step(run)
    scheduled = [window.scheduled or 0 for window in step.windows]
    assert len(scheduled) >= 4
    # A second has what was sent in it: what was sent late may count in the next.
    assert step.dispatch_lag is not None
    late = 400 * step.dispatch_lag.max_nanoseconds / 1e9
    assert min(scheduled[0], scheduled[2]) > 300 - late
    assert max(scheduled[1], scheduled[3]) < 60 + late
    assert step.counts.scheduled == step.counts.queries


@BOTH
def test_a_trace_is_replayed_to_its_end(protocol: str, tmp_path: Path) -> None:
    """Each recorded time is a query, scaled in time; the window ends with the last of them."""
    times = [0.1 * k for k in range(20)]
    path = tmp_path / "arrivals.csv"
    path.write_text("".join(f"{time:.6f}\n" for time in times))
    oracle = Oracle(law=fixed(0.002))
    with serving(oracle):
        plan = a_plan(
            oracle.url(protocol), {"trace": {"uri": "file:arrivals.csv", "timeScale": "0.5"}}
        )
        run = measure(plan.model_copy(update={"trace_files": {"s0": str(path)}}))
    assert run.outcome.state == "Complete", run.outcome.message
    step = only_step(run)
    assert step.counts.scheduled == step.counts.succeeded == 20
    assert step.duration_nanoseconds == 950 * MS
    gaps = [
        after.received_ns - before.received_ns for before, after in pairwise(oracle.answered[3:])
    ]
    assert step.latency is not None
    # Each came after it was due, and by no more than its latency.
    assert abs(sum(gaps) - 950 * MS) <= step.latency.max_nanoseconds


def test_spinning_keeps_the_schedule_and_reads_replies() -> None:
    """A pacer that spins sends every query that is due, and takes every reply."""
    run = run_of(
        "HTTP",
        Oracle(law=fixed(0.001)),
        {"server": {"targetQps": 300, "arrivals": "Constant"}},
        load={"pacing": "Spin"},
    )
    step = only_step(run)
    assert step.counts.succeeded == step.counts.scheduled == 300
    assert step.dispatch_lag is not None


def only_step(run: LoadRun) -> Step:
    """Return the step of a run that has one."""
    (scenario,) = run.scenarios
    (step,) = scenario.steps
    return step
