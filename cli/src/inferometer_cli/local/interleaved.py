"""Interleaved series of two variants: measured in turn, continued, and judged at planned looks."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import (
    FailedError,
    RefusedError,
    StopSignal,
    deferred_signals,
    exit_code_of,
)
from inferometer_cli.terminal import print_message

if TYPE_CHECKING:
    from inferometer_results.compare.comparison import Comparison

Variant = Literal["A", "B"]

FEWEST_ROUNDS, MOST_ROUNDS = 3, 200
_LOOKS_NAME = "looks.json"
"""The file that has the numbers of rounds at which the series was judged."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How many rounds are measured before the first look at them, and how many at most."""

    first: int
    most: int

    @classmethod
    def of(cls, rounds: int, most: int | None) -> "RoundPlan":
        """Return the plan of `--rounds` and `--most-rounds`.

        Raises RefusedError if there are too few or too many.
        """
        if rounds < FEWEST_ROUNDS:
            raise RefusedError(
                f"--rounds is {rounds}, and {FEWEST_ROUNDS} is the least: with fewer, what differs "
                "from run to run is not known, so no difference can be shown. 12 is a good start."
            )
        for name, count in (("--rounds", rounds), ("--most-rounds", most or 0)):
            if count > MOST_ROUNDS:
                raise RefusedError(
                    f"{name} is {count}, and {MOST_ROUNDS} is the most. `inferometer noise` says "
                    "how many a difference needs here."
                )
        if most is not None and most < rounds:
            raise RefusedError(
                f"--most-rounds is {most}, less than --rounds ({rounds}). Give the same number for "
                "a single look, or more for a second one."
            )
        return cls(rounds, min(2 * rounds, MOST_ROUNDS) if most is None else most)

    @property
    def looks(self) -> list[int]:
        """Return the numbers of rounds at which the series is judged."""
        return [self.first] if self.most == self.first else [self.first, self.most]


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
    directory: Path
    is_stored: bool = False
    """Whether the results are kept in this machine's database too."""
    measured: dict[Variant, list[ResultDocument]] = field(
        default_factory=lambda: {"A": [], "B": []}
    )
    warned: set[str] = field(default_factory=set)
    """What the user was warned of."""


def measure_until_decided(
    series: InterleavedSeries,
    plan: RoundPlan,
    compare: Callable[[int], "Comparison"],
    is_open: Callable[["Comparison"], bool],
) -> "Comparison":
    """Measure both variants in turn, and judge them at each planned look until one decides.

    `compare` judges the measured rounds at the n-th look at the series, and `is_open` says whether
    more rounds may decide it. Ends the command if a run is not complete. Raises RefusedError if the
    variants have no scenario in common.
    """
    from inferometer_cli.result_file import check_directory

    _check_scenarios(series)
    _check_files(series, plan.first)
    check_directory(series.directory)
    _announce_plan(series, plan)
    first, *later = plan.looks
    comparison = compare(_measure_to_look(series, first))
    for rounds in later:
        if not is_open(comparison):
            break
        print_message(
            f"Inconclusive after {first} rounds: measuring up to {rounds}, for a second look."
        )
        comparison = compare(_measure_to_look(series, rounds))
    return comparison


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


def _check_files(series: InterleavedSeries, rounds: int) -> None:
    """Raise RefusedError if a variant that is still to be measured names a file it cannot use."""
    from inferometer_cli.local.files import check_files

    for variant in sorted({each.variant for each in _left(series, _plan(series, rounds))}):
        try:
            check_files(series.runs[variant], series.bases[variant])
        except RefusedError as error:
            raise RefusedError(f"{variant}: {error}") from error


def _announce_plan(series: InterleavedSeries, plan: RoundPlan) -> None:
    """Print how long the runs take that are not yet measured."""
    durations = [_planned_words(series, rounds) for rounds in plan.looks]
    if durations[0]:
        second = f"; up to {durations[1]} if they are inconclusive" if durations[1:] else ""
        print_message(f"planned duration: {durations[0]}{second}")


def _planned_words(series: InterleavedSeries, rounds: int) -> str:
    """Return how long so many rounds take in words; empty if all of them are measured."""
    from inferometer_api.scenarios.planned_duration import RESTART_SECONDS
    from inferometer_cli.time_left import planned_seconds
    from inferometer_results.quantity import long_duration

    left = _left(series, _plan(series, rounds))
    seconds = sum(planned_seconds(series.runs[each.variant]) + RESTART_SECONDS for each in left)
    return f"about {long_duration(seconds)} for {rounds} rounds" if left else ""


def _measure_to_look(series: InterleavedSeries, rounds: int) -> int:
    """Measure so many rounds; return which look at the series this is, counted from 1."""
    planned = list(_plan(series, rounds))
    with deferred_signals() as ending:
        _measure_all(series, planned, ending)
    return _count_look(series.directory, rounds)


def _plan(series: InterleavedSeries, rounds: int) -> Iterator[_Measurement]:
    """Yield the runs in their order: A B, B A, A B, ..."""
    for number in range(1, rounds + 1):
        order: tuple[Variant, ...] = ("A", "B") if number % 2 else ("B", "A")
        for variant in order:
            yield _Measurement(number, variant, series.directory / f"{number:03}-{variant}")


def _measure_all(
    series: InterleavedSeries, planned: Sequence[_Measurement], ending: StopSignal
) -> None:
    """Measure what has no result yet; end the command if a run is not complete."""
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.result_file import save_result
    from inferometer_cli.result_store import try_to_keep

    left = _left(series, planned)
    if len(left) < len(planned) and not series.measured["A"]:
        print_message(f"{series.directory} has {len(planned) - len(left)} of {len(planned)} runs.")
    began = time.monotonic()
    for done, each in enumerate(left):
        _announce(each, planned[-1].round, done, len(left), time.monotonic() - began)
        run, base = series.runs[each.variant], series.bases[each.variant]
        document = measure(run, base, ending, warned=series.warned)
        if document.outcome.state != "Complete":
            print_message(f"inferometer: {document.outcome.message}")
            if done:
                print_message(
                    f"{done} of {len(left)} runs are measured. To continue after them, repeat the "
                    f"command with --output {series.directory}"
                )
            raise typer.Exit(exit_code_of(document))
        result, _ = save_result(document, each.directory)
        if series.is_stored:
            try_to_keep(result)
        _announce_verdict(each, planned[-1].round, document)
    series.measured = {
        variant: [_load_saved(each) for each in planned if each.variant == variant]
        for variant in series.runs
    }


def _announce(each: _Measurement, rounds: int, done: int, count: int, spent: float) -> None:
    from inferometer_results.quantity import long_duration

    left = f", about {long_duration(spent / done * (count - done))} left" if done else ""
    print_message(f"round {each.round}/{rounds}, {each.variant}{left}")


def _announce_verdict(each: _Measurement, rounds: int, document: ResultDocument) -> None:
    from inferometer_cli.tables.comparison import why_invalid

    why = why_invalid(document)
    verdict = f"INVALID ({why}); the round does not count" if why else "VALID"
    print_message(f"round {each.round}/{rounds}, {each.variant}: {verdict}")


def _left(series: InterleavedSeries, planned: Iterable[_Measurement]) -> list[_Measurement]:
    """Return the runs that are still to be measured; raises as `_has_result`."""
    return [each for each in planned if not _has_result(series, each)]


def _has_result(series: InterleavedSeries, each: _Measurement) -> bool:
    """Return whether a run was measured before, as a whole.

    Raises RefusedError if it was another specification.
    """
    from inferometer_cli.result_file import RESULT_NAME

    if not (each.directory / RESULT_NAME).exists():
        return False
    saved = _load_saved(each)
    if saved.run.spec != series.runs[each.variant].spec:
        raise RefusedError(
            f"{each.directory / RESULT_NAME} is a result of another specification than "
            f"{each.variant}'s. Choose another directory with --output."
        )
    return saved.outcome.state == "Complete"


def _load_saved(each: _Measurement) -> ResultDocument:
    from inferometer_cli.cluster.options import ClusterOptions
    from inferometer_cli.result_file import RESULT_NAME, load_result

    return load_result(str(each.directory / RESULT_NAME), ClusterOptions())


def _count_look(directory: Path, rounds: int) -> int:
    """Return which look at a series its judgement after so many rounds is, counted from 1.

    A new look is recorded first: rounds that are added later must know it. The same rounds judged
    again are the same look.
    """
    file = directory / _LOOKS_NAME
    looks = _read_looks(file) if file.exists() else []
    if rounds not in looks:
        looks.append(rounds)
        written = file.with_suffix(".tmp")
        try:
            written.write_text(json.dumps({"rounds": looks}) + "\n", encoding="utf-8")
            written.replace(file)
        except OSError as error:
            raise FailedError(
                f"Cannot write {file}: {error.strerror}. The runs are kept. Free some disk space, "
                f"then repeat the command with --output {directory}"
            ) from error
    return looks.index(rounds) + 1


def _read_looks(file: Path) -> list[int]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["rounds"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = error
    if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
        raise RefusedError(
            f"{file} is damaged. It has the numbers of rounds after which this series was judged, "
            'such as {"rounds": [12, 24]}. Restore it, or choose another directory with --output.'
        )
    return found
