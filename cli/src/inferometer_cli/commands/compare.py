"""`inferometer compare`: two results side by side, and whether the second one is slower."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
)
from inferometer_cli.exits import ExitCode, RefusedError
from inferometer_cli.price_file import PricesOption, load_prices
from inferometer_cli.result_file import load_result
from inferometer_cli.terminal import flushed_output, output_console, print_message

if TYPE_CHECKING:
    from inferometer_results.compare.gate import Gate


def fraction(text: str) -> float:
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
        parser=fraction,
        metavar="PERCENT",
        help="Exit with 4 if a rate of B is shown to be lower, or a latency higher, by more than "
        "PERCENT; with 3 if a scenario is INVALID; with 5 if it is not shown whether B is slower: "
        "fewer than three repeats, too much scatter, a scenario missing in B, specified "
        "differently, or incomplete.",
        show_default=False,
    ),
]
Inconclusive = Literal["pass", "fail"]
InconclusiveOption = Annotated[
    Inconclusive,
    typer.Option(
        "--inconclusive",
        help="Exit with 0 (pass) or with 5 (fail) if it is not shown whether B is slower.",
    ),
]
SuiteInconclusiveOption = Annotated[
    Inconclusive,
    typer.Option(
        "--inconclusive",
        help="If the gate of a suite is INCONCLUSIVE, exit as if it had passed (pass), or with 5 "
        "(fail).",
    ),
]


def compare(  # noqa: PLR0913 - one argument for each option
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
    *,
    fail_if_slower: _FailOption = None,
    inconclusive: InconclusiveOption = "fail",
    prices: PricesOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show two results side by side: what differs, and which differences are shown to be real."""
    where = ClusterOptions(namespace, context, kubeconfig)
    first, second = load_result(before, where), load_result(after, where)
    from inferometer_api.judgement import DEFAULT_MARGIN
    from inferometer_cli.tables.comparison import print_comparison
    from inferometer_results.compare.comparison import compare as compared
    from inferometer_results.compare.gate import gate

    margin = DEFAULT_MARGIN if fail_if_slower is None else fail_if_slower
    comparison = compared(
        first,
        second,
        margin=margin,
        is_gate=fail_if_slower is not None,
        prices=load_prices(prices),
    )
    if not comparison.pairs:
        raise RefusedError(
            f"{before} and {after} have no scenario in common, so there is nothing to compare. "
            "Give results whose scenarios and steps have the same names."
        )
    with flushed_output():
        print_comparison((before, first), (after, second), comparison, output_console())
    if fail_if_slower is not None:
        end_by_gate(gate(first, second, comparison), fail_if_slower, inconclusive)


def end_by_gate(found: "Gate", margin: float, inconclusive: Inconclusive) -> None:
    """Print the decision of a gate and its reasons; end the command with its exit code."""
    from inferometer_cli.tables.comparison import print_gate, regression

    for pair, figure in found.failures:
        print_message(regression(pair, figure, margin))
    for reason in found.reasons:
        print_message(f"not shown: {reason}")
    with flushed_output():
        print_gate(found, margin, output_console())
    if found.decision == "FAIL":
        raise typer.Exit(ExitCode.SLOWER)
    if found.is_invalid:
        raise typer.Exit(ExitCode.INVALID)
    if found.decision == "INCONCLUSIVE" and inconclusive == "fail":
        raise typer.Exit(ExitCode.INCONCLUSIVE)
