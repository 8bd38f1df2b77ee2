"""`inferometer results compare`: two stored results, or the runs of two groups, side by side."""

from typing import Annotated

import typer

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import RefusedError
from inferometer_cli.price_file import PricesOption, load_prices
from inferometer_cli.result_source import ClusterOption, opened_source, read_stored
from inferometer_cli.result_store import DatabaseOption
from inferometer_cli.terminal import flushed_output, output_console, print_message


def compare(  # noqa: PLR0913 - one argument for each option
    before: Annotated[
        str, typer.Argument(metavar="A", help="ID of the baseline.", show_default=False)
    ],
    after: Annotated[
        str, typer.Argument(metavar="B", help="ID of the result to compare.", show_default=False)
    ],
    *,
    prices: PricesOption = None,
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show two results side by side, after each condition in which they differ.

    For a gate with an exit code, see `inferometer compare`.
    """
    from inferometer_cli.tables.comparison import print_comparison
    from inferometer_results.compare.comparison import ComparedSide
    from inferometer_results.compare.comparison import compare as compared
    from inferometer_results.store.comparability import differing_conditions

    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        first, second = (read_stored(source, each) for each in (before, after))
        sides = (
            ComparedSide("A", source.retraction(before)),
            ComparedSide("B", source.retraction(after)),
        )
    comparison = compared(first, second, prices=load_prices(prices), sides=sides)
    names = (pair.before.scenario for pair in comparison.pairs)
    for condition, (one, other) in differing_conditions(first, second, names).items():
        words = f"{one or 'unknown'} in A, {other or 'unknown'} in B"
        print_message(f"different {condition}: {words}")
    if not comparison.pairs:
        raise RefusedError(f"{before} and {after} have no scenario in common.")
    for side in sides:
        if side.retraction is not None:
            print_message(f"{side.name} is retracted, and not judged: {side.retraction}")
    with flushed_output():
        print_comparison((before, first), (after, second), comparison, output_console())
