"""The commands of `inferometer` and their short descriptions."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from inferometer_cli.command_group import CommandGroup
from inferometer_cli.commands import (
    ab,
    advise,
    bound,
    bricks,
    cache,
    cancel,
    compare,
    examples,
    explain,
    inspect,
    manifest,
    models,
    node,
    noise,
    overhead,
    preflight,
    profile,
    report,
    result,
    results,
    run,
    serve,
    spans,
    status,
    suite,
    tune,
    validate,
    web,
)
from inferometer_cli.program import is_plugin
from inferometer_cli.result_file import WHICH_RESULT, WHICH_RESULTS

_OF_A_LIBRARY = ("Value error, ", ", unable to parse string as an integer")


class _Commands(TyperGroup):
    """All commands; their errors about options are free of another library's words."""

    @override
    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises BadParameter."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            for words in _OF_A_LIBRARY:
                error.message = error.message.replace(words, "")
            raise


app = CommandGroup(
    "inferometer",
    cls=_Commands,
    help="Measure how well deep-learning models are served: start the server, drive the load, "
    "measure, judge whether the figures can be trusted, and write a report.",
    epilog="Exit codes: 0 VALID or success, 1 failed, 2 refused, 3 measured but INVALID, 4 slower "
    "(compare, ab), 5 inconclusive (compare, ab), 130 interrupted, 143 terminated.",
    # kubectl completes its plugins itself, by another program.
    add_completion=not is_plugin(),
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command("run", short_help="Run a BenchmarkRun or BenchmarkSuite file on this machine.")(run.run)
app.command("validate", short_help="Check whether a file can be run here.")(validate.validate)
app.command(
    "report",
    short_help="Print a result and write its report again.",
    epilog=WHICH_RESULT,
)(report.report)
app.command("compare", short_help="Compare two results.", epilog=WHICH_RESULTS)(compare.compare)
app.add_typer(results.app)
app.add_typer(suite.app)
app.command("ab", short_help="Measure two variants in turn and judge the difference.")(ab.ab)
app.command("profile", short_help="Show where a model spends its time: layers, kernels.")(
    profile.profile
)
app.command(
    "spans",
    short_help="Show where slow queries of a traced run spent their time.",
    epilog=WHICH_RESULT,
)(spans.spans)
app.command("bound", short_help="Show the best latency that a model's layers allow here.")(
    bound.bound
)
app.command("advise", short_help="Say what would make a model faster here, and try it.")(
    advise.advise
)
app.command("tune", short_help="Find the server settings with the highest rate here.")(tune.tune)
app.command("overhead", short_help="Show what server and network add to an inference.")(
    overhead.overhead
)
app.command("noise", short_help="Measure how far figures differ from run to run here.")(noise.noise)
app.command("node", short_help="Measure what this machine gives at best.")(node.node)
app.command("cache", short_help="Measure in which form a model loads fastest.")(cache.cache)
app.add_typer(bricks.app)
app.command("serve", short_help="Serve one ONNX model over HTTP and gRPC.")(serve.serve)
app.command("models", short_help="List the built-in models.")(models.models)
app.command("inspect", short_help="Show operators, patterns and weights of models.")(
    inspect.inspect
)
app.add_typer(manifest.app)
app.command("examples", short_help="List the examples, or print one.")(examples.examples)
app.command("explain", short_help="Explain a rule of the verdict, and what to do.")(explain.explain)
app.command("status", short_help="In a cluster: show the state of a run.")(status.status)
app.command("result", short_help="In a cluster: download the result of a run.")(result.result)
app.command("cancel", short_help="In a cluster: end a run and keep what it measured.")(
    cancel.cancel
)
app.command("web", short_help="In a cluster: serve the pages of its results here.")(web.web)
app.command("preflight", short_help="In a cluster: check what would prevent a run.")(
    preflight.preflight
)


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
    """Handle the options that precede a command."""
