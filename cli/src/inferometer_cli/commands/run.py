"""`inferometer run`: from a BenchmarkRun file to a figure."""

import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_api.metrics.definitions import run_labels
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import (
    ExitCode,
    StopRequest,
    deferred_signals,
    exit_code_of,
    exit_code_of_signal,
)
from inferometer_cli.progress import watching
from inferometer_cli.run_file import RunFile, SetOption, read_run_file
from inferometer_cli.terminal import output as standard_output
from inferometer_cli.terminal import progress, say, tell, written_out

if TYPE_CHECKING:
    from inferometer_cli.local_run import Beside


_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Where result.json and report.html go. [default: results/NAME-TIME]",
    ),
]
_AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="URL",
        help="Ask the node agent that runs there already, instead of starting one.",
    ),
]
_TargetsOption = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-targets",
        metavar="FILE.json",
        help="Keep a file for Prometheus's file_sd_configs, while the run's processes can be "
        "scraped.",
    ),
]
_FleetWebOption = Annotated[
    bool,
    typer.Option(
        "--fleet-web",
        help="Serve Locust's web page on this machine while a fleet (spec.load.workers) "
        "measures; its address is printed.",
    ),
]
_JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result document instead of the table.")
]


def run(  # noqa: PLR0913 - one argument for each option
    file: RunFile,
    output: _OutputOption = None,
    set_: SetOption = None,
    agent: _AgentOption = None,
    prometheus_targets: _TargetsOption = None,
    *,
    fleet_web: _FleetWebOption = False,
    json: _JsonOption = False,
) -> None:
    """Launch the server, drive the load, measure, judge and report; without any cluster.

    Leaves result.json and report.html, and nothing else. Progress goes to standard error.
    """
    asked = read_run_file(file, set_ or [])
    now = datetime.now(tz=UTC)
    directory = output or Path("results") / f"{asked.name}-{now:%Y%m%dT%H%M%SZ}"
    # The pages and tables are heavy to import: not before the file is known to be good.
    from inferometer_cli.result_file import check_directory

    check_directory(directory)
    with deferred_signals() as ending:
        beside = _beside(asked, agent, prometheus_targets, fleet_web=fleet_web)
        document = _measure(asked, file.parent.resolve(), ending, beside)
        _keep_and_show(document, directory, json=json)
    if document.outcome.state == "Complete" and ending.exit_code is not None:
        tell("inferometer: The run was asked to end when all was measured; its result is whole.")
        raise typer.Exit(ending.exit_code)
    raise typer.Exit(exit_code_of(document))


def _beside(
    asked: BenchmarkRun, agent: str | None, targets: Path | None, *, fleet_web: bool
) -> "Beside":
    from inferometer_cli.local_run import Beside
    from inferometer_cli.prometheus_targets import PrometheusTargets

    return Beside(PrometheusTargets(targets, run_labels(asked)[1]), agent, fleet_web)


def _measure(
    asked: BenchmarkRun, base: Path, ending: StopRequest, beside: "Beside"
) -> ResultDocument:
    from inferometer_cli.local_run import run_locally

    async def measure() -> ResultDocument:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[Outcome] = loop.create_future()

        def end(number: signal.Signals) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set_result, _outcome_of(number))

        ending.notify(end)
        with watching(progress()) as watch:
            return await run_locally(asked, base=base, beside=beside, stopped=stopped, watch=watch)

    return asyncio.run(measure())


def _outcome_of(number: signal.Signals) -> Outcome:
    if exit_code_of_signal(number) is ExitCode.INTERRUPTED:
        message = f"The run was interrupted ({number.name})."
        return Outcome(state="Interrupted", reason="Interrupted", message=message)
    message = f"The run was terminated ({number.name})."
    return Outcome(state="Terminated", reason="Terminated", message=message)


def _keep_and_show(document: ResultDocument, directory: Path, *, json: bool) -> None:
    from inferometer_cli.result_file import save_result
    from inferometer_cli.result_table import print_table

    try:
        paths = save_result(document, directory) if document.scenarios else None
    finally:
        if json:
            say(document.model_dump_json(indent=2, exclude_none=True))
        elif document.scenarios:
            with written_out():
                print_table(document, standard_output())
        # The table says it too, and a person at a terminal reads both.
        is_read = document.scenarios and not json and sys.stdout.isatty()
        if document.outcome.state != "Complete" and not is_read:
            tell(f"inferometer: {document.outcome.message}")
    if paths is not None:
        result, report = paths
        tell(f"\nresult  {result}\nreport  {report}")
    elif document.outcome.state not in {"Complete", "Refused"}:
        tell("Nothing was measured, so there is no result to keep.")
