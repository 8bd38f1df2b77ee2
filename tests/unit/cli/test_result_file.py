"""A result is saved completely or not at all, and never overwrites another."""

import errno
import os
from pathlib import Path

import pytest

from inferometer_api.results.result import ResultDocument
from inferometer_cli import result_file
from inferometer_cli.exits import FailedError, RefusedError
from support.results import a_result, a_valid_result


def test_result_and_report_are_ordinary_files(tmp_path: Path) -> None:
    """Both are written into a directory that may not exist yet, with the permissions of umask."""
    result, report = result_file.save_result(a_result(), tmp_path / "deep" / "er")
    assert ResultDocument.model_validate_json(result.read_bytes()) == a_result()
    assert report.read_text().startswith("<!DOCTYPE html>") or "<html" in report.read_text()
    mask = os.umask(0)
    os.umask(mask)
    for path in (result, report):
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    assert sorted(path.name for path in result.parent.iterdir()) == ["report.html", "result.json"]


def test_an_earlier_result_is_renamed_after_its_time(tmp_path: Path) -> None:
    """A second result in the same directory renames both files of the first."""
    first, _ = result_file.save_result(a_result(), tmp_path)
    os.utime(first, (1_800_000_000.5, 1_800_000_000.5))
    result_file.save_result(a_valid_result(), tmp_path)
    stamp = "20270115T080000.500000Z"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"report-{stamp}.html",
        "report.html",
        f"result-{stamp}.json",
        "result.json",
    ]
    written = (tmp_path / f"result-{stamp}.json").read_bytes()
    assert ResultDocument.model_validate_json(written) == a_result()


def _full_for(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have the disk be full for every file whose path has `text`."""
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        if text in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_full_disk_leaves_the_earlier_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new result goes to a temporary directory; the earlier one remains unchanged."""
    refuge = tmp_path / "refuge"
    refuge.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(refuge))
    directory = tmp_path / "results"
    result_file.save_result(a_result(), directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    _full_for(monkeypatch, "/results/")
    with pytest.raises(FailedError, match=r"No space left on device. It is saved in .+ instead"):
        result_file.save_result(a_valid_result(), directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    (written,) = refuge.glob("*/result.json")
    assert ResultDocument.model_validate_json(written.read_bytes()) == a_valid_result()


def test_a_lost_result_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no directory is writable, nothing is left behind, not even half a file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _full_for(monkeypatch, str(tmp_path))
    with pytest.raises(FailedError, match="the result is lost"):
        result_file.save_result(a_result(), tmp_path / "results")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_report_that_cannot_be_written_loses_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result remains, and the message says how to write the report later."""
    _full_for(monkeypatch, "report.html")
    with pytest.raises(FailedError, match="then run: inferometer report "):
        result_file.save_result(a_result(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_the_directory_is_checked_in_advance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An existing or new directory is accepted; a file, or a path below one, is not."""
    result_file.check_directory(tmp_path)
    result_file.check_directory(tmp_path / "new" / "er")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        with pytest.raises(RefusedError, match=r"is a file\. Choose another directory"):
            result_file.check_directory(tmp_path / place)
