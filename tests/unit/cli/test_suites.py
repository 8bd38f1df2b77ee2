"""`inferometer suite plan`, and what `run` refuses or concludes with a suite."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferometer_api.suite.outcome import suite_outcome
from inferometer_api.suite.plan_suite import plan_suite
from inferometer_api.suite.status import GateOutcome, GateStatus
from inferometer_cli.local.suite.folder import SuiteFolder, lock_folder, recorded_execution
from inferometer_cli.local.suite.run import exit_code_of_suite
from inferometer_cli.result_file import save_result
from support.command import Command
from support.results import a_valid_result
from support.suites import a_suite, an_axis, parsed, planned


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


def written(folder: Path, **spec: Any) -> str:
    """Write a suite to a file; return its path."""
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(a_suite(**spec)))
    return str(path)


def test_the_plan_has_the_runs_that_the_operator_creates(
    inferometer: Command, tmp_path: Path
) -> None:
    """As lines, as JSON and as YAML documents, in their order."""
    spec: dict[str, Any] = {
        "repeats": 2,
        "baseline": {"axis": "stack", "value": "old"},
        "gate": {},
    }
    file = written(tmp_path, **spec)
    runs = planned(a_suite(**spec)).runs
    shown = inferometer("suite", "plan", file)
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [run.name for run in runs]
    assert lines[1].split()[1:] == ["1", "opening", "old", "any"]
    assert "2 cells, 8 runs in 2 blocks, anchor old" in shown.stderr
    found = json.loads(inferometer("suite", "plan", file, "--format", "json").stdout)
    assert found == [run.data for run in runs]
    text = inferometer("suite", "plan", file, "--format", "yaml").stdout
    assert list(yaml.safe_load_all(text)) == found


def test_a_field_of_a_suite_can_be_set(inferometer: Command, tmp_path: Path) -> None:
    """As of a run."""
    shown = inferometer("suite", "plan", written(tmp_path), "--set", "spec.repeats=3")
    assert "6 runs in 3 blocks" in shown.stderr


@pytest.mark.parametrize("command", [("suite", "plan"), ("run",)])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"axes": [an_axis("stack", "old", path="spec.load.connection")]},
            "cannot be planned:\n  cell old: spec.load.connection: unknown field; did you mean",
        ),
        (
            {"gate": {}},
            "is not a valid BenchmarkSuite:\n  line ",
        ),
        (
            {"schedule": {"cron": "61 * * * *"}},
            "spec.schedule.cron: '61 * * * *' is no time of cron",
        ),
    ],
    ids=["cell", "suite", "cron"],
)
def test_what_is_wrong_is_said_before_anything_starts(
    inferometer: Command,
    tmp_path: Path,
    command: tuple[str, ...],
    spec: dict[str, Any],
    expected: str,
) -> None:
    """With its place and what would be right."""
    refused = inferometer(*command, written(tmp_path, **spec))
    assert refused.code == 2
    assert expected in refused.stderr


def test_a_suspended_suite_is_not_run_here(inferometer: Command, tmp_path: Path) -> None:
    """Nothing starts it again on one machine."""
    refused = inferometer("run", written(tmp_path, suspend=True), "--output", str(tmp_path / "out"))
    assert refused.code == 2
    assert "spec.suspend: a local suite is stopped by Ctrl-C" in refused.stderr


def test_two_commands_do_not_measure_into_one_folder(inferometer: Command, tmp_path: Path) -> None:
    """Both would measure the same runs."""
    with lock_folder(tmp_path / "out"):
        refused = inferometer("run", written(tmp_path), "--output", str(tmp_path / "out"))
    assert refused.code == 2
    assert "Another command measures a suite into" in refused.stderr


def test_an_execution_has_a_name_of_its_own_whatever_its_folder(tmp_path: Path) -> None:
    """The same folder every night is another execution; one that is continued is the same."""
    plan = plan_suite(parsed(a_suite()), execution="nightly-20260601T030000Z")
    assert recorded_execution(tmp_path) == ""
    SuiteFolder.open(tmp_path, plan).write()
    assert recorded_execution(tmp_path) == "nightly-20260601T030000Z"
    record = {"failures": [], "planSha256": plan.sha256}
    (tmp_path / "suite.json").write_text(json.dumps(record))
    assert recorded_execution(tmp_path) == ""
    assert SuiteFolder.open(tmp_path, plan).failures == {}


@pytest.mark.parametrize(
    "words", [("--json",), ("--print-yaml",), ("--log-requests", "x.csv"), ("--qps", "5")]
)
def test_options_of_one_run_do_not_go_with_a_suite(
    inferometer: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The message names the option."""
    refused = inferometer("run", written(tmp_path), *words)
    assert refused.code == 2
    assert words[0] in refused.stderr
    assert "is a suite, which" in refused.stderr


def test_only_a_suite_is_planned(inferometer: Command, tmp_path: Path) -> None:
    """A run file is refused."""
    path = tmp_path / "run.yaml"
    path.write_text("apiVersion: inferometer.dev/v1alpha1\nkind: BenchmarkRun\n")
    refused = inferometer("suite", "plan", str(path))
    assert (refused.code, "is not a BenchmarkSuite" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("states", "outcome", "armed", "code"),
    [
        ("VV", None, False, 0),
        ("VI", None, False, 3),
        ("VF", None, False, 1),
        ("V.", None, False, 1),
        ("IF", None, False, 1),
        ("VV", "PASS", True, 0),
        ("VV", "FAIL", True, 4),
        ("VI", "FAIL", True, 4),
        ("VV", "INCONCLUSIVE", True, 5),
        ("VI", "INCONCLUSIVE", True, 3),
        ("VF", "CouldNotRun", True, 1),
        ("VV", "FAIL", False, 0),
        ("VV", "CouldNotRun", False, 0),
    ],
)
def test_the_exit_code_is_that_of_an_armed_gate_and_else_of_the_runs(
    states: str, outcome: GateOutcome | None, code: int, *, armed: bool
) -> None:
    """An advisory gate fails nothing."""
    gate = None if outcome is None else GateStatus(outcome=outcome, armed=armed)
    assert exit_code_of_suite(list(states), gate) == code


@pytest.mark.parametrize(
    ("states", "outcome", "code"),
    [
        ("VV", "INCONCLUSIVE", 0),
        ("VI", "INCONCLUSIVE", 3),
        ("VF", "INCONCLUSIVE", 1),
        ("VV", "FAIL", 4),
        ("VF", "CouldNotRun", 1),
    ],
)
def test_a_gate_that_is_inconclusive_may_pass(states: str, outcome: GateOutcome, code: int) -> None:
    """With --inconclusive pass it counts as PASS; the other outcomes stay what they are."""
    gate = GateStatus(outcome=outcome, armed=True)
    assert exit_code_of_suite(list(states), gate, passes_inconclusive=True) == code


def test_only_a_suite_may_pass_inconclusive(inferometer: Command, tmp_path: Path) -> None:
    """The option goes with a suite; a run has no gate."""
    refused = inferometer("run", written(tmp_path, suspend=True), "--inconclusive", "pass")
    assert "spec.suspend: a local suite" in refused.stderr
    refused = inferometer("run", "model.onnx", "--inconclusive", "pass")
    assert (refused.code, "--inconclusive is for suites" in refused.stderr) == (2, True)


def test_a_failure_is_remembered(tmp_path: Path) -> None:
    """A run that has failed is over, also for the command that continues."""
    plan = planned(a_suite())
    folder = SuiteFolder.open(tmp_path / "out", plan)
    folder.fail(0, "No server.")
    again = SuiteFolder.open(tmp_path / "out", plan)
    assert [each.state for each in again.outcomes] == ["F", "."]
    assert again.outcomes[0].problem == "No server."


def test_a_result_of_a_newer_version_is_taken_with_a_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of its fields are left out, as for every command that reads it."""
    plan = planned(a_suite())
    newer = a_valid_result().model_copy(update={"schema_version": "1.999"})
    save_result(newer, tmp_path / "out" / plan.runs[0].name)
    SuiteFolder.open(tmp_path / "out", plan)
    assert capsys.readouterr().err.count("has schema version 1.999") == 1


def test_a_reused_result_is_remembered(tmp_path: Path) -> None:
    """The command that continues counts it as reused, with the ID of the stored result."""
    plan = planned(a_suite())
    folder = SuiteFolder.open(tmp_path / "out", plan)
    document = a_valid_result()
    folder.reuse(0, document, "0123abcd")
    directory = folder.directory_of(plan.runs[0])
    directory.mkdir()
    (directory / "result.json").write_text(document.model_dump_json(exclude_none=True))
    again = SuiteFolder.open(tmp_path / "out", plan)
    assert [(each.state, each.result) for each in again.outcomes] == [("R", "0123abcd"), (".", "")]
    (reused,) = suite_outcome(plan, again.outcomes, None, "2026-06-01T04:00:00.000Z").reused
    assert (reused.name, reused.result) == (plan.runs[0].name, "0123abcd")
