"""The energy table in a terminal: a row for each step, and what the figures cover."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from inferometer_api.status.run_status import Attribution
from inferometer_cli.text_table import Row, print_rows, print_sentences
from inferometer_results.quantity import DASH, energy_unit, significant
from inferometer_results.wording.energy import explained, net_explained


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """The energy of one step or scenario."""

    name: str
    attribution: Attribution
    gross: int | None
    """Microjoules per inference."""
    net: int | None
    milliwatts: float | None = None
    """Mean power of all counters during the window."""
    idle_milliwatts: int | None = None
    """Mean power before warm-up."""


def print_energy(spent: Sequence[EnergyRow], notes: Iterable[str], console: Console) -> None:
    """Print a row for each step and what the words mean; nothing if no step has energy."""
    if all(each.gross is None for each in spent):
        return
    unit = energy_unit(each.gross for each in spent)
    columns = {
        f"{unit.name}/inf gross": [unit.text(each.gross) for each in spent],
        f"{unit.name}/inf net": [unit.text(each.net) for each in spent],
        "mean W": [_watts(each.milliwatts) for each in spent],
        "idle W": [_watts(each.idle_milliwatts) for each in spent],
    }
    shown = {name: texts for name, texts in columns.items() if set(texts) != {DASH}}
    rows = [
        Row(each.attribution, each.name, tuple(texts[i] for texts in shown.values()))
        for i, each in enumerate(spent)
    ]
    print_rows(("energy", "scenario", *shown), rows, console)
    print_sentences(_sentences(spent, notes), console)
    console.print()


def _watts(milliwatts: float | None) -> str:
    return DASH if milliwatts is None else significant(milliwatts / 1000)


def _sentences(spent: Sequence[EnergyRow], notes: Iterable[str]) -> Iterator[Text]:
    for word, meaning in explained(each.attribution for each in spent):
        yield Text(f"{word}: {meaning}.", style="dim")
    net = net_explained(each.net for each in spent)
    legend = [f"net: {net}"] if net else []
    if any(each.milliwatts for each in spent):
        legend.append("W: the power of all counters together")
    for sentence in (*legend, *dict.fromkeys(notes)):
        yield Text(f"{sentence}.", style="dim")
