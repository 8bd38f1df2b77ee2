"""Settings and options of `inferometer tune`."""

import json
from pathlib import Path

import pytest

from inferometer_cli.exits import ExitCode
from support.command import Command
from support.tuned_machine import (
    TunedMachine,
    peaks_of,
    summary,
    trials_of,
    tune,
    tuned_machine,
)


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return how to run the command."""
    return Command(monkeypatch, capsys)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> TunedMachine:
    """Return a machine of 4 CPUs that measures at once."""
    return tuned_machine(monkeypatch)


def test_a_setting_of_the_command_line_leaves_one_candidate_of_equal_ones(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that are the same have one name, which is that of the server that runs."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--set", "spec.server.threads=1")
    assert ended.code == 0, ended.stderr
    found = [
        (each["precision"], each["threads"], each["instances"]) for each in summary()["candidates"]
    ]
    assert sorted(found) == [
        (precision, 1, instances) for precision in ("Default", "FP32") for instances in (1, 2, 4)
    ]
    assert {run.spec.server.threads for run in machine.runs} == {1}
    assert "of 2 threads" not in ended.stdout


def test_settings_of_the_command_line_leave_trials_as_they_are(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Length and scenario of a trial belong to the search: settings hold for confirmations."""
    monkeypatch.chdir(tmp_path)
    ended = tune(
        inferometer,
        tmp_path,
        *("--set", "spec.validity.minDurationSeconds=7"),
        *("--set", "spec.validity.maxDurationSeconds=25"),
        *("--set", "spec.scenarios[0].findPeak.probe.minQueries=600"),
        *("--set", "spec.load.protocol=GRPC"),
    )
    assert ended.code == 0, ended.stderr
    peaks, trials = peaks_of(machine), trials_of(machine)
    assert {run.spec.validity.min_duration_seconds for run in trials} == {1, 3}
    assert {run.spec.validity.max_duration_seconds for run in trials} == {70, 90}
    assert {run.spec.validity.min_duration_seconds for run in peaks} == {7}
    assert {run.spec.validity.max_duration_seconds for run in peaks} == {25}
    searches = [run.spec.scenarios[0].find_peak for run in peaks]
    assert {each.probe.min_queries for each in searches if each is not None} == {600}
    assert {run.spec.load.protocol for run in machine.runs} == {"GRPC"}


def test_a_seed_of_the_command_line_leaves_confirmations_fresh(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is that of the search; no confirmation has a trial's, or another one's."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--set", "spec.load.seed=7")
    assert ended.code == 0, ended.stderr
    peaks = [run.spec.load.seed for run in peaks_of(machine)]
    trials = [run.spec.load.seed for run in trials_of(machine)]
    assert trials[0] == 7
    assert len(set(peaks)) == len(peaks) == 3
    assert not set(peaks) & set(trials)


def test_a_batch_size_is_tried_once(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 stands for none, which is a candidate in any case."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--batches", "0,4,4")
    assert ended.code == 0, ended.stderr
    found = [json.dumps(each) for each in summary()["candidates"]]
    assert len(found) == len(set(found))
    assert any("batching" in each for each in found)


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_the_load_has_room_for_every_client(
    protocol: str,
    inferometer: Command,
    machine: TunedMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With fewer connections, instances and batches wait for queries; all runs have the same."""
    monkeypatch.chdir(tmp_path)
    words = ("--batches", "32", "--set", f"spec.load.protocol={protocol}")
    assert tune(inferometer, tmp_path, *words).code == 0
    loads = [run.spec.load for run in machine.runs]
    streams = loads[0].streams_per_connection if protocol == "GRPC" else 1
    trials = [run.spec.scenarios[0].concurrency for run in trials_of(machine)]
    most = max(max(each.clients) for each in trials if each is not None)
    assert most == 4 * 4 * 32
    assert {each.connections for each in loads} == {most // streams}


def test_connections_of_the_command_line_hold(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who serves few clients finds the settings for them."""
    monkeypatch.chdir(tmp_path)
    assert tune(inferometer, tmp_path, "--set", "spec.load.connections=3").code == 0
    assert {run.spec.load.connections for run in machine.runs} == {3}


@pytest.mark.parametrize("size", ["-3", "100000"])
def test_a_batch_size_that_no_server_has_is_refused(
    size: str, inferometer: Command, machine: TunedMachine, tmp_path: Path
) -> None:
    """Before any trial, with the sizes that are possible."""
    ended = tune(inferometer, tmp_path, f"--batches={size}")
    assert ended.code == ExitCode.REFUSED
    assert f"--batches expects sizes of 1 to 4096, but got {size}" in ended.stderr
    assert machine.runs == []
