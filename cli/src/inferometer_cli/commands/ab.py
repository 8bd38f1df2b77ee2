"""`inferometer ab`: measures two variants in turn, and judges their paired differences."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.commands.compare import InconclusiveOption, end_by_gate, fraction
from inferometer_cli.exits import RefusedError, StopSignal, deferred_signals, exit_code_of
from inferometer_cli.result_store import SaveOption
from inferometer_cli.run_file import SetOption, read_run_file
from inferometer_cli.terminal import flushed_output, output_console, print_message

Variant = Literal["A", "B"]

_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 200
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
        "-n",
        help=f"How many times to measure each variant, {_FEWEST_ROUNDS} to {_MOST_ROUNDS}. 12 "
        "rounds show a change of 10 % if runs of one variant scatter by 3 %.",
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


@dataclass(frozen=True, slots=True)
class _Measurement:
    """One of the runs, and where its result is kept."""

    round: int
    variant: Variant
    directory: Path


@dataclass(slots=True)
class InterleavedSeries:
    """The variants, where their relative paths begin, and their results so far."""

    runs: dict[Variant, BenchmarkRun]
    bases: dict[Variant, Path]
    is_stored: bool = False
    """Whether the results are kept in this machine's database too."""
    measured: dict[Variant, list[ResultDocument]] = field(
        default_factory=lambda: {"A": [], "B": []}
    )


def ab(  # noqa: PLR0913 - one argument for each option
    a: _A,
    b: _B,
    *,
    rounds: RoundsOption = 12,
    margin: _MarginOption = "3%",  # type: ignore[assignment]  # parsed by typer
    output: OutputOption = None,
    set_: SetOption = None,
    set_b: _SetForB = None,
    inconclusive: InconclusiveOption = "fail",
    save: SaveOption = True,
) -> None:
    """Measure two variants in turn on this machine, and judge whether they differ.

    The order is A B, B A, A B, ...: what changes slowly on the machine affects both alike. Each
    run starts its server anew. Ctrl-C keeps the finished runs, and the same command with --output
    continues after them.
    """
    series = InterleavedSeries(
        {"A": read_run_file(a, set_ or []), "B": read_run_file(b, [*(set_ or []), *(set_b or [])])},
        {"A": a.parent.resolve(), "B": b.parent.resolve()},
        is_stored=save,
    )
    now = datetime.now(tz=UTC)
    directory = output or Path("results") / f"ab-{series.runs['A'].name}-{now:%Y%m%dT%H%M%SZ}"
    measure_rounds(series, directory, rounds)
    _show(series, directory, margin, inconclusive)


def measure_rounds(series: InterleavedSeries, directory: Path, rounds: int) -> None:
    """Measure both variants in turn; end the command if a run is not complete.

    Raises RefusedError if there are too few or too many rounds, or if the variants have no scenario
    in common.
    """
    from inferometer_cli.result_file import check_directory

    _check_rounds(rounds)
    _check_scenarios(series)
    check_directory(directory)
    planned = list(plan_rounds(directory, rounds))
    with deferred_signals() as ending:
        _measure_all(series, planned, ending, directory)


def _check_rounds(rounds: int) -> None:
    """Raise RefusedError if there are too few or too many."""
    if rounds < _FEWEST_ROUNDS:
        raise RefusedError(
            f"--rounds is {rounds}, and {_FEWEST_ROUNDS} is the least: with fewer, what differs "
            "from run to run is not known, so no difference can be shown. 12 is a good start."
        )
    if rounds > _MOST_ROUNDS:
        raise RefusedError(
            f"--rounds is {rounds}, and {_MOST_ROUNDS} is the most. `inferometer noise` says how "
            "many a difference needs here."
        )


def _check_scenarios(series: InterleavedSeries) -> None:
    """Raise RefusedError if the variants have no scenario in common; name those that differ."""
    from inferometer_results.compare.comparison import same_scenarios

    first, second = series.runs["A"], series.runs["B"]
    names = [[each.name for each in run.spec.scenarios] for run in (first, second)]
    shared = [name for name in names[0] if name in names[1]]
    if not shared:
        lists = "; ".join(", ".join(sorted(each)) for each in names)
        raise RefusedError(
            f"A and B have no scenario in common ({lists}), so there would be nothing to compare. "
            "Give both variants scenarios of the same names."
        )
    same = same_scenarios(first, second)
    if not same:
        raise RefusedError(
            f"{', '.join(shared)}: no scenario is the same in A and B, and figures of different "
            "loads say nothing about the server. Give both variants the same scenarios; let model, "
            "server or load differ."
        )
    for name in shared:
        if name not in same:
            print_message(f"note: {name} differs between A and B, so it will not be judged.")


def plan_rounds(directory: Path, rounds: int) -> Iterator[_Measurement]:
    """Yield the runs in their order: A B, B A, A B, ..."""
    for number in range(1, rounds + 1):
        order: tuple[Variant, ...] = ("A", "B") if number % 2 else ("B", "A")
        for variant in order:
            yield _Measurement(number, variant, directory / f"{number:03}-{variant}")


def _measure_all(
    series: InterleavedSeries, planned: Sequence[_Measurement], ending: StopSignal, directory: Path
) -> None:
    """Measure what has no result yet; end the command if a run is not complete."""
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.result_file import save_result
    from inferometer_cli.result_store import try_to_keep

    left = [each for each in planned if not _has_result(series, each)]
    if len(left) < len(planned):
        print_message(f"{directory} has {len(planned) - len(left)} of {len(planned)} results.")
    began = time.monotonic()
    for done, each in enumerate(left):
        _announce(each, planned[-1].round, done, len(left), time.monotonic() - began)
        document = measure(series.runs[each.variant], series.bases[each.variant], ending)
        if document.outcome.state != "Complete":
            print_message(f"inferometer: {document.outcome.message}")
            if done:
                print_message(
                    f"{done} of {len(left)} runs are measured. To continue after them, repeat the "
                    f"command with --output {directory}"
                )
            raise typer.Exit(exit_code_of(document))
        result, _ = save_result(document, each.directory)
        if series.is_stored:
            try_to_keep(result)
        _announce_verdict(each, planned[-1].round, document)
    for each in planned:
        series.measured[each.variant].append(_saved(each))


def _announce(each: _Measurement, rounds: int, done: int, count: int, spent: float) -> None:
    left = f", about {spent / done * (count - done) / 60:.0f} min left" if done else ""
    print_message(f"round {each.round}/{rounds}, {each.variant}{left}")


def _announce_verdict(each: _Measurement, rounds: int, document: ResultDocument) -> None:
    from inferometer_cli.comparison_table import why_invalid

    why = why_invalid(document)
    verdict = f"INVALID ({why}); the round does not count" if why else "VALID"
    print_message(f"round {each.round}/{rounds}, {each.variant}: {verdict}")


def _has_result(series: InterleavedSeries, each: _Measurement) -> bool:
    """Return whether a run was measured before, as a whole.

    Raises RefusedError if it was another specification.
    """
    from inferometer_cli.result_file import RESULT_NAME

    if not (each.directory / RESULT_NAME).exists():
        return False
    saved = _saved(each)
    if saved.run.spec != series.runs[each.variant].spec:
        raise RefusedError(
            f"{each.directory / RESULT_NAME} is a result of another specification than "
            f"{each.variant}'s. Choose another directory with --output."
        )
    return saved.outcome.state == "Complete"


def _saved(each: _Measurement) -> ResultDocument:
    from inferometer_cli.cluster.options import ClusterOptions
    from inferometer_cli.result_file import RESULT_NAME, load_result

    return load_result(str(each.directory / RESULT_NAME), ClusterOptions())


def _show(
    series: InterleavedSeries, directory: Path, margin: float, inconclusive: Literal["pass", "fail"]
) -> None:
    from inferometer_cli.comparison_table import print_rounds
    from inferometer_results.compare.comparison import compare_rounds
    from inferometer_results.compare.gate import gate

    before, after = series.measured["A"], series.measured["B"]
    comparison = compare_rounds(before, after, margin=margin, is_gate=True)
    if not comparison.pairs:
        raise RefusedError("A and B have no step in common, so there is nothing to compare.")
    with flushed_output():
        print_rounds(str(directory), before, after, comparison, output_console())
    end_by_gate(gate(before[0], after[0], comparison), margin, inconclusive)
