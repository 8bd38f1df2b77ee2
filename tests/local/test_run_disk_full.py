"""A run on a full disk ends with a sentence and leaves no half-written result."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.inferometer_process import Inferometer, result_in
from support.local_runs import done
from support.requirements import cannot_run

CALM: dict[str, Any] = {"server": {"targetQps": 20}}
"""A scenario that leaves the cores to other runs."""


@contextmanager
def _disk(folder: Path, size: str) -> Iterator[Path]:
    """Yield a folder that holds only `size`; skip where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        cannot_run(f"no small disk can be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(folder: Path) -> None:
    with (folder / "filler").open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    with suppress(OSError):
        (folder / "last").write_bytes(bytes(4096))


def test_a_disk_without_room_is_noticed_before_anything_is_measured(tmp_path: Path) -> None:
    """A directory without room for a result ends the run with 1 at once."""
    with _disk(tmp_path / "disk", "2m"):
        run = done(tmp_path, CALM, output="disk")
    assert run.ended.code == 1
    assert run.ended.sentence == (
        "Cannot write the result to disk: its disk has only 2.0 MiB free. Free 16 MiB, or choose "
        "another directory with --output."
    )
    assert "fetching" not in run.ended.stderr


def test_a_disk_that_fills_while_measuring_loses_no_result(tmp_path: Path) -> None:
    """The result is kept in a temporary folder, the sentence says where, and the code is 1."""
    with _disk(tmp_path / "disk", "24m") as disk:

        def fill(process: Inferometer) -> None:
            process.wait_for("measuring")
            _fill(disk)

        run = done(tmp_path, CALM, act=fill, output="disk")
    assert run.ended.code == 1
    assert set(run.files) <= {"filler", "last"}
    assert run.ended.sentence.startswith(
        "Cannot write the result to disk: No space left on device. It is saved in "
    )
    assert "s0" in run.ended.stdout
    (refuge,) = run.temporary
    assert result_in(tmp_path / "temporary" / refuge).outcome.state == "Complete"
    assert run.left_behind == []


def test_a_full_disk_for_the_model_is_reported(tmp_path: Path) -> None:
    """A model that cannot be written for want of room is a failure in one sentence.

    Nothing half-written is left, and with room the next run succeeds.
    """
    spec = {"model": {"uri": "zoo://classification/squeezenet1_1"}}
    with _disk(tmp_path / "caches", "2m"):
        env = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
        run = done(tmp_path, CALM, spec=spec, env=env)
        left = [each for each in (tmp_path / "caches").rglob("*.onnx*") if each.is_file()]
    assert run.ended.code == 1
    assert left == []
    (sentence,) = [line for line in run.ended.sentence.splitlines() if "Cannot write" in line]
    assert "zoo://classification/squeezenet1_1 (5 MB)" in sentence
    assert "No space left on device. Make room there, or set XDG_CACHE_HOME" in sentence
    assert "Traceback" not in run.ended.stderr
    again = done(tmp_path, CALM, spec=spec, env={"XDG_CACHE_HOME": str(tmp_path / "caches")})
    assert again.outcome == ("Complete", "Measured")
