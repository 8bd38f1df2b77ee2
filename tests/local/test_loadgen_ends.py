"""The load generator ends at once, with a sentence and what it measured, whatever happens."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import ProgressReport, Report
from support.load_runs import COMMAND, LoadRun, a_plan, finished, measure, reports, started
from support.oracle_process import oracle_process
from support.oracle_script import Script, delayed

LONG = {"minDurationSeconds": 60, "maxDurationSeconds": 120}
CLOSED: dict[str, Any] = {"singleStream": {}}
OPEN: dict[str, Any] = {"server": {"targetQps": 90}}
BOTH = pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
UNREACHABLE = "http://127.0.0.1:1"


def interrupted(
    plan: LoadPlan,
    when: Callable[[ProgressReport], bool],
    how: Callable[["subprocess.Popen[str]"], None],
) -> LoadRun:
    """Start a run, do something to it at a moment, and return how it ended."""
    before: list[Report] = []
    with started(plan) as process:
        for report in reports(process):
            before.append(report)
            if isinstance(report, ProgressReport) and when(report):
                break
        how(process)
        return finished(process, *before)


def measuring(progress: ProgressReport) -> bool:
    """Return whether some queries were measured."""
    return progress.stage == "Measuring" and progress.queries > 10


@pytest.mark.parametrize(
    ("scenario", "number", "state", "code"),
    [
        (CLOSED, signal.SIGTERM, "Terminated", 143),
        (OPEN, signal.SIGINT, "Interrupted", 130),
    ],
)
def test_a_signal_ends_a_measurement_and_keeps_it(
    scenario: dict[str, Any], number: signal.Signals, state: str, code: int
) -> None:
    """On a signal what was measured is reported as INVALID, and the exit code names the signal."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), scenario, scenario, validity=LONG)
        run = interrupted(plan, measuring, lambda process: process.send_signal(number))
    assert (run.exit_code, run.outcome.state) == (code, state)
    (result,) = run.scenarios
    assert result.verdict.state == "INVALID"
    assert "EndedEarly" in [finding.rule for finding in result.verdict.reasons]
    assert result.steps[0].ended_early
    assert result.steps[0].counts.succeeded > 0


def test_a_repeat_that_a_signal_ends_is_in_no_interval() -> None:
    """What the whole repeats say together leaves out the one that was interrupted, and says so."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, validity={"repeats": 4})
        run = interrupted(
            plan,
            lambda progress: progress.repeat == 3 and measuring(progress),
            lambda process: process.send_signal(signal.SIGINT),
        )
    assert [result.repeat for result in run.scenarios] == [1, 2, 3]
    (repeated,) = run.repeated
    assert repeated.repeats == 2
    assert {len(figure.values) for figure in repeated.figures} == {2}
    assert repeated.advice.startswith("One more repeat was cut short and is left out.")


@pytest.mark.parametrize("ready", [True, False])
def test_a_signal_before_the_measurement_ends_too(*, ready: bool) -> None:
    """While the server is awaited, or in warm-up, a signal ends the run without a result."""
    with oracle_process(delayed(0.002, ready=ready)) as oracle:
        plan = a_plan(oracle.url("HTTP"), {"singleStream": {}}, validity={"warmUpSeconds": 60})
        stage = "WarmUp" if ready else "WaitingForServer"
        run = interrupted(
            plan,
            lambda progress: progress.stage == stage,
            lambda process: process.send_signal(signal.SIGTERM),
        )
    assert (run.exit_code, run.outcome.state) == (143, "Terminated")
    assert run.scenarios == []


@pytest.mark.parametrize(("protocol", "scenario"), [("HTTP", OPEN), ("GRPC", CLOSED)])
def test_a_server_that_dies_fails_the_run(protocol: str, scenario: dict[str, Any]) -> None:
    """A lost server ends the run as Failed, with what was measured."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url(protocol), scenario, validity=LONG)
        run = interrupted(plan, measuring, lambda _: oracle.die())
    assert (run.exit_code, run.outcome.state, run.outcome.reason) == (1, "Failed", "ServerLost")
    assert "127.0.0.1" in run.outcome.message
    (result,) = run.scenarios
    assert result.steps[0].counts.succeeded > 0
    assert "EndedEarly" in [finding.rule for finding in result.verdict.reasons]


def test_a_reader_that_goes_away_ends_the_load() -> None:
    """If no process reads its reports, the load generator ends by itself."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), {"singleStream": {}}, validity=LONG)
        with started(plan) as process:
            next(report for report in reports(process) if isinstance(report, ProgressReport))
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(60) == 1


@BOTH
def test_a_server_that_is_never_ready_fails_the_run(protocol: str) -> None:
    """Past the deadline the run is Failed with a sentence that names server and deadline."""
    with oracle_process(Script(ready=False)) as oracle:
        plan = a_plan(
            oracle.url(protocol),
            {"singleStream": {}},
            spec={
                "server": {
                    "runtime": "External",
                    "external": {"url": oracle.url(protocol)},
                    "readyDeadlineSeconds": 1,
                }
            },
        )
        run = measure(plan)
    assert (run.exit_code, run.outcome.reason) == (1, "ServerNotReady")
    assert "1 s (server.readyDeadlineSeconds)" in run.outcome.message


def test_a_server_that_is_not_there_fails_the_run() -> None:
    """Where nothing listens the sentence says what the connection attempt met."""
    external = {"runtime": "External", "external": {"url": UNREACHABLE}, "readyDeadlineSeconds": 1}
    run = measure(a_plan(UNREACHABLE, {"singleStream": {}}, spec={"server": external}))
    assert (run.exit_code, run.outcome.reason) == (1, "ServerNotReady")
    assert "127.0.0.1:1" in run.outcome.message


@BOTH
@pytest.mark.parametrize(
    ("more", "reason", "words"),
    [
        ({"model": "another"}, "ModelRefused", "does not serve the model 'another'"),
        (
            {"load": {"inputs": {"random": {"shapes": {"x": [1, 5]}}}}},
            "InputRefused",
            "axis 1 is 4",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(
    protocol: str, more: dict[str, Any], reason: str, words: str
) -> None:
    """A model that is not served or a shape that does not fit ends with exit code 2."""
    if "load" in more:
        more = {"load": {**more["load"], "protocol": protocol}}
    with oracle_process() as oracle:
        run = measure(a_plan(oracle.url(protocol), {"singleStream": {}}, **more))
        assert oracle.received == 0
    assert (run.exit_code, run.outcome.state, run.outcome.reason) == (2, "Refused", reason)
    assert words in run.outcome.message


@BOTH
def test_requests_that_the_server_refuses_are_refused(protocol: str) -> None:
    """Where the server refuses the first requests, its own words end the run."""
    with oracle_process(Script(faults=("status",))) as oracle:
        run = measure(a_plan(oracle.url(protocol), {"singleStream": {}}))
        assert oracle.received == 3
    assert (run.exit_code, run.outcome.reason) == (2, "RequestRefused")
    assert "scripted failure" in run.outcome.message


def test_what_cannot_be_done_is_refused() -> None:
    """What cannot be done is refused by its path, before any server is queried."""
    load_spec = {"connections": 2, "streamsPerConnection": 3}
    plan = a_plan("grpc://127.0.0.1:1", {"concurrency": {"clients": [1, 7]}}, load=load_spec)
    run = measure(plan)
    assert (run.exit_code, run.outcome.reason) == (2, "NotAvailable")
    assert "scenarios[0].concurrency.clients: 7 clients" in run.outcome.message


@pytest.mark.parametrize("text", ["", "{", json.dumps({"run": {}})])
def test_a_plan_that_is_none_is_refused(text: str) -> None:
    """Standard input that holds no plan ends with exit code 2 and a report that says so."""
    done = subprocess.run(COMMAND, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not a load plan" in json.loads(done.stdout)["outcome"]["message"]


def test_a_plan_may_come_from_a_file(tmp_path: Any) -> None:
    """--plan names a file; standard output has reports and nothing else."""
    with oracle_process(delayed(0.002)) as oracle:
        path = tmp_path / "plan.json"
        path.write_text(a_plan(oracle.url("HTTP"), {"singleStream": {}}).model_dump_json())
        done = subprocess.run(
            [sys.executable, "-m", "inferometer_loadgen", "--plan", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert lines[-1]["report"] == "final"
    assert done.stderr == ""
