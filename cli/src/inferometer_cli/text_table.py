"""Tables of figures in a terminal: coloured there, plain columns in a log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer_results.headline import Tone
from inferometer_results.quantity import PERCENTILES, Unit

STYLES: dict[Tone, str] = {"good": "bold green", "bad": "bold red", "unfinished": "bold yellow"}
_WORD_STYLES = {"VALID": STYLES["good"], "INVALID": STYLES["bad"]}


@dataclass(frozen=True, slots=True)
class Row:
    """A scenario or one of its steps, with a cell for each figure."""

    word: str
    """The verdict, or what the energy covers."""
    name: str
    figures: tuple[str, ...]


def latency_headings(unit: Unit) -> list[str]:
    """Return the headings of the percentiles that every table shows."""
    return [f"p{percentile:g} {unit.name}" for percentile in PERCENTILES]


def print_rows(header: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    """Print a heading and its rows; the first two columns are left-aligned, figures right."""
    if console.is_terminal:
        console.print(_table(header, rows))
    else:
        _print_plain(header, rows, console)


def print_sentences(sentences: Iterable[Text], console: Console) -> None:
    """Print sentences: wrapped on a terminal, each on one line of its own elsewhere."""
    for line in sentences:
        if console.is_terminal:
            console.print(line)
        else:
            console.out(line.plain, highlight=False)


def printable(text: str) -> str:
    """Return the text without control characters, which could control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _table(header: Sequence[str], rows: Sequence[Row]) -> Table:
    # Headings may wrap so that the columns fit in 80 characters.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, heading in enumerate(header):
        match index:
            case 0:
                table.add_column(heading, no_wrap=True)
            case 1:
                table.add_column(heading, overflow="fold", max_width=24)
            case _:
                table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        style = _WORD_STYLES.get(row.word, "")
        table.add_row(Text(row.word, style), Text(row.name), *row.figures)
    return table


def _print_plain(header: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    lines = [tuple(header), *((row.word, row.name, *row.figures) for row in rows)]
    widths = [
        max(len(line[column]) for line in lines if column < len(line))
        for column in range(len(header))
    ]
    for line in lines:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        console.out("  ".join(cells).rstrip(), highlight=False)
