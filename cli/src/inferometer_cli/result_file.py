"""Result files: where a result and its report are saved, and how a named result is loaded."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from inferometer_api.document import Document
from inferometer_api.results.reading import ReadDocument, UnreadableDocumentError, read_result
from inferometer_api.results.result import ResultDocument
from inferometer_cli.cluster.options import ClusterOptions
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import print_message

if TYPE_CHECKING:
    from inferometer_results.explore.prices import PriceList

RESULT_NAME = "result.json"
REPORT_NAME = "report.html"
_WHICH_RESULT = (
    "{} with a slash or the ending .json is a file. Any other name is a run in a cluster, unless a "
    "file of that name exists and none of --namespace, --context and --kubeconfig is given."
)
WHICH_RESULT = _WHICH_RESULT.format("A RESULT")
"""How a command that takes one result reads its name; part of its help."""
WHICH_RESULTS = _WHICH_RESULT.format("A or B")
"""How a command that takes two results reads their names; part of its help."""

_Read = TypeVar("_Read", bound=Document)
_LEAST_FREE_BYTES = 16 * 2**20
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


def is_file(name: str, options: ClusterOptions) -> bool:
    """Return whether the user's name for a result means a file rather than a run in a cluster."""
    if "/" in name or name.endswith(".json"):
        return True
    return Path(name).is_file() and not options.is_given


def load_result(name: str, options: ClusterOptions) -> ResultDocument:
    """Return the result with this name, from a file or from a cluster.

    Raises `RefusedError` or `FailedError` if there is none or it cannot be read.
    """
    return _load_file(Path(name)) if is_file(name, options) else _load_run(name, options)


def parse_result(text: bytes, *, source: str) -> ResultDocument:
    """Return a result document; `source` names its bytes in messages. Raises `RefusedError`."""
    try:
        read = read_result(text, source=source)
    except UnreadableDocumentError as error:
        raise RefusedError(str(error)) from error
    return show_notice(read)


def show_notice(read: ReadDocument[_Read]) -> _Read:
    """Print the notice of a document that was read, if it has one; return the document."""
    if read.notice:
        print_message(read.notice)
    return read.document


def check_directory(directory: Path, *, what: str = "the result", option: str = "--output") -> None:
    """Check, before anything is measured, that something can be saved in a directory.

    Raises `RefusedError` if it is not a directory or not writable, and `FailedError` if its disk
    is full; the message has `what` is to be saved and the `option` that names the directory.
    """
    cannot = f"Cannot write {what} to {directory}"
    instead = f"Choose another directory with {option}."
    try:
        existing = _existing(directory)
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"x")
        free_bytes = shutil.disk_usage(existing).free
    except NotADirectoryError as error:
        raise RefusedError(f"{cannot}: {error} is a file. {instead}") from error
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise _disk_full(cannot, 0, option) from error
        raise RefusedError(f"{cannot}: {error.strerror}. {instead}") from error
    if free_bytes < _LEAST_FREE_BYTES:
        raise _disk_full(cannot, free_bytes, option)


def save_result(document: ResultDocument, directory: Path) -> tuple[Path, Path]:
    """Write result.json and report.html; return their paths.

    Each file is written under a temporary name and then renamed, so it is complete or absent. An
    earlier result in the directory is renamed after its time of writing, never overwritten. If
    the directory cannot be written, the result goes to a temporary one and `FailedError` names
    it.
    """
    try:
        result = _write_result(document, directory)
    except OSError as error:
        raise _saved_elsewhere(document, directory, error) from error
    report = directory / REPORT_NAME
    try:
        save_report(document, report)
    except OSError as error:
        raise FailedError(
            f"The result is saved in {result}, but its report could not be written: "
            f"{error.strerror}: {error.filename or report}. Remedy that, then run: "
            f"inferometer report {result}"
        ) from error
    return result, report


def save_report(
    document: ResultDocument,
    path: Path,
    prices: "PriceList | None" = None,
    retracted: str | None = None,
) -> None:
    """Write the HTML report, completely or not at all. Raises OSError if it cannot be written.

    What is not a file, such as a pipe, is written itself.
    """
    from inferometer_results.report import render_report

    page = render_report(document, prices, retracted)
    if path.exists() and not path.is_file():
        path.write_text(page, encoding="utf-8")
        return
    with _temporary_sibling(path, page) as written:
        written.replace(path)


def _load_file(path: Path) -> ResultDocument:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RefusedError(f"Cannot read {path}: {error.strerror}.") from error
    return parse_result(text, source=str(path))


def _load_run(name: str, options: ClusterOptions) -> ResultDocument:
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.results import download_result
    from inferometer_cli.cluster.runs import read_run

    try:
        cluster = connect(options)
    except RefusedError as error:
        raise RefusedError(
            f"{name} is not a file: give the path of a result.json. {error}"
        ) from error
    run = read_run(cluster, name)
    source = f"The result of {run.namespace}/{run.name}"
    return parse_result(download_result(cluster, run), source=source)


def _existing(directory: Path) -> Path:
    """Return the directory or its nearest existing parent; NotADirectoryError names a file."""
    for path in (directory, *directory.absolute().parents):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not path.is_dir():
            raise NotADirectoryError(str(path))
        return path
    return Path("/")


def _write_result(document: ResultDocument, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    result = directory / RESULT_NAME
    text = document.model_dump_json(indent=2, exclude_none=True) + "\n"
    with _temporary_sibling(result, text) as written:
        _rename_earlier(result, directory / REPORT_NAME)
        written.replace(result)
    return result


def _saved_elsewhere(document: ResultDocument, directory: Path, error: OSError) -> FailedError:
    sentence = f"Cannot write the result to {directory}: {error.strerror}."
    try:
        refuge = Path(tempfile.mkdtemp(prefix="inferometer-result-"))
    except OSError:
        return FailedError(f"{sentence} No temporary directory is writable: the result is lost.")
    try:
        result = _write_result(document, refuge)
    except OSError:
        shutil.rmtree(refuge, ignore_errors=True)
        return FailedError(f"{sentence} Writing to {refuge.parent} failed too: the result is lost.")
    return FailedError(f"{sentence} It is saved in {result} instead. Move it where you want it.")


def _rename_earlier(result: Path, report: Path) -> None:
    if result.exists():
        written = datetime.fromtimestamp(result.stat().st_mtime, tz=UTC)
        for path in (result, report):
            if path.exists():
                path.rename(path.with_stem(f"{path.stem}-{written:%Y%m%dT%H%M%S.%fZ}"))


@contextmanager
def _temporary_sibling(path: Path, text: str) -> Iterator[Path]:
    """Write a text to a file next to `path`; delete it after the block unless it was renamed."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    sibling = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # Only the owner can read a temporary file; a result is an ordinary file.
        mask = os.umask(0)
        os.umask(mask)
        sibling.chmod(0o666 & ~mask)
        yield sibling
    finally:
        with contextlib.suppress(OSError):
            sibling.unlink()


def _disk_full(cannot: str, free_bytes: int, option: str) -> FailedError:
    return FailedError(
        f"{cannot}: its disk has only {free_bytes / 2**20:.1f} MiB free. Free "
        f"{_LEAST_FREE_BYTES // 2**20} MiB, or choose another directory with {option}."
    )
