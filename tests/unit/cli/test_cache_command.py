"""`inferometer cache`: whether sharing a model pays, and files that are no model."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferometer_cli.commands.cache import cache
from inferometer_cli.exits import ExitCode, FailedError, RefusedError
from inferometer_cli.local import model_forms
from support import onnx_models

_SHARING = {"diskBytesPerSecond": 2e9, "exportMilliseconds": 2.0, "openMilliseconds": 0.5}

_RANGE = "steadyRangeMilliseconds"


def _document(sharing: dict[str, Any], size: int) -> dict[str, Any]:
    names = ("loadMilliseconds", "togetherMilliseconds", "firstMilliseconds", "steadyMilliseconds")
    slow, fast = (dict.fromkeys(names, each) for each in (9.0, 1.0))
    other = {"addedBytes": 0, "fileBytes": size}
    return {
        "forms": [
            {"name": "OneFile", "files": 1, **slow, **other, _RANGE: [8.0, 10.0]},
            {"name": "MemoryMapped", "files": 2, **fast, **other, _RANGE: [0.9, 1.1]},
        ],
        "unavailable": {},
        "sharing": sharing,
    }


@pytest.mark.parametrize(
    ("sharing", "size", "sentence"),
    [
        (
            _SHARING,
            200 << 20,
            "Share it: a read of 200 MiB from this disk takes 105 ms, and to export and open",
        ),
        (_SHARING, 1 << 20, "Do not share it: a read of 1.00 MiB from this disk takes 524 µs"),
        (
            {"unavailable": "it is no disk"},
            1 << 20,
            "Whether sharing it pays is not known here: it is no disk.",
        ),
    ],
)
def test_the_recommendation_says_whether_to_share(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sharing: dict[str, Any],
    size: int,
    sentence: str,
) -> None:
    """Both sides of the formula are there: the read that is saved, and what sharing costs."""
    document = _document(sharing, size)
    monkeypatch.setattr(model_forms, "measure_forms", lambda *_, **__: document)
    cache(onnx_models.write_with_external_data(tmp_path))
    printed = capsys.readouterr().out
    assert "Keep MemoryMapped" in printed
    assert sentence in printed


def test_a_form_that_a_model_cannot_have_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other forms are in the table, and one of them is recommended."""
    document = _document(_SHARING, 3 << 30)
    document["forms"] = document["forms"][1:]
    document["unavailable"] = {"OneFile": "it is too large"}
    monkeypatch.setattr(model_forms, "measure_forms", lambda *_, **__: document)
    cache(tmp_path / "model.onnx")
    printed = capsys.readouterr().out
    assert "Not measured: OneFile: it is too large." in printed
    assert "Keep MemoryMapped" in printed


@pytest.mark.parametrize(
    ("mapped", "sentence"),
    [
        (
            [0.024, 0.026],
            "MemoryMapped loads in 1.0 ms instead of 9.0 ms, and costs 25% of steady latency.",
        ),
        (
            [0.019, 0.026],
            (
                "Whether it costs steady latency is not certain: its processes took 0.019 to "
                "0.026 ms, and the others 0.018 to 0.022 ms."
            ),
        ),
    ],
)
def test_a_cost_that_the_processes_do_not_show_is_not_certain(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mapped: list[float],
    sentence: str,
) -> None:
    """Latencies below 0.1 ms have their digits in the table too."""
    document = _document(_SHARING, 1 << 20)
    one_file, memory_mapped = document["forms"]
    one_file |= {"steadyMilliseconds": 0.02, _RANGE: [0.018, 0.022]}
    memory_mapped |= {"steadyMilliseconds": 0.025, _RANGE: mapped}
    monkeypatch.setattr(model_forms, "measure_forms", lambda *_, **__: document)
    cache(Path("model.onnx"))
    printed = " ".join(capsys.readouterr().out.split())
    assert sentence in printed
    assert "Keep OneFile" in printed
    assert " 0.02 " in printed
    assert " 0.025 " in printed


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Have a measurement end at once; return the models that were measured."""
    form = tmp_path / "forms" / "external"
    form.mkdir(parents=True)
    (form / "model.onnx").write_bytes(b"best")
    found: list[Path] = []

    def measure(model: Path, _: Path, **__: Any) -> dict[str, Any]:
        found.append(model)
        document = _document(_SHARING, 1 << 20)
        for each in document["forms"]:
            each["model"] = str(form / "model.onnx")
        return document

    monkeypatch.setattr(model_forms, "measure_forms", measure)
    return found


def test_the_best_form_is_kept(tmp_path: Path, measured: list[Path]) -> None:
    """The folder is new, and so may be those above it."""
    cache(tmp_path / "model.onnx", write=tmp_path / "new" / "form")
    assert len(measured) == 1
    assert (tmp_path / "new" / "form" / "model.onnx").read_bytes() == b"best"


@pytest.mark.parametrize("folder", ["/proc/nowhere/form", "/dev/null/form", "/tmp"])  # noqa: S108
def test_a_folder_that_cannot_be_made_is_refused_before_the_measurement(
    measured: list[Path], folder: str
) -> None:
    """The message names it."""
    with pytest.raises(RefusedError, match=folder):
        cache(Path("model.onnx"), write=Path(folder))
    assert measured == []


def test_a_form_that_cannot_be_copied_costs_no_figures(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    measured: list[Path],
) -> None:
    """The table is printed, and the command fails with the reason."""

    def fill_disk(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", fill_disk)
    with pytest.raises(FailedError, match=r"is not whole: .*No space left"):
        cache(tmp_path / "model.onnx", write=tmp_path / "form")
    assert len(measured) == 1
    assert "Keep MemoryMapped" in capsys.readouterr().out


def test_a_measurement_that_fails_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command can then be repeated."""

    def fail(*_: Any, **__: Any) -> None:
        raise FailedError("ended early")

    monkeypatch.setattr(model_forms, "measure_forms", fail)
    with pytest.raises(FailedError, match="ended early"):
        cache(tmp_path / "model.onnx", write=tmp_path / "form")
    assert not (tmp_path / "form").exists()


_MAIN = """
import gc, sys
from inferometer_cli.__main__ import main
sys.executable = sys.argv.pop(1)
try:
    main()
except SystemExit as error:
    code = error.code
gc.collect()
sys.exit(code)
"""


def test_a_signal_ends_the_measurement_without_a_traceback(tmp_path: Path) -> None:
    """Its own children hold its standard error until they are killed, as those that probe do."""
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\nsleep 0.5\nsleep 60 >/dev/null &\nkill -TERM $PPID\nexec sleep 60\n"
    )
    program.chmod(0o755)
    model = onnx_models.write_with_external_data(tmp_path)
    words = [str(program), "cache", str(model), "--write", str(tmp_path / "form")]
    found = subprocess.run(
        [sys.executable, "-c", _MAIN, *words], capture_output=True, text=True, check=False
    )
    first, *others = found.stderr.splitlines()
    assert first.startswith("Writing and opening the forms")
    assert others == ["inferometer: terminated."]
    assert found.returncode == ExitCode.TERMINATED
    assert not (tmp_path / "form").exists()


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"", "it is empty"), (b"hello\n", "is not an ONNX model")]
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    """The message names the file and the reason, and no process is started for it."""
    file = tmp_path / "bad.onnx"
    file.write_bytes(content)
    with pytest.raises(RefusedError, match=r"bad\.onnx") as refused:
        cache(file)
    assert sentence in str(refused.value)


def test_a_model_without_its_external_data_is_refused(tmp_path: Path) -> None:
    """The message names the missing file."""
    file = onnx_models.write_with_external_data(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(RefusedError, match=r"weights\.bin.* is not there"):
        cache(file)
