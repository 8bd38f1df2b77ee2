"""How do the figures of a run's status read, as a table and as sentences?

The status holds a summary; the same columns as those of a local run, where it has them.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console
from rich.text import Text

from inferometer_api.status import ScenarioSummary
from inferometer_cli.grid import Row, latency_headings, print_rows, print_sentences, printable
from inferometer_cli.quantity import DASH, Unit, energy_unit, significant, time_unit

_Kind = Literal["reasons", "cautions"]


def print_figures(summaries: Sequence[ScenarioSummary], verdict: Text, console: Console) -> None:
    """Print a row for each scenario, the verdict, and every reason and caution once."""
    if summaries:
        unit = time_unit(each for summary in summaries for each in _latencies(summary))
        print_rows(_header(summaries, unit), [_row(s, unit, summaries) for s in summaries], console)
        console.print()
    told = (*_told(summaries, "reasons"), *_told(summaries, "cautions"))
    print_sentences((verdict, *told), console)


def _header(summaries: Sequence[ScenarioSummary], unit: Unit) -> tuple[str, ...]:
    energy = ("energy",) if _has_energy(summaries) else ()
    return ("", "scenario", "queries", "qps", *latency_headings(unit), "errors", *energy)


def _row(summary: ScenarioSummary, unit: Unit, summaries: Sequence[ScenarioSummary]) -> Row:
    spent = summary.microjoules_per_inference
    energy = (energy_unit([spent]).named(spent),) if _has_energy(summaries) else ()
    figures = (
        str(summary.queries),
        _rate(summary.achieved_milli_qps),
        *(unit.text(nanoseconds) for nanoseconds in _latencies(summary)),
        str(summary.errors),
        *energy,
    )
    name = f"{summary.name}, {summary.step}" if summary.step else summary.name
    return Row(summary.verdict, printable(name), figures)


def _latencies(summary: ScenarioSummary) -> list[int | None]:
    microseconds = (
        summary.p50_microseconds,
        summary.p90_microseconds,
        summary.p99_microseconds,
        summary.p999_microseconds,
    )
    return [None if each is None else each * 1000 for each in microseconds]


def _rate(milli_qps: int | None) -> str:
    return DASH if milli_qps is None else significant(milli_qps / 1000)


def _has_energy(summaries: Sequence[ScenarioSummary]) -> bool:
    return any(summary.microjoules_per_inference is not None for summary in summaries)


def _told(summaries: Sequence[ScenarioSummary], kind: _Kind) -> Iterator[Text]:
    """Yield each sentence once, after the scenarios that it speaks of."""
    places: dict[str, list[str]] = {}
    for summary in summaries:
        for message in summary.reasons if kind == "reasons" else summary.cautions:
            places.setdefault(message, []).append(summary.name)
    word, style = ("INVALID", "red") if kind == "reasons" else ("caution", "yellow")
    for message, names in places.items():
        where = ", ".join(dict.fromkeys(names))
        yield Text.assemble((word, style), f" {printable(where)}: {printable(message)}")
