"""`inferometer tune` measures candidates, leaves out other computations, and confirms the best."""

import shutil
from pathlib import Path
from typing import Literal

import pytest
import yaml

from inferometer_api.results.result import (
    Finding,
    Verdict,
)
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


def test_the_best_three_are_confirmed_on_fresh_seeds(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only figures of full searches are printed, and the best settings are a run file."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = summary()
    best = {"runtime": "OnnxRuntime", "precision": "FP32", "threads": 4, "instances": 1}
    assert found["confirmed"][0]["server"] == best
    assert "1. 360.0 queries/s (320.0 to 400.0), VALID: OnnxRuntime FP32, 1 instance of 4" in (
        ended.stdout
    )
    peaks, trials = peaks_of(machine), trials_of(machine)
    assert len(peaks) == 3
    assert not {run.spec.load.seed for run in peaks} & {run.spec.load.seed for run in trials}
    tuned = yaml.safe_load(Path("out/best.yaml").read_text())
    assert tuned["spec"]["server"]["threads"] == 4
    assert {each["candidate"] for each in found["trials"]} == set(range(len(found["candidates"])))


def test_an_engine_that_computes_something_else_is_out(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast, it is not confirmed; the summary says why."""
    monkeypatch.chdir(tmp_path)
    machine.outputs["FP32"] = [2.0, 1.0]
    ended = tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = summary()
    assert all(each["server"]["precision"] == "Default" for each in found["confirmed"])
    assert all("computes something else" in why for why in found["excluded"].values())
    assert len(found["excluded"]) == len(found["candidates"]) // 2


def test_a_precision_that_the_engine_does_not_have_is_out(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trials are not ranked, however fast; alone, it is no result."""
    monkeypatch.chdir(tmp_path)
    machine.not_obtained = frozenset({"FP32"})
    ended = tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = summary()
    assert {each["server"]["precision"] for each in found["confirmed"]} == {"Default"}
    assert "OnnxRuntime FP32, 1 instance of 4 threads: out, Requested was the precision FP32" in (
        ended.stderr
    )
    assert len(found["excluded"]) == len(found["candidates"]) // 2
    ended = tune(inferometer, tmp_path, "--engines", "OnnxRuntime:FP32")
    assert ended.code == ExitCode.FAILED
    assert "No candidate was confirmed" in ended.stderr
    assert "OnnxRuntime FP32" not in ended.stdout


def test_confirmations_that_end_too_soon_rank_nothing(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate without a figure may be the best; a higher bound would not help."""
    monkeypatch.chdir(tmp_path)
    machine.too_short = frozenset({"FP32"})
    ended = tune(inferometer, tmp_path)
    assert ended.code == ExitCode.FAILED
    assert "before a queue could grow: 50ms is long" in ended.stderr
    assert "Raise --p99" not in ended.stderr
    assert not Path("out/best.yaml").exists()


_DIGITS = ("--dataset", "builtin://digits", "--least-accuracy")


def test_an_accuracy_takes_the_place_of_equal_outputs(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faster engine computes something else, but is right as often as the user wants."""
    monkeypatch.chdir(tmp_path)
    machine.outputs["FP32"] = [2.0, 1.0]
    machine.accuracies = {"Default": 0.95, "FP32": 0.9}
    ended = tune(inferometer, tmp_path, *_DIGITS, "Top1=90%")
    assert ended.code == 0, ended.stderr
    found = summary()
    assert found["confirmed"][0]["server"]["precision"] == "FP32"
    assert found["accuracies"] == {"OnnxRuntime:Default": 0.95, "OnnxRuntime:FP32": 0.9}
    evaluated = [run.spec.scenarios[0].accuracy for run in machine.runs[:2]]
    assert [each and (each.dataset.uri, each.metrics) for each in evaluated] == [
        ("builtin://digits", ["Top1"])
    ] * 2
    assert "OnnxRuntime:FP32: Top1 90.00 %" in ended.stderr


@pytest.mark.parametrize(
    ("limit", "worse"), [("Top1=0.91", 0.9), ("CER=2%", 0.021), ("MSE=0.5", 0.51)]
)
def test_an_engine_below_the_accuracy_is_left_out_however_fast(
    inferometer: Command,
    machine: TunedMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    worse: float,
) -> None:
    """Of errors the limit is the most."""
    monkeypatch.chdir(tmp_path)
    best = float(limit.partition("=")[2].removesuffix("%")) / (100 if "%" in limit else 1)
    machine.accuracies = {"Default": best, "FP32": worse}
    ended = tune(inferometer, tmp_path, *_DIGITS, limit)
    assert ended.code == 0, ended.stderr
    found = summary()
    assert {each["precision"] for each in found["candidates"]} == {"Default"}
    assert f"OnnxRuntime:FP32 is left out: {limit.partition('=')[0]} " in ended.stderr
    machine.accuracies = {"Default": worse, "FP32": worse}
    ended = tune(inferometer, tmp_path, *_DIGITS, limit)
    assert ended.code == ExitCode.FAILED
    assert "No engine keeps --least-accuracy" in ended.stderr


def test_an_engine_without_its_precision_has_no_accuracy(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure would be that of another precision."""
    monkeypatch.chdir(tmp_path)
    machine.not_obtained = frozenset({"FP32"})
    ended = tune(inferometer, tmp_path, *_DIGITS, "Top1=50%")
    assert ended.code == 0, ended.stderr
    assert "OnnxRuntime:FP32 is left out: Requested was the precision FP32" in ended.stderr
    assert summary()["accuracies"] == {"OnnxRuntime:Default": 0.9}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--least-accuracy", "Top1=90%"), "--least-accuracy and --dataset belong together"),
        (("--dataset", "builtin://digits"), "--least-accuracy and --dataset belong together"),
        ((*_DIGITS, "Top2=90%"), "--least-accuracy expects a measure and its limit"),
        ((*_DIGITS, "Top1"), "--least-accuracy expects a measure and its limit"),
        ((*_DIGITS, "Top1=nan"), "--least-accuracy expects a measure and its limit"),
        ((*_DIGITS, "Top1=-1"), "--least-accuracy expects a measure and its limit"),
    ],
)
def test_an_accuracy_without_a_meaning_is_refused(
    inferometer: Command,
    machine: TunedMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    """Before anything is measured."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, *words)
    assert ended.code == ExitCode.REFUSED
    assert sentence in ended.stderr
    assert machine.runs == []


def test_the_floor_of_the_outputs_can_be_lowered(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cosine that the user accepts lets a less exact engine win."""
    monkeypatch.chdir(tmp_path)
    machine.outputs["FP32"] = [1.0, 1.7]
    assert tune(inferometer, tmp_path).code == 0
    assert summary()["confirmed"][0]["server"]["precision"] == "Default"
    assert tune(inferometer, tmp_path, "--least-cosine", "0.98").code == 0
    assert summary()["confirmed"][0]["server"]["precision"] == "FP32"


def test_a_bound_that_nothing_keeps_is_a_failure(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No figure is printed if no candidate has a rate within the bound."""
    monkeypatch.chdir(tmp_path)
    machine.slow = 20.0
    ended = tune(inferometer, tmp_path)
    assert ended.code == ExitCode.FAILED
    assert "No candidate was confirmed to keep a P99 of 50ms. The lowest P99 of a trial was" in (
        ended.stderr
    )
    assert ended.stdout == ""


def test_a_warning_is_printed_once(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each engine."""
    monkeypatch.chdir(tmp_path)
    words = ("--set", "spec.validity.minDurationSeconds=5")
    ended = tune(inferometer, tmp_path, *words, "--set", "spec.validity.maxDurationSeconds=25")
    assert ended.stderr.count("note: spec.scenarios[0].findPeak.probe.maxSeconds (60)") == 1


def test_an_invalid_confirmation_ends_with_its_code(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure that cannot be trusted is shown as such."""
    monkeypatch.chdir(tmp_path)
    busy = Finding(rule="BusyMachine", message="It was busy.", figure="1", limit="0")
    machine.verdict = Verdict(state="INVALID", reasons=[busy])
    ended = tune(inferometer, tmp_path)
    assert ended.code == ExitCode.INVALID
    assert "INVALID: OnnxRuntime FP32" in ended.stdout


def _disturbed(state: Literal["VALID", "INVALID"]) -> Verdict:
    finding = Finding(rule="OtherProcesses", message="They ran.", figure="1", limit="0")
    return Verdict(state=state, cautions=[finding])


def test_a_disturbed_trial_is_repeated_and_noted(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After all others of its rung; a note says that the search may have missed the best."""
    monkeypatch.chdir(tmp_path)
    machine.disturbed = {2: _disturbed("VALID")}
    ended = tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    found = summary()
    count = len(found["candidates"])
    again = found["trials"][count]
    assert again["candidate"] == found["trials"][1]["candidate"]
    assert [each["disturbed"] for each in found["trials"][:3]] == [False, True, False]
    assert not again["disturbed"]
    assert "1 candidate once more, since other processes took CPUs" in ended.stderr
    assert f"took CPUs from 1 of the {len(found['trials'])} trials" in ended.stderr


def test_a_disturbed_confirmation_is_repeated(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fresh seed, after all others: a slower candidate must not win by quiet alone."""
    monkeypatch.chdir(tmp_path)
    assert tune(inferometer, tmp_path).code == 0
    peaks = peaks_of(machine)
    place = machine.runs.index(peaks[0])
    machine.runs.clear()
    machine.disturbed = {place: _disturbed("INVALID")}
    ended = tune(inferometer, tmp_path)
    assert ended.code == 0, ended.stderr
    again = peaks_of(machine)
    assert [run.spec.server for run in again] == [
        *(run.spec.server for run in peaks),
        again[0].spec.server,
    ]
    assert len({run.spec.load.seed for run in again}) == 4
    best = summary()["confirmed"][0]
    assert best["verdict"] == "VALID"
    assert best["seed"] == again[3].spec.load.seed


@pytest.mark.parametrize("stops_at", [0, 1])
def test_ctrl_c_before_the_first_trial_writes_nothing(
    stops_at: int,
    inferometer: Command,
    machine: TunedMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interrupted search ends the command with the code of the signal."""
    monkeypatch.chdir(tmp_path)
    machine.stops_at = stops_at
    ended = tune(inferometer, tmp_path)
    assert ended.code == ExitCode.INTERRUPTED
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_the_finished_trials(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are marked as unfinished, nothing is called the best, and a message names them."""
    monkeypatch.chdir(tmp_path)
    machine.stops_at = 5
    ended = tune(inferometer, tmp_path)
    assert ended.code == ExitCode.INTERRUPTED
    found = summary()
    assert not found["ranToCompletion"]
    assert (len(found["trials"]), found["confirmed"]) == (4, [])
    assert f"{tmp_path / 'out'} has tune.json with 4 trials. " in ended.stderr
    assert [each.name for each in Path("out").iterdir()] == ["tune.json"]


def test_ctrl_c_keeps_the_finished_confirmations(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their results, but without best.yaml: a better one may have been to come."""
    monkeypatch.chdir(tmp_path)
    assert tune(inferometer, tmp_path).code == 0
    whole = summary()
    assert whole["ranToCompletion"]
    shutil.rmtree("out")
    machine.stops_at = machine.runs.index(peaks_of(machine)[2])
    machine.runs.clear()
    ended = tune(inferometer, tmp_path)
    assert ended.code == ExitCode.INTERRUPTED
    found = summary()
    assert not found["ranToCompletion"]
    assert found["trials"] == whole["trials"]
    assert len(found["confirmed"]) == 2
    assert "and the results of 2 confirmations. " in ended.stderr
    assert sorted(each.name for each in Path("out").iterdir()) == ["1", "2", "tune.json"]
    assert Path("out/2/result.json").exists()


@pytest.mark.parametrize("engines", ["", ",", "Foo:FP32", "OnnxRuntime:FP31", "onnxruntime"])
def test_engines_that_do_not_exist_are_refused_with_those_that_do(
    inferometer: Command,
    machine: TunedMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engines: str,
) -> None:
    """In the words of the option: a user of this command wrote no run file."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--engines", engines)
    assert ended.code == ExitCode.REFUSED
    assert 'OnnxRuntime:Default,OpenVino:BF16, but got "' + engines in ended.stderr
    assert "Engines are OnnxRuntime, OpenVino, Triton, " in ended.stderr
    assert "precisions Default, FP32, BF16, FP16, INT8." in ended.stderr
    assert "line " not in ended.stderr
    assert machine.runs == []


def test_a_bound_that_cannot_be_is_refused_in_the_words_of_its_option(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `inferometer run` refuses it."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--p99", "0ms")
    assert ended.code == ExitCode.REFUSED
    assert "--p99: must be a whole number" in ended.stderr
    assert machine.runs == []


def test_an_empty_item_among_engines_is_none(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comma at the end is no engine without a name."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--engines", "OnnxRuntime:Default, ,")
    assert ended.code == 0, ended.stderr
    assert "left out" not in ended.stderr
    assert machine.runs


def test_too_many_candidates_are_refused(
    inferometer: Command, machine: TunedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to leave out."""
    monkeypatch.chdir(tmp_path)
    ended = tune(inferometer, tmp_path, "--most", "3")
    assert ended.code == ExitCode.REFUSED
    assert "name fewer engines or batch sizes" in ended.stderr
    assert machine.runs == []
