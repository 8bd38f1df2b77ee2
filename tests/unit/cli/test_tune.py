"""`inferometer tune` measures candidates, leaves out other computations, and confirms the best."""

import json
import os
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml

from inferometer_api.results.result import (
    Finding,
    Outcome,
    OutputSamples,
    ResultDocument,
    SampledOutput,
    ScenarioResult,
    Step,
    Verdict,
)
from inferometer_api.results.search import Peak
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import ExitCode
from inferometer_cli.local import measurement
from support.command import Command
from support.results import a_result, an_environment
from support.steps import Load, a_step

_WORDS = ("tune", "zoo://classification/mnist", "--p99", "50ms", "--batches", "", "--output", "out")
_ENGINES = "OnnxRuntime:Default,OnnxRuntime:FP32"
"""Two engines as far as the search is concerned: OpenVINO may not be installed."""


@cache
def _step(service_milliseconds: float) -> Step:
    return a_step(Load(seconds=2.0, service_milliseconds=service_milliseconds))


class Machine:
    """Takes the place of measurements: more threads are faster, and the second engine twice."""

    def __init__(self) -> None:
        self.runs: list[BenchmarkRun] = []
        self.outputs: dict[str, list[float]] = {}
        """What an engine computes, by precision; [1, 2] unless it is here."""
        self.verdict = Verdict(state="VALID")
        self.disturbed: dict[int, Verdict] = {}
        """The verdict of the run with this number, from 0, in place of the usual one."""
        self.slow = 1.0
        self.stops_at: int | None = None

    def measure(self, run: BenchmarkRun, *_: Any, **__: Any) -> ResultDocument:
        """Return the result of a run."""
        if len(self.runs) == self.stops_at:
            ended = Outcome(state="Interrupted", reason="Interrupted", message="Interrupted.")
            return a_result(run=run, scenarios=[], outcome=ended)
        self.runs.append(run)
        server, scenario = run.spec.server, run.spec.scenarios[0]
        milliseconds = self.slow * 20.0 / (server.threads or 1) / server.instances**0.5
        milliseconds /= 2 if server.precision == "FP32" else 1
        peak = Peak(
            percentile=99.0,
            latency_bound_nanoseconds=50_000_000,
            qps=900 / milliseconds,
            low_qps=800 / milliseconds,
            high_qps=1000 / milliseconds,
            stop_reason="Resolved",
        )
        found = ScenarioResult(
            name=scenario.name,
            kind=scenario.kind,
            seed=run.spec.load.seed,
            steps=[_step(round(milliseconds, 3))],
            verdict=self.disturbed.get(len(self.runs) - 1, self.verdict),
            peak=peak if scenario.kind == "findPeak" else None,
        )
        environment = an_environment(output_samples=self._samples(server.precision))
        return a_result(run=run, scenarios=[found], environment=environment)

    def _samples(self, precision: str) -> OutputSamples:
        values = np.array(self.outputs.get(precision, [1.0, 2.0]), "<f4")
        output = SampledOutput(
            name="y",
            shape=[1, 2],
            values_per_sample=2,
            values=b64encode(values.tobytes()).decode(),
            largest=[int(values.argmax())],
        )
        return OutputSamples(inputs=["0"], outputs=[output])


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return how to run the command."""
    return Command(monkeypatch, capsys)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine of 4 CPUs that measures at once."""
    made = Machine()
    monkeypatch.setattr(measurement, "measure", made.measure)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    return made


def _summary() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("out/tune.json").read_text())
    return found


def _peaks(machine: Machine) -> list[BenchmarkRun]:
    return [run for run in machine.runs if run.spec.scenarios[0].find_peak is not None]


def _trials(machine: Machine) -> list[BenchmarkRun]:
    return [run for run in machine.runs if run.spec.scenarios[0].find_peak is None]


def _tune(inferometer: Command, tmp_path: Path, *words: str) -> Any:
    return inferometer(*_WORDS[:-1], str(tmp_path / "out"), "--engines", _ENGINES, *words)


def test_the_best_three_are_confirmed_on_fresh_seeds(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only figures of full searches are printed, and the best settings are a run file."""
    monkeypatch.chdir(tmp_path)
    ended = _tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = _summary()
    best = {"runtime": "OnnxRuntime", "precision": "FP32", "threads": 4, "instances": 1}
    assert found["confirmed"][0]["server"] == best
    assert "1. 360.0 queries/s (320.0 to 400.0), VALID: OnnxRuntime FP32, 1 instance of 4" in (
        ended.stdout
    )
    peaks, trials = _peaks(machine), _trials(machine)
    assert len(peaks) == 3
    assert not {run.spec.load.seed for run in peaks} & {run.spec.load.seed for run in trials}
    tuned = yaml.safe_load(Path("out/best.yaml").read_text())
    assert tuned["spec"]["server"]["threads"] == 4
    assert {each["candidate"] for each in found["trials"]} == set(range(len(found["candidates"])))


def test_an_engine_that_computes_something_else_is_out(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast, it is not confirmed; the summary says why."""
    monkeypatch.chdir(tmp_path)
    machine.outputs["FP32"] = [2.0, 1.0]
    ended = _tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = _summary()
    assert all(each["server"]["precision"] == "Default" for each in found["confirmed"])
    assert all("computes something else" in why for why in found["excluded"].values())
    assert len(found["excluded"]) == len(found["candidates"]) // 2


def test_the_floor_of_the_outputs_can_be_lowered(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cosine that the user accepts lets a less exact engine win."""
    monkeypatch.chdir(tmp_path)
    machine.outputs["FP32"] = [1.0, 1.5]
    assert _tune(inferometer, tmp_path).code == 0
    assert _summary()["confirmed"][0]["server"]["precision"] == "Default"
    assert _tune(inferometer, tmp_path, "--least-cosine", "0.98").code == 0
    assert _summary()["confirmed"][0]["server"]["precision"] == "FP32"


def test_a_bound_that_nothing_keeps_is_a_failure(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No figure is printed if no candidate has a rate within the bound."""
    monkeypatch.chdir(tmp_path)
    machine.slow = 20.0
    ended = _tune(inferometer, tmp_path)
    assert ended.code == ExitCode.FAILED
    assert "No candidate was confirmed to keep a P99 of 50ms. The lowest P99 of a trial was" in (
        ended.stderr
    )
    assert ended.stdout == ""


def test_a_warning_is_printed_once(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each engine."""
    monkeypatch.chdir(tmp_path)
    words = ("--set", "spec.validity.minDurationSeconds=5")
    ended = _tune(inferometer, tmp_path, *words, "--set", "spec.validity.maxDurationSeconds=25")
    assert ended.stderr.count("note: spec.scenarios[0].findPeak.probe.maxSeconds (60)") == 1


def test_an_invalid_confirmation_ends_with_its_code(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure that cannot be trusted is shown as such."""
    monkeypatch.chdir(tmp_path)
    busy = Finding(rule="BusyMachine", message="It was busy.", figure="1", limit="0")
    machine.verdict = Verdict(state="INVALID", reasons=[busy])
    ended = _tune(inferometer, tmp_path)
    assert ended.code == ExitCode.INVALID
    assert "INVALID: OnnxRuntime FP32" in ended.stdout


def _disturbed(state: Literal["VALID", "INVALID"]) -> Verdict:
    finding = Finding(rule="OtherProcesses", message="They ran.", figure="1", limit="0")
    return Verdict(state=state, cautions=[finding])


def test_a_disturbed_trial_is_repeated_and_noted(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After all others of its rung; a note says that the search may have missed the best."""
    monkeypatch.chdir(tmp_path)
    machine.disturbed = {2: _disturbed("VALID")}
    ended = _tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = _summary()
    count = len(found["candidates"])
    again = found["trials"][count]
    assert again["candidate"] == found["trials"][1]["candidate"]
    assert [each["disturbed"] for each in found["trials"][:3]] == [False, True, False]
    assert not again["disturbed"]
    assert "1 candidate once more, since other processes took CPUs" in ended.stderr
    assert f"took CPUs from 1 of the {len(found['trials'])} trials" in ended.stderr


def test_a_disturbed_confirmation_is_repeated(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fresh seed, after all others: a slower candidate must not win by quiet alone."""
    monkeypatch.chdir(tmp_path)
    assert _tune(inferometer, tmp_path).code == 0
    peaks = _peaks(machine)
    place = machine.runs.index(peaks[0])
    machine.runs.clear()
    machine.disturbed = {place: _disturbed("INVALID")}
    ended = _tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    again = _peaks(machine)
    assert [run.spec.server for run in again] == [
        *(run.spec.server for run in peaks),
        again[0].spec.server,
    ]
    assert len({run.spec.load.seed for run in again}) == 4
    best = _summary()["confirmed"][0]
    assert best["verdict"] == "VALID"
    assert best["seed"] == again[3].spec.load.seed


def test_ctrl_c_ends_the_search(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted trial ends the command with the code of the signal, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    machine.stops_at = 5
    ended = _tune(inferometer, tmp_path)
    assert ended.code == ExitCode.INTERRUPTED
    assert not (tmp_path / "out").exists()


def test_too_many_candidates_are_refused(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to leave out."""
    monkeypatch.chdir(tmp_path)
    ended = _tune(inferometer, tmp_path, "--most", "3")
    assert ended.code == ExitCode.REFUSED
    assert "name fewer engines or batch sizes" in ended.stderr
    assert machine.runs == []


def test_a_setting_of_the_command_line_leaves_one_candidate_of_equal_ones(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that are the same have one name, which is that of the server that runs."""
    monkeypatch.chdir(tmp_path)
    ended = _tune(inferometer, tmp_path, "--set", "spec.server.threads=1")
    assert ended.code == 0, ended.stderr
    found = [
        (each["precision"], each["threads"], each["instances"]) for each in _summary()["candidates"]
    ]
    assert sorted(found) == [
        (precision, 1, instances) for precision in ("Default", "FP32") for instances in (1, 2, 4)
    ]
    assert {run.spec.server.threads for run in machine.runs} == {1}
    assert "of 2 threads" not in ended.stdout


def test_settings_of_the_command_line_leave_trials_as_they_are(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Length and scenario of a trial belong to the search: settings hold for confirmations."""
    monkeypatch.chdir(tmp_path)
    ended = _tune(
        inferometer,
        tmp_path,
        *("--set", "spec.validity.minDurationSeconds=7"),
        *("--set", "spec.validity.maxDurationSeconds=25"),
        *("--set", "spec.scenarios[0].findPeak.probe.minQueries=600"),
        *("--set", "spec.load.protocol=GRPC"),
    )
    assert ended.code == 0, ended.stderr
    peaks, trials = _peaks(machine), _trials(machine)
    assert {run.spec.validity.min_duration_seconds for run in trials} == {1, 3}
    assert {run.spec.validity.max_duration_seconds for run in trials} == {70, 90}
    assert {run.spec.validity.min_duration_seconds for run in peaks} == {7}
    assert {run.spec.validity.max_duration_seconds for run in peaks} == {25}
    searches = [run.spec.scenarios[0].find_peak for run in peaks]
    assert {each.probe.min_queries for each in searches if each is not None} == {600}
    assert {run.spec.load.protocol for run in machine.runs} == {"GRPC"}


def test_a_seed_of_the_command_line_leaves_confirmations_fresh(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is that of the search; no confirmation has a trial's, or another one's."""
    monkeypatch.chdir(tmp_path)
    ended = _tune(inferometer, tmp_path, "--set", "spec.load.seed=7")
    assert ended.code == 0, ended.stderr
    peaks = [run.spec.load.seed for run in _peaks(machine)]
    trials = [run.spec.load.seed for run in _trials(machine)]
    assert trials[0] == 7
    assert len(set(peaks)) == len(peaks) == 3
    assert not set(peaks) & set(trials)


def test_a_batch_size_is_tried_once(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 stands for none, which is a candidate in any case."""
    monkeypatch.chdir(tmp_path)
    ended = _tune(inferometer, tmp_path, "--batches", "0,4,4")
    assert ended.code == 0, ended.stderr
    found = [json.dumps(each) for each in _summary()["candidates"]]
    assert len(found) == len(set(found))
    assert any("batching" in each for each in found)


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_the_load_has_room_for_every_client(
    protocol: str,
    inferometer: Command,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With fewer connections, instances and batches wait for queries; all runs have the same."""
    monkeypatch.chdir(tmp_path)
    words = ("--batches", "32", "--set", f"spec.load.protocol={protocol}")
    assert _tune(inferometer, tmp_path, *words).code == 0
    loads = [run.spec.load for run in machine.runs]
    streams = loads[0].streams_per_connection if protocol == "GRPC" else 1
    trials = [run.spec.scenarios[0].concurrency for run in _trials(machine)]
    most = max(max(each.clients) for each in trials if each is not None)
    assert most == 4 * 4 * 32
    assert {each.connections for each in loads} == {most // streams}


def test_connections_of_the_command_line_hold(
    inferometer: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who serves few clients finds the settings for them."""
    monkeypatch.chdir(tmp_path)
    assert _tune(inferometer, tmp_path, "--set", "spec.load.connections=3").code == 0
    assert {run.spec.load.connections for run in machine.runs} == {3}


@pytest.mark.parametrize("size", ["-3", "100000"])
def test_a_batch_size_that_no_server_has_is_refused(
    size: str, inferometer: Command, machine: Machine, tmp_path: Path
) -> None:
    """Before any trial, with the sizes that are possible."""
    ended = _tune(inferometer, tmp_path, f"--batches={size}")
    assert ended.code == ExitCode.REFUSED
    assert f"--batches expects sizes of 1 to 4096, but got {size}" in ended.stderr
    assert machine.runs == []
