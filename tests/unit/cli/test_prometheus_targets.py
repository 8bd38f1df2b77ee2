"""Prometheus finds what can be scraped while a run lasts, and nothing afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer_cli.exits import RefusedError
from inferometer_cli.local.prometheus_targets import PrometheusTargets


def groups(file: Path) -> list[dict[str, Any]]:
    """Return what Prometheus reads."""
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


def test_the_file_lists_running_processes(tmp_path: Path) -> None:
    """Each process is a group with its labels while the run lasts; no other file is left."""
    file = tmp_path / "targets.json"
    with PrometheusTargets(file, "resnet") as targets:
        assert groups(file) == []
        targets.add("server", "127.0.0.1:81")
        targets.add("node agent", "127.0.0.1:82")
        assert groups(file) == [
            {"targets": ["127.0.0.1:81"], "labels": {"component": "server", "run": "resnet"}},
            {"targets": ["127.0.0.1:82"], "labels": {"component": "node agent", "run": "resnet"}},
        ]
    assert groups(file) == []
    assert [path.name for path in tmp_path.iterdir()] == ["targets.json"]


def test_a_run_that_fails_leaves_no_target(tmp_path: Path) -> None:
    """However the run ends, its addresses are removed."""
    file = tmp_path / "targets.json"

    def fail() -> None:
        with PrometheusTargets(file, "r") as targets:
            targets.add("server", "127.0.0.1:81")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert groups(file) == []


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the option, a run writes no file."""
    monkeypatch.chdir(tmp_path)
    with PrometheusTargets(None, "r") as targets:
        targets.add("server", "127.0.0.1:81")
        assert not targets.is_enabled
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A missing directory is reported before anything starts."""
    with (
        pytest.raises(RefusedError, match=r"Cannot write --prometheus-targets .*: No such file"),
        PrometheusTargets(tmp_path / "no/t.json", "r"),
    ):
        pass


def test_a_directory_that_disappears_ends_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process is measured although its address cannot be written; this is reported once."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with PrometheusTargets(folder / "t.json", "r") as targets:
        (folder / "t.json").unlink()
        folder.rmdir()
        targets.add("server", "127.0.0.1:81")
        targets.add("load generator", "127.0.0.1:82")
    stderr = capsys.readouterr().err
    assert stderr.count("Cannot update --prometheus-targets ") == 1
    assert "No such file" in stderr


def test_a_directory_that_disappears_loses_no_result(tmp_path: Path) -> None:
    """The result is not lost because the targets cannot be removed."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with PrometheusTargets(folder / "t.json", "r"):
        (folder / "t.json").unlink()
        folder.rmdir()
    assert not folder.exists()
