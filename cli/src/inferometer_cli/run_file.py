"""Run files: read, overridden with --set, checked against what this machine can run."""

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.reading import InvalidRunError, parse_run
from inferometer_api.spec.resolve import fill_defaults, is_launched
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_cli.program import check_installed
from inferometer_cli.quick_run import has_model_suffix
from inferometer_cli.terminal import print_message

STANDARD_INPUT = Path("-")
"""In place of a file: the run is read from standard input, and its paths start here."""
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a field of the file: --set spec.load.protocol=GRPC or "
        "--set 'spec.scenarios[traffic].server.targetQps=20'. Can be repeated.",
    ),
]

PythonStepsOption = Annotated[
    bool,
    typer.Option(
        "--allow-python-steps",
        help="Let Python in the model's manifest run in the load generator or, with pipeline "
        "Server, in the server. It may do anything that you may: read it first.",
    ),
]


def read_run_file(file: Path, settings: list[str]) -> BenchmarkRun:
    """Return the run in a file as `check_run` does."""
    return check_run(parse_run_file(file, settings), source=source_name(file))


def source_name(file: Path) -> str:
    """Return how messages name a file."""
    return "Standard input" if file == STANDARD_INPUT else str(file)


def check_run(run: BenchmarkRun, *, source: str) -> BenchmarkRun:
    """Return a run with its defaults resolved, checked for this machine; `source` names it.

    Warnings are printed; the result repeats them as notes. Raises `RefusedError` with every
    problem, one a line.
    """
    resolved = check_support(run, source=source)
    print_warnings([run])
    return resolved


def check_support(run: BenchmarkRun, *, source: str) -> BenchmarkRun:
    """Return a run as `check_run` does, without its warnings."""
    if problems := unavailable(run, place="Local"):
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise RefusedError(f"{source} cannot be run here:{lines}")
    if is_launched(run.spec):
        check_installed(launch_of(run.spec).local)
    return fill_defaults(run)


def print_warnings(runs: Iterable[BenchmarkRun]) -> None:
    """Print what is doubtful about runs, each sentence once."""
    for warning in dict.fromkeys(each for run in runs for each in spec_warnings(run.spec)):
        print_message(f"note: {warning}")


def parse_run_file(file: Path, settings: Sequence[str] = ()) -> BenchmarkRun:
    """Return the run in a file, wherever it is going to run.

    Raises `RefusedError` with every problem, one a line.
    """
    return parse_run_text(read_text(file), source=source_name(file), settings=settings)


def read_text(file: Path) -> str:
    """Return the text of a run file or a suite file. Raises RefusedError."""
    if has_model_suffix(file.name):
        raise RefusedError(
            f"{file} is a model, not a run file. Write a run file for it: "
            f"inferometer run {quote(str(file))} --print-yaml > run.yaml"
        )
    try:
        if file == STANDARD_INPUT:
            return sys.stdin.read()
        if file.is_fifo():
            return _pipe_text(file, file.stat().st_ino)
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise RefusedError(f"Cannot read {source_name(file)}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise RefusedError(
            f"{source_name(file)} is not UTF-8 text. A BenchmarkRun is YAML or JSON."
        ) from error


@cache
def _pipe_text(file: Path, _inode: int) -> str:
    """Return the text of a pipe for each reader that tries the file: it can be read only once."""
    return file.read_text(encoding="utf-8")


def parse_run_text(text: str, *, source: str, settings: Sequence[str] = ()) -> BenchmarkRun:
    """Return the run in a text, wherever it is going to run; `source` names it in messages.

    Raises `RefusedError` with every problem, one a line.
    """
    try:
        return parse_run(text, source=source, overrides=[split_setting(s) for s in settings])
    except InvalidRunError as error:
        raise RefusedError(str(error)) from error


def split_setting(text: str) -> tuple[str, str]:
    """Return the path and the value of a --set. Raises RefusedError."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise RefusedError(f'--set expects PATH=VALUE, but "{text}" has no "=" after a path.')
    return path.strip(), value
