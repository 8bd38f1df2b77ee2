"""How is a result kept, whole or not at all?"""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from inferometer_api.results.result import ResultDocument
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_results.report import render_report

RESULT_NAME = "result.json"
REPORT_NAME = "report.html"
_ROOM_BYTES = 16 * 2**20
_FULL = {errno.ENOSPC, errno.EDQUOT}


def check_room(directory: Path) -> None:
    """Refuse a directory that cannot take a result, before anything is measured.

    Raises `RefusedError` where it is no directory or cannot be written, and `FailedError` where
    the disk has no room.
    """
    try:
        existing = _existing(directory)
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"x")
        free_bytes = shutil.disk_usage(existing).free
    except NotADirectoryError as error:
        raise RefusedError(
            f"The result should go to {directory}, but {error} is a file: "
            "choose another directory with --output."
        ) from error
    except OSError as error:
        if error.errno in _FULL:
            raise _no_room(directory, 0) from error
        raise RefusedError(
            f"The result should go to {directory}, which cannot be written: {error.strerror}. "
            "Choose another directory with --output."
        ) from error
    if free_bytes < _ROOM_BYTES:
        raise _no_room(directory, free_bytes)


def keep(document: ResultDocument, directory: Path) -> tuple[Path, Path]:
    """Write result.json and report.html; return their paths.

    Each is written beside its place and renamed, so that it is whole or absent. A result that
    stands there already is renamed after the time it was written, never lost. Where the directory
    cannot take the result, it is kept in a temporary one, and `FailedError` says where.
    """
    try:
        result = _keep_result(document, directory)
    except OSError as error:
        raise _saved_elsewhere(document, directory, error) from error
    report = directory / REPORT_NAME
    try:
        keep_report(document, report)
    except OSError as error:
        raise FailedError(
            f"The result is whole in {result}, but its report could not be written: "
            f"{error.strerror}. Free some room, and draw it by: inferometer report {result}"
        ) from error
    return result, report


def keep_report(document: ResultDocument, path: Path) -> None:
    """Write the report, whole or not at all. Raises OSError where it cannot be written."""
    with _beside(path, render_report(document)) as written:
        written.replace(path)


def _existing(directory: Path) -> Path:
    """Return the directory or the first above it that exists; NotADirectoryError names a file."""
    for path in (directory, *directory.absolute().parents):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not path.is_dir():
            raise NotADirectoryError(str(path))
        return path
    return Path("/")


def _keep_result(document: ResultDocument, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    result = directory / RESULT_NAME
    text = document.model_dump_json(indent=2, exclude_none=True) + "\n"
    with _beside(result, text) as written:
        _set_aside(result, directory / REPORT_NAME)
        written.replace(result)
    return result


def _saved_elsewhere(document: ResultDocument, directory: Path, error: OSError) -> FailedError:
    sentence = f"The result could not be written to {directory}: {error.strerror}."
    try:
        refuge = Path(tempfile.mkdtemp(prefix="inferometer-result-"))
    except OSError:
        return FailedError(f"{sentence} No temporary directory takes it either: it is lost.")
    try:
        result = _keep_result(document, refuge)
    except OSError:
        shutil.rmtree(refuge, ignore_errors=True)
        return FailedError(f"{sentence} Neither does {refuge.parent} take it: it is lost.")
    return FailedError(f"{sentence} It was kept in {result} instead: move it where you want it.")


def _set_aside(result: Path, report: Path) -> None:
    if result.exists():
        written = datetime.fromtimestamp(result.stat().st_mtime, tz=UTC)
        for path in (result, report):
            if path.exists():
                path.rename(path.with_stem(f"{path.stem}-{written:%Y%m%dT%H%M%S.%fZ}"))


@contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    """Write a text to a file beside `path`, which is gone after the block unless it was renamed."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    beside = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is for its owner alone; a result is an ordinary file.
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)
        yield beside
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def _no_room(directory: Path, free_bytes: int) -> FailedError:
    return FailedError(
        f"The result should go to {directory}, but its disk has only {free_bytes / 2**20:.1f} MiB "
        f"free: free {_ROOM_BYTES // 2**20} MiB, or choose another directory with --output."
    )
