"""What can be asked of `inferometer`, and with which words?"""

from typing import Annotated

import typer

from inferometer_cli.commands import (
    cancel,
    compare,
    examples,
    models,
    preflight,
    report,
    result,
    run,
    serve,
    status,
    validate,
)
from inferometer_cli.result_file import WHICH_RESULT

app = typer.Typer(
    name="inferometer",
    help="Measures how deep-learning models are served: launches the server, drives the load, "
    "measures, judges whether the figures can be trusted, and draws a report.",
    epilog="Exit codes: 0 VALID, 3 measured but INVALID, 4 slower (compare), 2 refused (cannot be "
    "run), 1 failed, 130 interrupted, 143 terminated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run", short_help="Measure what a BenchmarkRun file asks for.")(run.run)
app.command("validate", short_help="Say whether a file can be run here.")(validate.validate)
app.command(
    "report",
    short_help="Show a result again, from a file or a cluster.",
    epilog=WHICH_RESULT,
)(report.report)
app.command("compare", short_help="Show two results side by side.", epilog=WHICH_RESULT)(
    compare.compare
)
app.command(
    "serve",
    short_help="Serve one ONNX model over HTTP and gRPC.",
    context_settings=serve.SETTINGS,
    add_help_option=False,
)(serve.serve)
app.command("models", short_help="List the built-in models.")(models.models)
app.command("examples", short_help="List the examples, or print one.")(examples.examples)
app.command("status", short_help="In a cluster: show how a run stands.")(status.status)
app.command("result", short_help="In a cluster: take out a run's result.")(result.result)
app.command("cancel", short_help="In a cluster: end a run, keep what it measured.")(cancel.cancel)
app.command("preflight", short_help="In a cluster: say what would stop a run.")(preflight.preflight)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer hands the flag over so
    if wanted:
        from inferometer_cli.program import program_version

        typer.echo(f"inferometer {program_version()}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Take the options that stand before a command."""
