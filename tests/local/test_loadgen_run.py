"""The load generator reports its environment and counts every bad reply by kind.

tests/virtual and tests/accuracy hold its figures to account.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.results.result import ScenarioResult, Step
from inferometer_loadgen import input_files
from support.load_runs import LoadRun, a_plan, measure
from support.oracle_process import Seen, oracle_process
from support.oracle_script import FAULTS, Fault, Script, delayed

MS = 1_000_000
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])


def run_of(
    protocol: str, script: Script, *scenarios: Mapping[str, Any], **more: Any
) -> tuple[LoadRun, Seen]:
    """Measure an oracle, and return also what it saw; the run must end well."""
    with oracle_process(script) as oracle:
        run = measure(a_plan(oracle.url(protocol), *scenarios, **more))
    assert (run.exit_code, run.outcome.state) == (0, "Complete"), run.outcome.message
    return run, oracle.report()


def only_step(scenario: ScenarioResult) -> Step:
    """Return the step of a scenario that has one."""
    (step,) = scenario.steps
    return step


@BOTH
def test_every_scenario_counts_the_requests_that_the_server_received(protocol: str) -> None:
    """Queries, samples and warm-up add up to the requests that the oracle received, exactly."""
    run, seen = run_of(
        protocol,
        delayed(0.005, settings={"inferometer.threads": "3"}),
        {"singleStream": {}},
        {"server": {"targetQps": 100}},
        {"batch": {"batchSizes": [1, 4]}},
        validity={"warmUpSeconds": 1},
    )
    steps = [step for scenario in run.scenarios for step in scenario.steps]
    assert [step.label for step in steps] == ["", "", "batch 1", "batch 4"]
    assert all(step.counts.failed == 0 for step in steps)
    requests = sum(step.counts.queries + step.warm_up_queries for step in steps)
    assert requests == len(seen) == len(seen.well)
    fours = int((seen.samples == 4).sum())
    assert steps[3].counts.queries + steps[3].warm_up_queries == fours
    assert steps[3].counts.samples == 4 * steps[3].counts.queries
    assert run.environment is not None
    assert run.environment.server.name == "oracle"
    assert run.environment.server.settings == {"threads": "3"}
    assert [tensor.name for tensor in run.environment.model.outputs] == ["y"]
    assert {report.stage for report in run.progress} >= {"Measuring", "WarmUp"}


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
def test_errors_are_counted_by_kind(
    require_quiet: Callable[[], None], protocol: str, kind: str, faults: tuple[Fault, ...]
) -> None:
    """Each kind of bad reply is counted as often as it was sent, apart from the latencies."""
    script = Script(faults=[*faults, *[None] * (20 - len(faults))], faults_from=21)
    run, everything = run_of(
        protocol,
        script,
        {kind: {"targetQps": 20} if kind == "server" else {}},
        load={"requestTimeoutMilliseconds": 1500},
        validity={"minQueries": 60},
    )
    (scenario,) = run.scenarios
    step = only_step(scenario)
    measured = [FAULTS[each] for each in everything.fault[step.warm_up_queries :]]
    assert step.counts.queries == len(measured)
    seen = [KINDS[fault] for fault in measured if fault]
    assert step.counts.errors == {each: seen.count(each) for each in sorted(set(seen))}
    assert len(step.counts.errors) == len(faults)
    assert {example.kind for example in step.error_examples} == set(step.counts.errors)
    assert step.latency is not None
    assert step.latency.count == step.counts.succeeded == len(measured) - len(seen)
    assert scenario.verdict.state == "INVALID"
    assert "ErrorRate" in [finding.rule for finding in scenario.verdict.reasons]
    require_quiet()
    assert step.latency.max_nanoseconds < 1500 * MS


@BOTH
def test_wrong_outputs_are_content_errors(protocol: str) -> None:
    """Outputs of a wrong name, type or shape are found among the replies that are checked."""
    wrong: tuple[Fault, ...] = ("names", "types", "shapes")
    script = delayed(0.001, faults=wrong)
    run, _ = run_of(protocol, script, {"singleStream": {}}, validity={"minQueries": 400})
    step = only_step(run.scenarios[0])
    assert step.counts.checked_replies > 8
    assert step.counts.errors == {"content": step.counts.checked_replies}


@pytest.fixture
def samples(tmp_path: Path) -> str:
    """Give a .npz file of three samples."""
    np.savez(tmp_path / "in.npz", x=np.ones((3, 4), np.float32))
    return str(tmp_path / "in.npz")


def test_inputs_may_come_from_a_file(samples: str) -> None:
    """Requests take the samples of a .npz file."""
    run, _ = run_of(
        "HTTP",
        delayed(0.002),
        {"batch": {"batchSizes": [2]}},
        load={"inputs": {"file": {"uri": "file:in.npz"}}},
        inputs_file=samples,
    )
    assert only_step(run.scenarios[0]).counts.failed == 0


def test_each_file_of_a_run_is_read_once(
    samples: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sampled outputs, every scenario and every repeat share its arrays and its times."""
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{at / 10}\n" for at in range(12)))
    read: list[Path] = []
    for name in ("read_npz", "read_times"):
        monkeypatch.setattr(input_files, name, _noting(read, getattr(input_files, name)))
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(
            oracle.url("HTTP"),
            {"name": "replayed", "trace": {"uri": "file:trace.csv"}},
            {"name": "again", "trace": {"uri": "file:trace.csv", "timeScale": "1.5"}},
            {"batch": {"batchSizes": [1, 2]}},
            load={"inputs": {"file": {"uri": "file:in.npz"}}},
            inputs_file=samples,
            validity={"repeats": 2},
        )
        files = {"replayed": str(trace), "again": str(trace)}
        run = measure(plan.model_copy(update={"trace_files": files, "launched": True}))
    assert run.outcome.state == "Complete", run.outcome.message
    assert sorted(read) == sorted([Path(samples), trace])


def _noting(read: list[Path], function: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def noted(path: Path) -> Any:
        read.append(path)
        return function(path)

    return noted


def test_spinning_keeps_the_schedule_and_reads_replies() -> None:
    """A pacer that spins sends every query that is due, and takes every reply."""
    run, _ = run_of(
        "HTTP",
        delayed(0.001),
        {"server": {"targetQps": 300, "arrivals": "Constant"}},
        load={"pacing": "Spin"},
    )
    step = only_step(run.scenarios[0])
    assert step.counts.succeeded == step.counts.scheduled == 300
    assert step.dispatch_lag is not None
