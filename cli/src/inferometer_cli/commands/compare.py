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
from inferometer_cli.terminal import flushed_output, output_console, print_message

if TYPE_CHECKING:
    from inferometer_results.compare.comparison import Comparison


def _part(text: str) -> float:
    """Return a percentage as a fraction: 0.05 for "5%" and for "5"."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < 100:
        raise typer.BadParameter(f"{text!r} is not a percentage between 0% and 100%, such as 5%")
    return percent / 100


_FailOption = Annotated[
    float | None,
    typer.Option(
        "--fail-if-slower",
        parser=_part,
        metavar="PERCENT",
        help="Exit with 4 if a rate of B is lower, or a latency higher, by more than PERCENT and "
        "the difference is significant. Exit with 3 if that cannot be judged: a scenario is "
        "INVALID, missing in B, specified differently, incomplete, or has too few queries.",
        show_default=False,
    ),
]


def compare(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The baseline: a result.json, or the name of a run in a cluster.",
            show_default=False,
        ),
    ],
    after: Annotated[
        str, typer.Argument(metavar="B", help="The result to compare with it.", show_default=False)
    ],
    fail_if_slower: _FailOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show two results side by side: what differs, and which differences are significant."""
    where = ClusterOptions(namespace, context, kubeconfig)
    first, second = load_result(before, where), load_result(after, where)
    from inferometer_cli import comparison_table
    from inferometer_results.compare.comparison import compare as compared

    comparison = compared(first, second)
    if not comparison.pairs:
        raise RefusedError(
            f"{before} and {after} have no scenario in common, so there is nothing to compare. "
            "Give results whose scenarios and steps have the same names."
        )
    with flushed_output():
        comparison_table.print_comparison(
            (before, first), (after, second), comparison, output_console()
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
        print_message(regression(pair, figure, part))
    caveats = unjudged(first, second, comparison, part)
    for caveat in caveats:
        print_message(f"not judged: {caveat}")
    if regressions:
        raise typer.Exit(ExitCode.SLOWER)
    if caveats:
        raise typer.Exit(ExitCode.INVALID)
