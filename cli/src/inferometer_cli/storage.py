"""How is a result kept, whole or not at all?"""

import contextlib
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from inferometer_api.result import ResultDocument
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.report import render_report

RESULT_NAME = "result.json"
REPORT_NAME = "report.html"
_ROOM_BYTES = 16 * 2**20


def check_room(directory: Path) -> None:
    """Refuse a directory that cannot take a result, before anything is measured.

    Raises `RefusedError` where it is no directory or cannot be written, and `FailedError` where
    the disk has no room.
    """
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise RefusedError(
            f"The result should go to {directory}, but {existing} is a file: "
            "choose another directory with --output."
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise RefusedError(
            f"The result should go to {directory}, but {existing} cannot be written: "
            "choose another directory with --output."
        )
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < _ROOM_BYTES:
        raise FailedError(
            f"The result should go to {directory}, but its disk has only "
            f"{free_bytes / 2**20:.1f} MiB free: free {_ROOM_BYTES // 2**20} MiB, or choose "
            "another directory with --output."
        )


def keep(document: ResultDocument, directory: Path) -> tuple[Path, Path]:
    """Write result.json and report.html; return their paths.

    Each is written beside its place and renamed, so that it is whole or absent. A result that
    stands there already is renamed after the time it was written, never lost. Raises
    `FailedError` where the disk is full or cannot be written.
    """
    result = directory / RESULT_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _set_aside(directory)
        _write(result, document.model_dump_json(indent=2, exclude_none=True) + "\n")
        return result, keep_report(document, directory / REPORT_NAME)
    except OSError as error:
        raise FailedError(
            f"The result could not be written to {directory}: {error.strerror}. "
            "Free some room, or choose another directory with --output."
        ) from error


def keep_report(document: ResultDocument, path: Path) -> Path:
    """Write the report, whole or not at all; return its path."""
    _write(path, render_report(document))
    return path


def _set_aside(directory: Path) -> None:
    for name in (RESULT_NAME, REPORT_NAME):
        path = directory / name
        if path.exists():
            written = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
            path.rename(path.with_stem(f"{path.stem}-{written:%Y%m%dT%H%M%S.%fZ}"))


def _write(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
    ) as beside:
        try:
            beside.write(text)
            beside.flush()
            os.fsync(beside.fileno())
            # A temporary file is for its owner alone; a result is an ordinary file.
            mask = os.umask(0)
            os.umask(mask)
            Path(beside.name).chmod(0o666 & ~mask)
            Path(beside.name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(beside.name).unlink()
            raise
