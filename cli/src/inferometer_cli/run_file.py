"""How is a run file read, with what the command line sets in it?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from inferometer_api.spec.availability import unavailable
from inferometer_api.spec.reading import InvalidRunError, parse_run
from inferometer_api.spec.resolve import launched, resolved
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.spec_warnings import doubts
from inferometer_cli.exits import RefusedError
from inferometer_cli.program import check_runtime
from inferometer_cli.terminal import tell

RunFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A BenchmarkRun in YAML or JSON.", show_default=False)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set a field of the file, as in --set spec.load.protocol=GRPC or "
        "--set 'spec.scenarios[traffic].server.targetQps=20'. May be repeated.",
    ),
]


def read_run_file(file: Path, settings: list[str]) -> BenchmarkRun:
    """Return the run that a file asks for, resolved, and sure to be one that can be tried here.

    What may disappoint is told, and noted in the result. Raises `RefusedError` with every problem,
    one a line.
    """
    run = parse_run_file(file, settings)
    if problems := unavailable(run, place="Local"):
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise RefusedError(f"{file} asks for what cannot be done here:{lines}")
    if launched(run.spec):
        check_runtime()
    for doubt in doubts(run.spec):
        tell(f"note: {doubt}")
    return resolved(run)


def parse_run_file(file: Path, settings: Sequence[str] = ()) -> BenchmarkRun:
    """Return the run that a file asks for, wherever it shall run.

    Raises `RefusedError` with every problem, one a line.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RefusedError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file} is no text in UTF-8: a BenchmarkRun is YAML.") from error
    try:
        return parse_run(text, source=str(file), overrides=[_setting(s) for s in settings])
    except InvalidRunError as error:
        raise RefusedError(str(error)) from error


def _setting(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise RefusedError(f'--set takes PATH=VALUE, and "{text}" has no "=" behind a path.')
    return path.strip(), value
