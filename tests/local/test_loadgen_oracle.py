"""Do the load generator's figures agree with a server that knows the answers?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types

from inferometer_api.results.result import ScenarioResult, Step
from inferometer_loadgen.schedule.arrivals import Poisson, Stream, generator
from support.load_runs import LoadRun, a_plan, measure
from support.oracle import Fault, Oracle, exponential, fixed, serving, stalling

MS = 1_000_000
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])


def run_of(protocol: str, oracle: Oracle, *scenarios: Mapping[str, Any], **more: Any) -> LoadRun:
    """Measure an oracle; the run must end well."""
    with serving(oracle):
        run = measure(a_plan(oracle.url(protocol), *scenarios, **more))
    assert (run.exit_code, run.outcome.state) == (0, "Complete"), run.outcome.message
    return run


def only_step(scenario: ScenarioResult) -> Step:
    """Return the step of a scenario that has one."""
    (step,) = scenario.steps
    return step


def percentile(step: Step, wanted: float, *, service: bool = False) -> int:
    """Return a percentile of the latency or the service time."""
    times = step.service_time if service else step.latency
    assert times is not None
    return next(v.nanoseconds for v in times.percentiles if v.percentile == wanted)


@BOTH
def test_every_scenario_counts_what_the_server_saw(protocol: str) -> None:
    """Queries, samples and warm-up add up to the requests that the oracle received, exactly."""
    oracle = Oracle(law=fixed(0.005), settings={"inferometer.threads": "3"})
    run = run_of(
        protocol,
        oracle,
        {"singleStream": {}},
        {"server": {"targetQps": 100}},
        {"batch": {"batchSizes": [1, 4]}},
        validity={"warmUpSeconds": 1},
    )
    steps = [step for scenario in run.scenarios for step in scenario.steps]
    assert [step.label for step in steps] == ["", "", "batch 1", "batch 4"]
    assert all(step.counts.failed == 0 for step in steps)
    requests = sum(step.counts.queries + step.warm_up_queries for step in steps)
    assert requests == len(oracle.answered) == len(oracle.well)
    fours = sum(query.samples == 4 for query in oracle.answered)
    assert steps[3].counts.queries + steps[3].warm_up_queries == fours
    assert steps[3].counts.samples == 4 * steps[3].counts.queries
    assert run.environment is not None
    assert run.environment.server.name == "oracle"
    assert run.environment.server.settings == {"threads": "3"}
    assert [tensor.name for tensor in run.environment.model.outputs] == ["y"]
    assert {report.stage for report in run.progress} >= {"Measuring", "WarmUp"}


@BOTH
def test_latency_is_the_oracles_own_and_the_wire(protocol: str) -> None:
    """Each query takes at least its delay by the law, and the totals differ by the wire alone."""
    oracle = Oracle(law=exponential(0.01, seed=5))
    step = only_step(run_of(protocol, oracle, {"singleStream": {}}).scenarios[0])
    assert step.latency is not None
    measured = oracle.answered[step.warm_up_queries :]
    assert len(measured) == step.latency.count
    delays = [(query.sent_ns or 0) - query.received_ns for query in measured]
    assert step.latency.min_nanoseconds >= min(delays)
    assert step.latency.max_nanoseconds >= max(delays)
    assert step.latency.mean_nanoseconds * len(delays) >= sum(delays) - len(delays)
    # One query at a time: all latencies together cannot be longer than the window.
    assert step.latency.mean_nanoseconds * len(delays) <= step.duration_nanoseconds + len(delays)
    decoded = HdrHistogram.decode(step.latency.histogram)
    assert decoded.total_count == step.latency.count
    assert decoded.get_value_at_percentile(50) == percentile(step, 50)


@BOTH
def test_server_sends_the_schedule_of_its_seed(protocol: str) -> None:
    """The queries of the window are those of the seed's schedule, and none comes too early."""
    oracle = Oracle()
    scenario = {"server": {"targetQps": 150}}
    step = only_step(run_of(protocol, oracle, scenario, load={"seed": 7}).scenarios[0])
    schedule = Poisson(150_000, generator(7, Stream.MEASURED)).take(1000)
    due = schedule[schedule < 10**9]
    assert step.counts.scheduled == step.counts.queries == len(due)
    assert step.scheduled_qps == len(due)
    received = np.array([query.received_ns for query in oracle.answered[step.warm_up_queries :]])
    # The first query was not early: relative to it, none may come before the schedule says,
    # but for the first one's own way, which is at most its latency.
    assert step.latency is not None
    early = (due - due[0]) - (received - received[0])
    assert early.max() <= step.latency.max_nanoseconds


def test_a_stall_shows_in_full() -> None:
    """A stall of the server is in the P99 from the schedule, and not in the service time."""
    oracle = Oracle(law=stalling(1.0, after=300))
    step = only_step(
        run_of(
            "HTTP",
            oracle,
            {"server": {"targetQps": 200}},
            load={"connections": 2},
            validity={"minDurationSeconds": 3},
        ).scenarios[0]
    )
    # About 200 of 600 were due within the second: the sixth slowest waited nearly all of it.
    assert percentile(step, 99) > 900 * MS
    # At most the two outstanding queries saw the stall themselves: none in a hundred.
    assert percentile(step, 99, service=True) < percentile(step, 90)
    assert step.counts.waited_for_connection >= 100
    assert step.counts.succeeded == step.counts.scheduled


KINDS: dict[Fault, str] = {
    "status": "status",
    "silence": "timeout",
    "cut": "connection",
    "garbage": "protocol",
}


@pytest.mark.parametrize(
    ("protocol", "kind", "faults"),
    [
        ("HTTP", "singleStream", ("status", "silence", "cut", "garbage")),
        ("HTTP", "server", ("status", "silence", "cut", "garbage")),
        ("GRPC", "server", ("status", "silence")),
    ],
)
def test_errors_are_counted_by_kind(protocol: str, kind: str, faults: tuple[Fault, ...]) -> None:
    """Each kind of bad reply is counted as often as it was sent, apart from the latencies."""
    oracle = Oracle(
        faults=lambda index: faults[index % 20] if index > 20 and index % 20 < len(faults) else None
    )
    scenario = run_of(
        protocol,
        oracle,
        {kind: {"targetQps": 20} if kind == "server" else {}},
        load={"requestTimeoutMilliseconds": 1500},
        validity={"minQueries": 60},
    ).scenarios[0]
    step = only_step(scenario)
    measured = oracle.answered[step.warm_up_queries :]
    assert step.counts.queries == len(measured)
    seen = [KINDS[query.fault] for query in measured if query.fault]
    assert step.counts.errors == {each: seen.count(each) for each in sorted(set(seen))}
    assert len(step.counts.errors) == len(faults)
    assert {example.kind for example in step.error_examples} == set(step.counts.errors)
    assert step.latency is not None
    assert step.latency.count == step.counts.succeeded == len(measured) - len(seen)
    assert step.latency.max_nanoseconds < 1500 * MS
    assert scenario.verdict.state == "INVALID"
    assert "ErrorRate" in [finding.rule for finding in scenario.verdict.reasons]


@BOTH
def test_wrong_outputs_are_content_errors(protocol: str) -> None:
    """Outputs of a wrong name, type or shape are found among the replies that are checked."""
    wrong: tuple[Fault, ...] = ("names", "types", "shapes")
    oracle = Oracle(law=fixed(0.001), faults=lambda index: wrong[index % 3])
    run = run_of(protocol, oracle, {"singleStream": {}}, validity={"minQueries": 400})
    step = only_step(run.scenarios[0])
    assert step.counts.checked_replies > 8
    assert step.counts.errors == {"content": step.counts.checked_replies}


def test_a_rate_that_cannot_be_kept_is_invalid() -> None:
    """A server of 20 ms one by one under 80 queries a second does not keep up, and it is said."""
    scenario = run_of(
        "HTTP",
        Oracle(law=fixed(0.02)),
        {"server": {"targetQps": 80, "latencyBoundMicroseconds": 100_000}},
        load={"connections": 1},
        validity={"minDurationSeconds": 4},  # far longer than a machine stands still
    ).scenarios[0]
    step = only_step(scenario)
    rules = {finding.rule: finding.message for finding in scenario.verdict.reasons}
    assert {"AchievedRate", "LatencyBound"} <= set(rules)
    assert "were scheduled" in rules["AchievedRate"]
    assert step.counts.succeeded == step.counts.scheduled
    assert step.achieved_qps < 50
    assert step.drain_nanoseconds > 0
    assert "ConnectionWait" in [finding.rule for finding in scenario.verdict.cautions]


@pytest.fixture
def samples(tmp_path: Path) -> str:
    """Give a .npz file of three samples."""
    np.savez(tmp_path / "in.npz", x=np.ones((3, 4), np.float32))
    return str(tmp_path / "in.npz")


def test_inputs_may_come_from_a_file(samples: str) -> None:
    """Requests take the samples of a .npz file."""
    run = run_of(
        "HTTP",
        Oracle(law=fixed(0.002)),
        {"batch": {"batchSizes": [2]}},
        load={"inputs": {"file": {"uri": "file:in.npz"}}},
        inputs_file=samples,
    )
    assert only_step(run.scenarios[0]).counts.failed == 0
