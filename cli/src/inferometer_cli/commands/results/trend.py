"""`inferometer results trend`: a figure over time, with its change points."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_source import ClusterOption, ResultSource, opened_source, read_stored
from inferometer_cli.result_store import DatabaseOption, WhereOption
from inferometer_cli.terminal import flushed_output, output_console, print_message, print_output

if TYPE_CHECKING:
    from inferometer_results.history.series import SeriesName
    from inferometer_results.history.trend import Trend

FigureOption = Annotated[
    str,
    typer.Option(
        "--figure",
        metavar="NAME",
        help="p50, p90, p99, p99.9, qps, samples, peak or energy.",
    ),
]
ScenarioOption = Annotated[
    str | None,
    typer.Option(
        "--scenario", metavar="NAME", help="Only this scenario. [default: all]", show_default=False
    ),
]
StepOption = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="NAME", help="Only this step. [default: all]", show_default=False
    ),
]
MOST_RESULTS = 1000


def trend(  # noqa: PLR0913 - one argument for each option
    *,
    where: WhereOption = "",
    figure: FigureOption = "p50",
    scenario: ScenarioOption = None,
    step: StepOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Newest results to look at.")
    ] = MOST_RESULTS,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with every value.")] = False,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show a figure over time, and where its level changes.

    A series has the VALID runs of one scenario on one node under equal conditions. A change point
    is a candidate until `inferometer results confirm` has measured both sides of it in turn.
    """
    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        found = find_trends(source, where, figure, limit)
    chosen = [each for each in found if is_of(each.series.name, scenario, step)]
    if json:
        from inferometer_results.history.trend import trend_fields

        fields = [trend_fields(each) for each in chosen]
        print_output(orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode())
        return
    if found and not chosen:
        names = (each.series.name for each in found)
        known = dict.fromkeys(", ".join(filter(None, (each.scenario, each.step))) for each in names)
        raise RefusedError(
            f"No series is of this scenario and step. There are: {'; '.join(known)}."
        )
    if not chosen:
        print_message("No VALID results with this figure.")
        return
    from inferometer_cli.tables.trend import print_trend

    console = output_console()
    with flushed_output():
        for number, each in enumerate(chosen):
            if number:
                console.print()
            print_trend(each, console)


def is_of(series: "SeriesName", scenario: str | None, step: str | None) -> bool:
    """Return whether a series is of a scenario and a step; None stands for all."""
    return scenario in {None, series.scenario} and step in {None, series.step}


def find_trends(source: ResultSource, where: str, figure: str, limit: int) -> "list[Trend]":
    """Return the trends of a figure in the newest results that match a condition."""
    from inferometer_results.history.trend import trends
    from inferometer_results.store.query import Search

    results = source.search(Search(where, "-started", limit)).rows
    return trends(results, figure, source.journal(where), partial(read_stored, source))
