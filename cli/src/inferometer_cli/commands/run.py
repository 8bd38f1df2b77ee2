"""`inferometer run`: measures a BenchmarkRun file on this machine."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_api.metrics.definitions import run_labels
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import deferred_signals, exit_code_of
from inferometer_cli.run_file import RunFile, SetOption, read_run_file
from inferometer_cli.terminal import (
    flushed_output,
    output_console,
    print_message,
    print_output,
)

if TYPE_CHECKING:
    from inferometer_cli.local.run import RunOptions


_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Directory for result.json and report.html. [default: results/NAME-TIME]",
    ),
]
_AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="URL",
        help="Use the node agent at this URL instead of starting one.",
    ),
]
_TargetsOption = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-targets",
        metavar="FILE.json",
        help="List the metrics endpoints of the run in this file, for Prometheus's "
        "file_sd_configs.",
    ),
]
_FleetWebOption = Annotated[
    bool,
    typer.Option(
        "--fleet-web",
        help="Serve Locust's web page while a fleet (spec.load.workers) measures, and print its "
        "address.",
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
    """Start the server, drive the load, measure, judge and report, without a cluster.

    Writes result.json and report.html and leaves nothing else behind. Progress goes to standard
    error.
    """
    benchmark_run = read_run_file(file, set_ or [])
    now = datetime.now(tz=UTC)
    directory = output or Path("results") / f"{benchmark_run.name}-{now:%Y%m%dT%H%M%SZ}"
    # Reports and tables are slow to import: not before the file is known to be valid.
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.result_file import check_directory

    check_directory(directory)
    with deferred_signals() as ending:
        options = _run_options(benchmark_run, agent, prometheus_targets, fleet_web=fleet_web)
        document = measure(benchmark_run, file.parent.resolve(), ending, options)
        _keep_and_show(document, directory, json=json)
    if document.outcome.state == "Complete" and ending.exit_code is not None:
        print_message("inferometer: Stopped after the last measurement; the result is complete.")
        raise typer.Exit(ending.exit_code)
    raise typer.Exit(exit_code_of(document))


def _run_options(
    benchmark_run: BenchmarkRun, agent: str | None, targets: Path | None, *, fleet_web: bool
) -> "RunOptions":
    from inferometer_cli.local.prometheus_targets import PrometheusTargets
    from inferometer_cli.local.run import RunOptions

    return RunOptions(PrometheusTargets(targets, run_labels(benchmark_run)[1]), agent, fleet_web)


def _keep_and_show(document: ResultDocument, directory: Path, *, json: bool) -> None:
    from inferometer_cli.result_file import save_result
    from inferometer_cli.result_table import print_table

    try:
        paths = save_result(document, directory) if document.scenarios else None
    finally:
        if json:
            print_output(document.model_dump_json(indent=2, exclude_none=True))
        elif document.scenarios:
            with flushed_output():
                print_table(document, output_console())
        # The table says it too; do not print it twice on a terminal.
        is_read = document.scenarios and not json and sys.stdout.isatty()
        if document.outcome.state != "Complete" and not is_read:
            print_message(f"inferometer: {document.outcome.message}")
    if paths is not None:
        result, report = paths
        print_message(f"\nresult  {result}\nreport  {report}")
    elif document.outcome.state not in {"Complete", "Refused"}:
        print_message("Nothing was measured, so no result was written.")
