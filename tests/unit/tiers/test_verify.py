"""`make verify` resumes after an interruption and lists inconclusive tests."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import verify

LINE = "tests/accuracy/test_x.py::test_y: inconclusive: tasks waited for a CPU 60.0%"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Replace the groups' tests by a note of which group ran; `local` fails."""
    groups: list[str] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        notes = Path(env[verify.INCONCLUSIVE_VARIABLE])
        groups.append(notes.stem)
        if notes.stem == "accuracy":
            notes.write_text(LINE + "\n")
        return subprocess.CompletedProcess(command, int(notes.stem == "local"))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(verify, "state_folder", lambda: tmp_path)
    return groups


def test_a_finished_group_is_not_repeated(
    ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed group runs again, a passed one does not; inconclusive tests are listed each time."""
    assert verify.main(["accuracy", "local"]) == 1
    assert verify.main(["accuracy", "local"]) == 1
    assert ran == ["accuracy", "local", "local"]
    said = capsys.readouterr().out
    assert said.count(LINE) == 2
    assert "Failed: local. Repeat one: make verify GROUP=local" in said


def test_finished_groups_can_be_repeated(ran: list[str]) -> None:
    """--again forgets what passed."""
    assert verify.main(["accuracy"]) == 0
    assert verify.main(["--again", "accuracy"]) == 0
    assert ran == ["accuracy", "accuracy"]


def test_only_the_groups_of_a_change_run(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make verify-changed runs what the changed folders call for."""
    monkeypatch.setattr(verify, "changed_files", lambda _: ["grafana/rules.py"])
    assert verify.main(["--changed-since", "main"]) == 0
    assert ran == ["dashboards"]


def test_an_unknown_group_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the groups that there are."""
    with pytest.raises(SystemExit):
        verify.main(["everything"])
    assert "Unknown group: everything. Groups: accuracy, local," in capsys.readouterr().err
