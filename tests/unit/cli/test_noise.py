"""A machine's noise is measured until the time is over, and shown as a table or as JSON."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from inferometer_api.results.result import (
    Finding,
    Outcome,
    ResultDocument,
    ScenarioResult,
    Verdict,
)
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.commands import noise
from inferometer_cli.exits import ExitCode
from inferometer_cli.local import measurement
from support.command import Command
from support.results import a_result
from support.steps import Load, a_step

_SECONDS_EACH = 6.0
_INVALID = Verdict(
    state="INVALID",
    reasons=[Finding(rule="ClientStarved", message="starved", figure="1", limit="0")],
)


class Machine:
    """Takes the place of measurements: each takes 6 s, and its median differs from the last."""

    def __init__(self) -> None:
        self.runs: list[BenchmarkRun] = []
        self.seconds = 0.0
        self.verdict: Callable[[int], Verdict] = lambda _: Verdict(state="VALID")
        self.fails = False

    def measure(self, run: BenchmarkRun, *_: Any, **__: Any) -> ResultDocument:
        """Return the result of a run."""
        number = len(self.runs)
        self.runs.append(run)
        self.seconds += _SECONDS_EACH
        if self.fails:
            died = Outcome(state="Failed", reason="ServerDied", message="The server died.")
            return a_result(run=run, scenarios=[], outcome=died)
        step = a_step(Load(service_milliseconds=2 + number % 4 / 20, seconds=2, seed=number))
        scenario = ScenarioResult(
            name="latency", kind="singleStream", seed=1, steps=[step], verdict=self.verdict(number)
        )
        return a_result(run=run, scenarios=[scenario])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine that measures at once, and whose clock says that it took longer."""
    made = Machine()
    monkeypatch.setattr(measurement, "measure", made.measure)
    monkeypatch.setattr(noise, "monotonic", lambda: made.seconds)
    return made


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs a command line in this process."""
    return Command(monkeypatch, capsys)


def test_the_time_is_used_and_not_exceeded(inferometer: Command, machine: Machine) -> None:
    """Twenty runs of six seconds fit into two minutes; progress has the time left."""
    ended = inferometer("noise")
    assert ended.code == ExitCode.VALID
    assert len(machine.runs) == 20
    assert "run 1: p50 1.99 ms; 1:54 left" in ended.stderr
    assert "20 runs of zoo://classification/mobilenetv4_conv_small" in ended.stdout
    assert "rounds of ab" in ended.stdout


def test_json_has_the_figures_and_what_they_need(inferometer: Command, machine: Machine) -> None:
    """Each figure has its values; each difference has rounds and repeats."""
    found = json.loads(inferometer("noise", "--seconds", "60", "--json").stdout)
    assert found["runs"] == 10
    assert [len(each["values"]) for each in found["figures"]] == [10] * 5
    assert [each["difference"] for each in found["needed"]] == [0.02, 0.05, 0.1]
    assert found["needed"][-1]["abRounds"] >= 3


def test_invalid_runs_do_not_count(inferometer: Command, machine: Machine) -> None:
    """Their number and rule are shown; with fewer than three others there are no figures."""
    machine.verdict = lambda number: Verdict(state="VALID") if number % 2 else _INVALID
    ended = inferometer("noise", "--seconds", "60")
    assert "5 runs of" in ended.stdout
    assert "5 of 10 runs were INVALID (ClientStarved) and do not count." in ended.stdout
    machine.verdict = lambda _: _INVALID
    ended = inferometer("noise", "--seconds", "60")
    assert ended.code == ExitCode.INVALID
    assert " runs are VALID, and 3 are needed." in ended.stderr


def test_a_run_that_fails_ends_the_command(inferometer: Command, machine: Machine) -> None:
    """It says why, with the exit code of the run."""
    machine.fails = True
    ended = inferometer("noise")
    assert ended.code == ExitCode.FAILED
    assert "The server died." in ended.stderr


def test_a_run_file_is_refused(inferometer: Command) -> None:
    """Its windows would not fit into the time: repeats show the same."""
    ended = inferometer("noise", "run.yaml")
    assert ended.code == ExitCode.REFUSED
    assert "run.yaml is not a model." in ended.stderr
    assert "validity.repeats" in ended.stderr


def test_every_run_starts_with_the_same_short_spec(inferometer: Command, machine: Machine) -> None:
    """One client and two seconds; --set changes a field."""
    words = ("zoo://classification/mnist", "--seconds", "20", "--set", "spec.load.seed=7")
    inferometer("noise", *words)
    assert len(machine.runs) == 3
    spec = machine.runs[0].spec
    assert spec.model.uri == "zoo://classification/mnist"
    assert spec.validity.min_duration_seconds == 2
    assert spec.load.seed == 7
