"""`inferometer run`: from a BenchmarkRun file to a figure."""

import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from inferometer_api.result import Outcome, ResultDocument
from inferometer_api.run import BenchmarkRun
from inferometer_cli.exits import exit_of
from inferometer_cli.progress import watching
from inferometer_cli.run_file import RunFile, SetOption, read_run_file


def run(
    file: RunFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where result.json and report.html go. [default: results/NAME-TIME]",
        ),
    ] = None,
    set_: SetOption = None,
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Print the result document instead of the table.")
    ] = False,
) -> None:
    """Launch the server, drive the load, measure, judge and report; without any cluster.

    Leaves result.json and report.html, and nothing else. Progress goes to standard error.
    """
    asked = read_run_file(file, set_ or [])
    now = datetime.now(tz=UTC)
    directory = output or Path("results") / f"{asked.name}-{now:%Y%m%dT%H%M%SZ}"
    # The pages and tables are heavy to import: not before the file is known to be good.
    from inferometer_cli.storage import check_room, keep

    check_room(directory)
    document = _measure(asked, file.parent.resolve())
    paths = None
    try:
        if document.scenarios:
            paths = keep(document, directory)
    finally:
        _show(document, paths, json=json)
    raise typer.Exit(exit_of(document))


def _measure(asked: BenchmarkRun, base: Path) -> ResultDocument:
    from inferometer_cli.local_run import run_locally

    async def measure() -> ResultDocument:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[Outcome] = loop.create_future()
        for number, outcome in _STOPS.items():
            loop.add_signal_handler(number, _stop, stopped, outcome)
        with watching(Console(file=sys.stderr)) as watch:
            return await run_locally(asked, base=base, stopped=stopped, watch=watch)

    return asyncio.run(measure())


_STOPS = {
    signal.SIGINT: Outcome(
        state="Interrupted", reason="Interrupted", message="The run was interrupted (SIGINT)."
    ),
    signal.SIGTERM: Outcome(
        state="Terminated", reason="Terminated", message="The run was terminated (SIGTERM)."
    ),
}


def _stop(stopped: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not stopped.done():
        stopped.set_result(outcome)


def _show(document: ResultDocument, paths: tuple[Path, Path] | None, *, json: bool) -> None:
    from inferometer_cli.table import print_table

    if json:
        typer.echo(document.model_dump_json(indent=2, exclude_none=True))
    elif document.scenarios:
        print_table(document, Console())
    if document.outcome.state != "Complete":
        typer.echo(f"inferometer: {document.outcome.message}", err=True)
    if paths is not None:
        result, report = paths
        typer.echo(f"\nresult  {result}\nreport  {report}", err=True)
