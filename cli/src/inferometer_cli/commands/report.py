"""`inferometer report`: draws a kept result again."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from inferometer_api.result import SCHEMA_VERSION, ResultDocument
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import output as standard_output
from inferometer_cli.terminal import tell, written_out
from inferometer_cli.version import VERSION


def report(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result.json.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where report.html goes. [default: beside the result]",
        ),
    ] = None,
) -> None:
    """Print the table of a kept result and draw its report.html again."""
    document = _read(result)
    from inferometer_cli.storage import REPORT_NAME, check_room, keep_report
    from inferometer_cli.table import print_table

    directory = result.parent if output is None else output
    check_room(directory)
    path = directory / REPORT_NAME
    with written_out():
        print_table(document, standard_output())
    try:
        directory.mkdir(parents=True, exist_ok=True)
        keep_report(document, path)
    except OSError as error:
        raise FailedError(f"{path} could not be written: {error.strerror}.") from error
    tell(f"\nreport  {path}")


def _read(path: Path) -> ResultDocument:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return ResultDocument.model_validate_json(text)
    except ValidationError as error:
        raise RefusedError(_why_unreadable(path, text, error)) from error


def _why_unreadable(path: Path, text: bytes, error: ValidationError) -> str:
    try:
        told = json.loads(text)
    except ValueError:
        return f"{path} is no JSON: give a result.json that `inferometer run` wrote."
    if not isinstance(told, dict) or told.get("kind") != "BenchmarkResult":
        return f"{path} is no result document: give a result.json that `inferometer run` wrote."
    if told.get("schemaVersion") != SCHEMA_VERSION:
        return (
            f"{path} has schema version {told.get('schemaVersion')} (Inferometer "
            f"{told.get('inferometerVersion')} wrote it), but this is Inferometer {VERSION}, which "
            f"reads version {SCHEMA_VERSION}: use the Inferometer that wrote it."
        )
    where = ".".join(str(part) for part in error.errors()[0]["loc"])
    return (
        f"{path} is damaged at {where}, or another version than Inferometer {VERSION} wrote it "
        f"({told.get('inferometerVersion')}): use that one, or measure again."
    )
