"""`inferometer report`: draws a kept result again."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from inferometer_api.result import ResultDocument
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import output as standard_output
from inferometer_cli.terminal import tell, written_out


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

    path = output or result.with_name(REPORT_NAME)
    if path.is_dir() or not path.parent.is_dir():
        raise RefusedError(
            f"The report should go to {path}, which is no file in a directory that is there: "
            "name another with --output."
        )
    with written_out():
        print_table(document, standard_output())
    try:
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
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RefusedError(
            f"{path} is no result document of this version of Inferometer ({where}: "
            f"{first['msg']}): give a result.json that `inferometer run` wrote."
        ) from error
