"""`inferometer results trend` draws a figure over time, and `confirm` measures its candidates."""

import copy
import json
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from inferometer_cli.exits import ExitCode
from inferometer_cli.local import measurement
from inferometer_results.store.index_rows import ACCEPT_CHANGE, JournalRow
from inferometer_results.store.store import Store
from support.command import Command
from support.history_results import (
    NODE,
    SCENARIO,
    SLOW_CPU,
    HistoryMachine,
    a_slower_spec,
    a_step_up,
    add_all,
)
from support.stored_results import CLUSTER


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the address of the command's database."""
    address = str(tmp_path / "results.db")
    monkeypatch.setenv("INFEROMETER_DATABASE", address)
    return address


@pytest.fixture
def inferometer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run a command on the node of the series."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: NODE)
    return Command(monkeypatch, capsys)


def keep(database: str, documents: list[dict[str, Any]]) -> list[str]:
    """Put results into the command's database."""
    with Store(database) as store:
        return add_all(store, documents)


def test_a_finding_that_cannot_be_read_is_counted(inferometer: Command, database: str) -> None:
    """The change remains a candidate."""
    ids = keep(database, a_step_up())
    with Store(database) as store:
        store.note(ids[20], JournalRow("2026-02-01T00:00:00.000Z", "ann", ACCEPT_CHANGE, "{}"))
    shown = inferometer("results", "trend")
    assert (shown.code, shown.stderr) == (0, "")
    assert "1 finding about changes of these results cannot be read." in shown.stdout
    assert f"inferometer results confirm {ids[20][:12]}" in shown.stdout


def test_a_scenario_without_a_series_is_refused(inferometer: Command, database: str) -> None:
    """With those that there are."""
    keep(database, a_step_up())
    refused = inferometer("results", "trend", "--scenario", "other")
    assert refused.code == ExitCode.REFUSED
    assert f"No series is of this scenario and step. There are: {SCENARIO}." in refused.stderr


def test_a_trend_has_a_line_with_its_change_points(inferometer: Command, database: str) -> None:
    """A dot for each run, the candidate with its label, and what can be judged."""
    ids = keep(database, a_step_up())
    shown = inferometer("results", "trend")
    assert (shown.code, shown.stderr) == (0, "")
    title, *lines = shown.stdout.splitlines()
    assert title == f"test, {SCENARIO}, p50 on {NODE}, External, CPU, HTTP: 26 runs"
    plot = lines[:8]
    assert plot[0].startswith("12.02 ms")
    assert plot[-1].startswith("10.00 ms")
    assert sum(line.count("\N{BULLET}") for line in plot) == 26
    (row,) = (line for line in lines if line.startswith("candidate"))
    assert ids[20][:12] in row
    assert "+20.0 % worse" in row
    assert "commit=c20" in row
    assert f"inferometer results confirm {ids[20][:12]} --figure p50" in shown.stdout
    assert lines[-1].startswith("Cannot judge: there are 6 comparable runs since the last change")


def test_a_trend_as_json_has_every_value(inferometer: Command, database: str) -> None:
    """With the change points and their states."""
    keep(database, a_step_up())
    (found,) = json.loads(inferometer("results", "trend", "--json").stdout)
    assert len(found["points"]) == 26
    assert [each["state"] for each in found["changes"]] == ["candidate"]
    assert found["series"]["scenario"] == SCENARIO
    assert json.loads(inferometer("results", "trend", "--json", "--scenario", "x").stdout) == []


def test_a_trend_without_results_says_so(inferometer: Command, database: str) -> None:
    """A figure that has no history ends with 2."""
    assert inferometer("results", "trend").stderr == "No VALID results with this figure.\n"
    assert inferometer("results", "trend", "--figure", "p42").code == 2


@pytest.mark.parametrize(
    ("slow", "code", "state"),
    [(12.0, ExitCode.SLOWER, "accepted"), (10.0, ExitCode.VALID, "rejected")],
)
def test_a_candidate_is_confirmed_by_interleaved_runs(
    inferometer: Command,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    slow: float,
    code: int,
    state: str,
) -> None:
    """Both sides in turn; the journal has the outcome, and an alert exits with 4."""
    ids = keep(database, a_slower_spec())
    machine = HistoryMachine(slow)
    monkeypatch.setattr(measurement, "measure", machine.measure)
    ended = inferometer("results", "confirm", ids[20][:8], "--rounds", "4")
    assert (ended.code, machine.measured[:4]) == (code, ["1", SLOW_CPU, SLOW_CPU, "1"])
    (found,) = json.loads(inferometer("results", "trend", "--json").stdout)
    (change,) = found["changes"]
    assert (change["state"], change["finding"]["rounds"]) == (state, 4)
    shown = inferometer("results", "trend").stdout
    assert f"{ids[20][:12]}: 4 interleaved rounds show" in shown
    assert "results confirm" not in shown


@pytest.mark.parametrize(
    ("options", "code"),
    [((), ExitCode.INCONCLUSIVE), (("--inconclusive", "pass"), ExitCode.VALID)],
)
def test_what_is_not_shown_is_not_recorded(
    inferometer: Command,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    code: int,
) -> None:
    """Interleaved runs that scatter too much leave the candidate one; the user chooses the code."""
    ids = keep(database, a_slower_spec())
    machine = HistoryMachine(10.4, scatter=0.05)
    monkeypatch.setattr(measurement, "measure", machine.measure)
    ended = inferometer("results", "confirm", ids[20], "--rounds", "3", *options)
    assert ended.code == code
    (found,) = json.loads(inferometer("results", "trend", "--json").stdout)
    assert found["changes"][0]["state"] == "candidate"


def test_what_cannot_be_confirmed_is_refused(
    inferometer: Command, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change there, equal specifications, another node: nothing is measured."""
    ids = keep(database, a_step_up())
    refused = inferometer("results", "confirm", ids[3])
    assert refused.code == ExitCode.REFUSED
    assert "No change of p50 begins with result" in refused.stderr
    assert "the same specification" in inferometer("results", "confirm", ids[20]).stderr
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert f"measured on {NODE}, and this is elsewhere" in (
        inferometer("results", "confirm", ids[20]).stderr
    )


def a_step_up_in_batches() -> list[dict[str, Any]]:
    """Return results in which the median also rises in each step of a batch scenario."""
    measured = next(each for each in CLUSTER["scenarios"] if each["kind"] == "batch")
    runs = CLUSTER["run"]["spec"]["scenarios"]
    specified = next(each for each in runs if each["name"] == measured["name"])
    documents = a_step_up()
    for document in documents:
        (single,) = document["scenarios"]
        latency = single["steps"][0]["latency"]
        steps = [each | {"latency": latency} for each in measured["steps"]]
        document["scenarios"].append(copy.deepcopy(measured | {"steps": steps}))
        document["run"]["spec"]["scenarios"].append(specified)
    return documents


def test_each_of_several_series_can_be_confirmed(inferometer: Command, database: str) -> None:
    """By the commands that `trend` prints; without options the choices are named."""
    ids = keep(database, a_step_up_in_batches())
    options = [
        f"--scenario {SCENARIO}",
        "--scenario s2 --step 'batch 1'",
        "--scenario s2 --step 'batch 4'",
    ]
    several = inferometer("results", "confirm", ids[20])
    assert several.code == ExitCode.REFUSED
    assert [each.strip() for each in several.stderr.splitlines()[1:]] == options
    shown = inferometer("results", "trend").stdout
    for each in options:
        command = f"results confirm {ids[20][:12]} --figure p50 {each}"
        assert f"inferometer {command}\n" in shown
        assert "the same specification" in inferometer(*shlex.split(command)).stderr
    both = inferometer("results", "confirm", ids[20], "--scenario", "s2").stderr
    assert [each.strip() for each in both.splitlines()[1:]] == options[1:]
    other = inferometer("results", "confirm", ids[20], "--step", "batch 2").stderr
    assert "No change of p50 begins with result" in other
