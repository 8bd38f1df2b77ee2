"""Executions of a suite on this machine, and the same command once more."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.scenario_summary import representative_step
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.labels import label_value
from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_api.suite.plan_suite import plan_suite
from inferometer_cli.local import measurement
from inferometer_cli.local.suite.folder import SuiteFolder
from inferometer_results.store.database import default_address
from inferometer_results.store.store import Store
from inferometer_results.suites.stored_suites import stored_outcomes
from support.command import Command
from support.stored_results import LOCAL
from support.suites import a_suite, parsed


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the runs that were measured: at once, each a minute after the one before."""
    names: list[str] = []

    def measure(run: BenchmarkRun, *_: object) -> ResultDocument:
        names.append(run.name)
        document = json.loads(json.dumps(LOCAL)) | {
            "run": json.loads(run.model_dump_json(exclude_none=True)),
            "runId": f"run-{len(names)}",
            "startedAt": f"2026-06-01T{len(names) // 60:02}:{len(names) % 60:02}:00.000Z",
        }
        document["outcome"]["state"] = "Complete"
        for scenario in document["scenarios"]:
            scenario["verdict"] = {"state": "VALID", "reasons": [], "cautions": []}
        return read_result(json.dumps(document).encode(), source="x").document

    monkeypatch.setattr(measurement, "measure", measure)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return names


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


def prepared(
    folder: Path, execution: str, *, name: str = "nightly", **spec: Any
) -> tuple[str, ...]:
    """Return the command for an execution of this name, in a folder of the same name."""
    suite = a_suite(name, **spec)
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    plan = plan_suite(parsed(suite), place="Local", execution=execution)
    SuiteFolder.open(folder / execution, plan).write()
    return ("run", str(folder / "suite.yaml"), "--output", str(folder / execution))


def outcome_of(execution: str, suite: str = "nightly") -> SuiteOutcome:
    """Return the outcome of an execution, as the database has it."""
    with Store(default_address()) as store:
        return stored_outcomes(store, label_value(suite))[execution]


def test_a_later_execution_is_no_baseline_of_an_earlier_one(
    inferometer: Command, measured: list[str], tmp_path: Path
) -> None:
    """The command of the first execution, repeated after the second one, changes no outcome."""
    spec: dict[str, Any] = {"repeats": 3, "baseline": {"suite": "nightly"}, "gate": {}}
    first = prepared(tmp_path, "first", **spec)
    inferometer(*first)
    before = outcome_of("first")
    inferometer(*prepared(tmp_path, "second", **spec))
    assert len(measured) == 24
    second = outcome_of("second").gate
    assert before.gate is not None
    assert second is not None
    assert before.gate.judged == 0
    assert second.judged > 0
    inferometer(*first)
    assert len(measured) == 24
    assert outcome_of("first") == before


def test_a_step_that_is_slower_alone_fails_a_later_execution(
    inferometer: Command, measured: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The step is not the headline; of two repeats within each run one is 30 % slower."""
    spec: dict[str, Any] = {"repeats": 3, "baseline": {"suite": "nightly"}, "gate": {}}
    inferometer(*prepared(tmp_path, "first", **spec))
    as_before = measurement.measure

    def measure(*arguments: Any) -> ResultDocument:
        document = as_before(*arguments)
        scenario = next(each for each in document.scenarios if each.name == "clients")
        headline, slower = scenario.steps
        assert representative_step(scenario) is headline
        assert slower.latency is not None
        for percentile in slower.latency.percentiles:
            object.__setattr__(percentile, "nanoseconds", round(percentile.nanoseconds * 1.3))
        return document

    monkeypatch.setattr(measurement, "measure", measure)
    shown = inferometer(*prepared(tmp_path, "second", **spec))
    gate = outcome_of("second").gate
    assert gate is not None
    assert gate.outcome == "FAIL"
    assert {(each.scenario, each.step) for each in gate.slower} == {("clients", "clients 2")}
    assert "old, clients, clients 2: the median latency changed by +14.0 %" in shown.stderr


def test_a_command_that_measures_nothing_says_so(
    inferometer: Command, measured: list[str], tmp_path: Path
) -> None:
    """The figures and the exit code are those of before."""
    words = prepared(tmp_path, "first")
    first, again = inferometer(*words), inferometer(*words)
    assert len(measured) == 2
    assert "Nothing was left to measure" not in first.stderr
    assert (
        f"note: Nothing was left to measure: these are the results in {words[-1]}" in again.stderr
    )
    assert again.code == first.code


def test_a_suite_may_have_the_longest_name(
    inferometer: Command, measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder has a shorter one, and its executions are found in the database."""
    name = "x." * 126 + "y"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(a_suite(name)))
    shown = inferometer("run", "suite.yaml")
    assert (shown.code, len(measured)) == (0, 2), shown.stderr
    (folder,) = (tmp_path / "results").iterdir()
    assert folder.name.startswith("x.x.")
    spec: dict[str, Any] = {"repeats": 3, "baseline": {"suite": name}, "gate": {}}
    inferometer(*prepared(tmp_path, "first", name=name, **spec))
    gate = outcome_of("first", name).gate
    assert gate is not None
    assert "There is no complete execution of the baseline yet." not in gate.reasons
