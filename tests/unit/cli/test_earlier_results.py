"""Earlier results of the same run name the spread from run to run."""

from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import Finding, ResultDocument, Verdict
from inferometer_cli.local import earlier_results, measurement
from inferometer_cli.local.earlier_results import with_run_to_run_spread
from inferometer_cli.result_file import save_result
from inferometer_cli.result_store import keep
from support.command import Command
from support.results import a_result, a_run
from support.steps import Load, a_step

_SINGLE = [{"name": "latency", "singleStream": {}}]


def a_single_run(milliseconds: float) -> ResultDocument:
    """Return a run of one scenario, measured once, whose ID is its latency."""
    caution = Finding(rule="SingleWindow", message="once", figure="1 repeat", limit="2 repeats")
    document = a_result(run=a_run(_SINGLE), run_id=f"run-{milliseconds}")
    step = a_step(Load(service_milliseconds=milliseconds, seconds=4))
    verdict = Verdict(state="VALID", cautions=[caution])
    scenario = document.scenarios[0].model_copy(update={"steps": [step], "verdict": verdict})
    return document.model_copy(update={"scenarios": [scenario]})


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use a database of the test's own."""
    monkeypatch.setenv("INFEROMETER_DATABASE", str(tmp_path / "results.db"))


def message(document: ResultDocument) -> str:
    """Return the caution of the only scenario."""
    (caution,) = document.scenarios[0].verdict.cautions
    return caution.message


def test_results_next_to_a_new_one_name_its_spread(tmp_path: Path) -> None:
    """Two earlier ones and the new one; files of other programs are skipped."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "result.json").write_text("[]")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "result.json").write_text("[" * 50_000)
    for number, milliseconds in enumerate((20, 21)):
        save_result(a_single_run(milliseconds), tmp_path / f"run-{number}")
    named = with_run_to_run_spread(a_single_run(22), tmp_path / "run-2")
    assert "in 3 results of this run on this machine" in message(named)
    assert str(tmp_path) in message(named)


def test_an_earlier_result_of_a_newer_version_counts_with_a_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of its fields were left out, as for every command that reads it."""
    for number, version in enumerate(("1.1", "1.999")):
        newer = a_single_run(20 + number).model_copy(update={"schema_version": version})
        save_result(newer, tmp_path / f"run-{number}")
    assert "in 3 results" in message(with_run_to_run_spread(a_single_run(22), tmp_path / "run-2"))
    assert capsys.readouterr().err.count("has schema version 1.999") == 1


def test_renamed_results_in_the_same_directory_count(tmp_path: Path) -> None:
    """A repeated --output renames the earlier result: both are results of this run."""
    for milliseconds in (20, 21):
        save_result(a_single_run(milliseconds), tmp_path / "out")
    assert "in 3 results" in message(with_run_to_run_spread(a_single_run(22), tmp_path / "out"))


def test_results_in_the_database_count_too(tmp_path: Path) -> None:
    """Wherever their files are; a result that is in both places counts once."""
    for number, milliseconds in enumerate((20, 21)):
        folder = tmp_path / ("here" if number else "elsewhere") / "run"
        keep(save_result(a_single_run(milliseconds), folder)[0])
    new, here = a_single_run(22), tmp_path / "here"
    named = message(with_run_to_run_spread(new, here / "new"))
    assert "in 3 results of this run on this machine" in named
    assert f"in {here} and the database)" in named
    assert "in 3 results" in message(with_run_to_run_spread(new, tmp_path / "other" / "new"))
    assert with_run_to_run_spread(new, here / "new", is_stored=False) == new


def test_a_damaged_database_names_no_spread(tmp_path: Path) -> None:
    """The result is complete without it, and keeping it reports the fault."""
    (tmp_path / "results.db").write_text("This is no database. " * 100)
    new = a_single_run(22)
    assert with_run_to_run_spread(new, tmp_path / "new") == new


def test_an_earlier_result_that_cannot_be_used_costs_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with it."""
    save_result(a_single_run(20), tmp_path / "run-0")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("no queries")

    monkeypatch.setattr(earlier_results, "name_spread", fail)
    new = a_single_run(22)
    assert with_run_to_run_spread(new, tmp_path / "run-1") == new
    assert "cannot be used: ZeroDivisionError: no queries" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["spec", "machine", "model"])
def test_other_runs_do_not_count(tmp_path: Path, what: str) -> None:
    """Another spec, another machine or another model file has another spread."""
    new = a_single_run(22)
    environment = new.environment
    assert environment is not None
    node = environment.node.model_copy(update={"hostname": "elsewhere"})
    model = environment.model.model_copy(update={"sha256": "0" * 64})
    changed: dict[str, dict[str, Any]] = {
        "spec": {"run": a_run([{"name": "latency", "multiStream": {"samplesPerQuery": 2}}])},
        "machine": {"environment": environment.model_copy(update={"node": node})},
        "model": {"environment": environment.model_copy(update={"model": model})},
    }
    for number in range(3):
        other = a_single_run(20 + number).model_copy(update=changed[what])
        keep(save_result(other, tmp_path / f"run-{number}")[0])
    assert with_run_to_run_spread(new, tmp_path / "new") == new


def test_a_third_run_prints_the_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table and the saved result have it; the first two say that it is unknown."""
    left = iter([20.0, 21.0, 22.0])
    monkeypatch.setattr(measurement, "measure", lambda *_: a_single_run(next(left)))
    file = tmp_path / "run.yaml"
    file.write_text(a_run(_SINGLE).model_dump_json(exclude_unset=True))
    inferometer = Command(monkeypatch, capsys)
    outputs = [
        inferometer("run", str(file), "-o", str(tmp_path / f"results/{number}")).stdout
        for number in range(3)
    ]
    assert ["From run to run the p50 varies by" in each for each in outputs] == [False, False, True]
    assert "varies by" in (tmp_path / "results" / "2" / "result.json").read_text()
