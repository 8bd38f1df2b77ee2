"""The noise of a machine in a terminal, in a log and as JSON."""

import json
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from inferometer_api.judgement import DEFAULT_MARGIN
from inferometer_api.results.result import ResultDocument, nanoseconds_at
from inferometer_cli.text_table import print_columns, print_sentences
from inferometer_results.compare.run_to_run import MOST_RUNS, NeededRuns, Noise, Spread
from inferometer_results.quantity import DASH, Unit, duration, percent, significant, time_unit

_SPREADS = ("", "mean", "lowest", "highest", "varies by", "within a window")
_NEEDS = ("difference", "rounds of ab", "repeats for compare")


def progress_line(number: int, document: ResultDocument, left_seconds: float) -> str:
    """Return the line that says what a run found, and how much time is left."""
    steps = document.scenarios[0].steps
    median = nanoseconds_at(steps[0].latency, 50.0) if steps else None
    minutes, seconds = divmod(max(0, round(left_seconds)), 60)
    verdict = "" if document.valid else ", INVALID"
    return f"run {number}: p50 {duration(median)}{verdict}; {minutes}:{seconds:02} left"


def print_noise(model: str, found: Noise, invalid: str, console: Console) -> None:
    """Print how far each figure differs, and how many runs show a difference of the median."""
    sentences = [f"{found.runs} runs of {model}, each with a server of its own."]
    print_sentences(map(Text, [*sentences, *([invalid] if invalid else [])]), console)
    console.print()
    print_columns([_SPREADS, *map(_spread_row, found.spreads)], console)
    console.print()
    if found.needed:
        print_sentences([Text(_promise(found))], console)
        console.print()
        print_columns([_NEEDS, *map(_need_row, found.needed)], console)
        console.print()
    print_sentences(map(Text, _explanations(found)), console)


def as_json(model: str, found: Noise, invalid_runs: int) -> str:
    """Return the same as JSON: rates per second, times in nanoseconds, fractions."""
    figures = [
        {
            "name": each.name,
            "values": list(each.values),
            "variation": each.variation,
            "neighbourVariation": each.neighbour_variation,
            "windowHalfWidth": each.window,
        }
        for each in found.spreads
    ]
    needed = [
        {
            "difference": each.change,
            "margin": each.margin,
            "abRounds": each.rounds,
            "compareRepeats": each.repeats,
        }
        for each in found.needed
    ]
    document = {
        "model": model,
        "runs": found.runs,
        "invalidRuns": invalid_runs,
        "figures": figures,
        "judgedFigure": found.judged,
        "needed": needed,
    }
    return json.dumps(document, indent=2)


def _promise(found: Noise) -> str:
    return f"To show a difference of the {found.judged} here with a probability of 0.8:"


def _explanations(found: Noise) -> Iterator[str]:
    yield (
        "Mean: the geometric mean. Varies by: the standard deviation from run to run. Within a "
        "window: half the width of the 95 % bounds of one run."
    )
    judged = next((each for each in found.spreads if each.name == found.judged), None)
    if judged is not None and judged.window and judged.variation > judged.window:
        yield (
            f"The {judged.name} varies by {percent(judged.variation)} from run to run, which "
            f"bounds of one window (±{percent(judged.window)}) do not cover."
        )
    small = [each for each in found.needed if each.margin < DEFAULT_MARGIN]
    for each in small:
        yield (
            f"For {each.change * 100:g} % give ab --margin {each.margin * 100:g}%, or compare "
            f"--fail-if-slower {each.margin * 100:g}%."
        )
    yield "Other models, and other hours of the day, may differ more."


def _spread_row(spread: Spread) -> tuple[str, ...]:
    unit = time_unit(spread.values) if spread.kind == "time" else Unit("", 1)
    low, high = min(spread.values), max(spread.values)
    figures = (significant(unit.of(each), 4) for each in (spread.mean, low, high))
    window = DASH if spread.window is None else f"±{percent(spread.window)}"
    return (f"{spread.name} {unit.name}".strip(), *figures, percent(spread.variation), window)


def _need_row(need: NeededRuns) -> tuple[str, ...]:
    return f"{need.change * 100:g} %", _count(need.rounds), _count(need.repeats)


def _count(runs: int | None) -> str:
    return f"more than {MOST_RUNS}" if runs is None else str(runs)
