"""`inferometer ab`: measures two variants in turn, and judges their paired differences."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.commands.compare import (
    Inconclusive,
    InconclusiveOption,
    end_by_gate,
    fraction,
)
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.interleaved import (
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    InterleavedSeries,
    RoundPlan,
    Variant,
    measure_until_decided,
)
from inferometer_cli.result_store import SaveOption
from inferometer_cli.run_file import SetOption, read_run_file
from inferometer_cli.terminal import flushed_output, output_console, print_message

_A = Annotated[
    Path,
    typer.Argument(metavar="A.yaml", help="A BenchmarkRun in YAML or JSON.", show_default=False),
]
_B = Annotated[
    Path,
    typer.Argument(
        metavar="B.yaml",
        help="The other one; or the same file, with --set-b for what differs.",
        show_default=False,
    ),
]
RoundsOption = Annotated[
    int,
    typer.Option(
        "--rounds",
        metavar="N",
        help=f"How many times to measure each variant, {FEWEST_ROUNDS} to {MOST_ROUNDS}. 12 "
        "rounds show a change of 10 % if runs of one variant scatter by 3 %.",
    ),
]
MostRoundsOption = Annotated[
    int | None,
    typer.Option(
        "--most-rounds",
        metavar="N",
        help="Measure up to this many rounds if the first --rounds are inconclusive. The same "
        "number as --rounds: no more. [default: twice --rounds]",
        show_default=False,
    ),
]
_MarginOption = Annotated[
    float,
    typer.Option(
        "--margin",
        parser=fraction,
        metavar="PERCENT",
        help="Changes up to this do not matter.",
    ),
]
_SetForB = Annotated[
    list[str] | None,
    typer.Option(
        "--set-b", metavar="PATH=VALUE", help="Override a field of B alone. Can be repeated."
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Directory for the result of each run. If it holds results of the same variants, "
        "measurement continues after them. [default: results/ab-NAME-TIME]",
    ),
]


def ab(  # noqa: PLR0913 - one argument for each option
    a: _A,
    b: _B,
    *,
    rounds: RoundsOption = 12,
    most_rounds: MostRoundsOption = None,
    margin: _MarginOption = "3%",  # type: ignore[assignment]  # parsed by typer
    output: OutputOption = None,
    set_: SetOption = None,
    set_b: _SetForB = None,
    inconclusive: InconclusiveOption = "fail",
    save: SaveOption = True,
) -> None:
    """Measure two variants in turn on this machine, and judge whether they differ.

    The order is A B, B A, A B, ...: what changes slowly on the machine affects both alike. Each
    run starts its server anew. If the planned rounds are inconclusive, more are measured for a
    second look; both looks together keep the probability of a false alarm. Ctrl-C keeps the
    finished runs, and the same command with --output continues after them.
    """
    plan = RoundPlan.of(rounds, most_rounds)
    runs: dict[Variant, BenchmarkRun] = {
        "A": read_run_file(a, set_ or []),
        "B": read_run_file(b, [*(set_ or []), *(set_b or [])]),
    }
    series = InterleavedSeries(
        runs,
        {"A": a.parent.resolve(), "B": b.parent.resolve()},
        output or default_directory(runs["A"]),
        is_stored=save,
    )
    _measure_and_show(series, plan, margin, inconclusive)


def default_directory(run: BenchmarkRun) -> Path:
    """Return the directory for the results of a new series."""
    return Path("results") / f"ab-{run.name}-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}"


def _measure_and_show(
    series: InterleavedSeries, plan: RoundPlan, margin: float, inconclusive: Inconclusive
) -> None:
    from inferometer_cli.tables.comparison import print_rounds
    from inferometer_results.compare.comparison import Comparison, compare_rounds
    from inferometer_results.compare.gate import Gate, gate

    def compared(look: int) -> Comparison:
        before, after = series.measured["A"], series.measured["B"]
        return compare_rounds(before, after, margin=margin, is_gate=True, look=look)

    def decision(comparison: Comparison) -> Gate:
        return gate(series.measured["A"][0], series.measured["B"][0], comparison)

    comparison = measure_until_decided(
        series, plan, compared, is_open=lambda found: decision(found).is_open
    )
    if not comparison.pairs:
        raise RefusedError("A and B have no step in common, so there is nothing to compare.")
    before, after = series.measured["A"], series.measured["B"]
    with flushed_output():
        print_rounds(str(series.directory), before, after, comparison, output_console())
    found = decision(comparison)
    if found.is_open and len(before) < MOST_ROUNDS:
        print_message(
            f"To add rounds, repeat the command with --output {series.directory} and more "
            "--rounds. Each further look at them is stricter."
        )
    end_by_gate(found, margin, inconclusive)
