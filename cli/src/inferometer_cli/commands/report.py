"""`inferometer report`: draws a kept result again."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from inferometer_api.result import ResultDocument
from inferometer_cli.exits import FailedError, RefusedError


def report(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result.json.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the page goes. [default: report.html beside the result]",
        ),
    ] = None,
) -> None:
    """Print the table of a kept result and draw its report.html again."""
    document = _read(result)
    from inferometer_cli.storage import REPORT_NAME, keep_report
    from inferometer_cli.table import print_table

    print_table(document, Console())
    path = output or result.with_name(REPORT_NAME)
    try:
        keep_report(document, path)
    except OSError as error:
        raise FailedError(f"{path} could not be written: {error.strerror}.") from error
    typer.echo(f"\nreport  {path}", err=True)


def _read(path: Path) -> ResultDocument:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return ResultDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RefusedError(
            f"{path} is no result document of this version of Inferometer ({where}: "
            f"{first['msg']}): give a result.json that `inferometer run` wrote."
        ) from error
