"""Command of the exporter: `python -m inferometer_fetch.export`.

It waits until the load generator has ended, and copies the files of the result folder to a store or
a claim. Faults that may pass are retried with growing pauses. The termination message is an
ExportReport.

Exit codes: 0 done; 1 there is no result, or no attempt succeeded in time; 2 store or claim refuse
the files; 143 SIGTERM.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer_api.plan.result_folder import (
    FILE_NAME,
    LOCK_FILE,
    MANIFEST_FILE,
    POD_INDEX_VARIABLE,
)
from inferometer_fetch.export_target import (
    CopyFile,
    ExportError,
    open_regular_file,
    open_target,
)

EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, EXIT_TERMINATED = 0, 1, 2, 143
_TERMINATION_LOG = Path("/dev/termination-log")
_LOOK_SECONDS = 1.0
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""After each attempt that failed; the last one again and again."""
_ERROR_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file of the result folder."""

    name: str
    sha256: str
    size_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Export the result folder that a command line names; return the exit code."""
    options = _parser().parse_args(arguments)
    if int(os.environ.get(POD_INDEX_VARIABLE) or 0) > 0:
        # The pod of a fleet's worker: pod 0 has the result.
        return EXIT_DONE
    # Stays pending until it is looked for: the end of the load generator's container comes first.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    give_up_at = time.monotonic() + options.give_up_seconds
    report, code = _export(options, give_up_at)
    _write_report(report, options.termination_log)
    return code


def _export(options: argparse.Namespace, give_up_at: float) -> tuple[dict[str, Any], int]:
    """Return the members of the report, and the exit code."""
    if not _wait_for_load_generator(options.results):
        error = "The exporter was stopped before the load generator had started."
        return {"error": error}, EXIT_TERMINATED
    files = _read_manifest(options.results)
    if isinstance(files, str):
        return {"error": files}, EXIT_FAILED
    try:
        copy = open_target(options.target, options.claims, os.environ)
        _retry(lambda: _copy_files(options.results, files, copy), give_up_at)
    except ExportError as error:
        words = f"{options.target} could not be written: {error}"[:_ERROR_CHARACTERS]
        return {"error": words}, EXIT_FAILED if error.is_transient else EXIT_REFUSED
    _log(f"The result is in {options.target}.")
    return {"sha256": files[0].sha256, "bytes": files[0].size_bytes}, EXIT_DONE


def _wait_for_load_generator(results: Path) -> bool:
    """Wait until the load generator has ended; return whether it ever started.

    The kernel releases its lock when its process ends, however that happens.
    """
    _log("Waits for the end of the load generator.")
    lock = results / LOCK_FILE
    while not lock.exists():
        if _stop_requested(_LOOK_SECONDS):
            return False
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    return True


def _read_manifest(results: Path) -> list[ResultFile] | str:
    """Return the result files, the document first, or why there are none."""
    try:
        with open_regular_file(results / MANIFEST_FILE) as file:
            listed = json.loads(file.read())["files"]
        files = [ResultFile(each["name"], each["sha256"], int(each["bytes"])) for each in listed]
    except FileNotFoundError:
        return "The load generator ended without a result."
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"The list of result files cannot be read: {error!r}"[:_ERROR_CHARACTERS]
    wrong = [each.name for each in files if FILE_NAME.fullmatch(each.name) is None]
    if wrong or not files:
        return f"The list of result files cannot be read: it names {wrong}."[:_ERROR_CHARACTERS]
    return files


def _retry(attempt: Callable[[], None], give_up_at: float) -> None:
    """Try until an attempt succeeds; raise ExportError if none does."""
    failures = 0
    while True:
        try:
            attempt()
        except ExportError as error:
            pause_seconds = _PAUSES_SECONDS[min(failures, len(_PAUSES_SECONDS) - 1)]
            failures += 1
            over = time.monotonic() + pause_seconds > give_up_at
            if not error.is_transient or over or _stop_requested(0):
                raise
            _log(f"{error} Retried in {pause_seconds:.0f} s.")
            if _stop_requested(pause_seconds):
                raise
        else:
            return


def _copy_files(results: Path, files: Sequence[ResultFile], copy: CopyFile) -> None:
    """Copy all files, and their list last; raise ExportError."""
    named = [(each.name, each.sha256) for each in files]
    for name, sha256 in (*named, (MANIFEST_FILE, None)):
        try:
            file = open_regular_file(results / name)
        except OSError as error:
            words = f"The result file {name} cannot be read: {error.strerror}."
            raise ExportError(words, is_transient=False) from error
        with file:
            copy(name, file, sha256)


def _stop_requested(seconds: float) -> bool:
    """Return whether SIGTERM has come or comes within so many seconds."""
    return signal.sigtimedwait({signal.SIGTERM}, seconds) is not None


def _write_report(report: dict[str, Any], termination_log: Path) -> None:
    if "error" in report:
        _log(report["error"])
    try:
        with termination_log.open("w") as file:
            json.dump(report, file)
    except OSError as error:
        _log(f"The report could not be written to {termination_log}: {error.strerror}.")


def _log(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_fetch.export",
        description="Copy the files of a load generator to a store or a claim, once it has ended.",
    )
    parser.add_argument(
        "--results", required=True, type=Path, metavar="FOLDER", help="Folder of the result files."
    )
    parser.add_argument(
        "--target",
        required=True,
        metavar="URI",
        help="Folder to copy to: s3://BUCKET/PREFIX or pvc://CLAIM/PATH.",
    )
    parser.add_argument(
        "--claims",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="Folder in which claims/CLAIM is mounted.",
    )
    parser.add_argument(
        "--give-up-seconds",
        required=True,
        type=int,
        metavar="SECONDS",
        help="Seconds from the start of the exporter until it no longer retries.",
    )
    parser.add_argument(
        "--termination-log",
        default=_TERMINATION_LOG,
        type=Path,
        metavar="FILE",
        help="File for the report.",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
