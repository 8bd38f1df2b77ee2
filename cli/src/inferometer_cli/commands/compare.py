"""`inferometer compare`: two results side by side, and whether the second one is slower."""

from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
)
from inferometer_cli.exits import ExitCode, RefusedError
from inferometer_cli.result_file import load_result
from inferometer_cli.terminal import output as standard_output
from inferometer_cli.terminal import tell, written_out

if TYPE_CHECKING:
    from inferometer_results.compare.comparison import Comparison


def _part(text: str) -> float:
    """Return the part that a percentage stands for: 0.05 for "5%" and for "5"."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < 100:
        raise typer.BadParameter(f"{text!r} is no percentage from 0% to 100%, as 5% is")
    return percent / 100


_FailOption = Annotated[
    float | None,
    typer.Option(
        "--fail-if-slower",
        parser=_part,
        metavar="PERCENT",
        help="End with 4 where a rate of B is lower or a latency higher by more than this, and "
        "the difference is real; with 3 where that cannot be judged: a scenario is INVALID, "
        "missing in B, not asked alike, broken off, or has too few queries.",
        show_default=False,
    ),
]


def compare(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The result that is compared with: a result.json, or the name of a run in a "
            "cluster.",
            show_default=False,
        ),
    ],
    after: Annotated[
        str, typer.Argument(metavar="B", help="The result in question.", show_default=False)
    ],
    fail_if_slower: _FailOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show two results side by side: what differs, and whether a difference is real."""
    where = ClusterOptions(namespace, context, kubeconfig)
    first, second = load_result(before, where), load_result(after, where)
    from inferometer_cli import comparison_table
    from inferometer_results.compare.comparison import compare as compared

    comparison = compared(first, second)
    if not comparison.pairs:
        raise RefusedError(
            f"{before} and {after} have no scenario in common, so there is nothing to compare: "
            "give results of runs whose scenarios (and their steps) have the same names."
        )
    with written_out():
        comparison_table.print_comparison(
            (before, first), (after, second), comparison, standard_output()
        )
    if fail_if_slower is not None:
        _fail_if_slower(first, second, comparison, fail_if_slower)


def _fail_if_slower(
    first: ResultDocument, second: ResultDocument, comparison: "Comparison", part: float
) -> None:
    from inferometer_cli.comparison_table import regression
    from inferometer_results.compare.comparison import slower, unjudged

    regressions = slower(comparison, part)
    for pair, figure in regressions:
        tell(regression(pair, figure, part))
    doubts = unjudged(first, second, comparison, part)
    for doubt in doubts:
        tell(f"not judged: {doubt}")
    if regressions:
        raise typer.Exit(ExitCode.SLOWER)
    if doubts:
        raise typer.Exit(ExitCode.INVALID)
