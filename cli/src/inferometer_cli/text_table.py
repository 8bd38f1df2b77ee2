"""Tables of figures in a terminal: coloured there, plain columns in a log.

No table cuts a figure: in a terminal that is too narrow for its columns, each row is a block of
lines instead. Names come from other people, so no text reaches the terminal as a command.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer_cli.terminal import REPLACEMENT, printable
from inferometer_results.headline import Tone
from inferometer_results.quantity import PERCENTILES, Unit

STYLES: dict[Tone, str] = {"good": "bold green", "bad": "bold red", "unfinished": "bold yellow"}
_WORD_STYLES = {"VALID": STYLES["good"], "INVALID": STYLES["bad"]}
NARROWEST_TABLE = 70
"""In a narrower terminal the rows are blocks of lines."""
_GAP = 2
"""Spaces between the columns of a list."""
_LONGEST_NAME, _SHORTEST_NAME = 24, 12
"""Longer names are folded: to the first width if there is room, to the second at least."""


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
    rows = [_one_line_row(each) for each in rows]
    if not console.is_terminal:
        _print_plain(header, rows, console)
        return
    layout = _layout(header, rows, console.width)
    if layout is None:
        _print_blocks(header, rows, console)
    else:
        console.print(_table(header, rows, layout))


def print_columns(
    lines: Sequence[Sequence[str]], console: Console, *, text_columns: Collection[int] = (0,)
) -> None:
    """Print a list whose first line is its heading; figures are right-aligned, texts left.

    In a terminal that is too narrow, each row is a block: its first cell, and below it as many
    others a line as fit, each with its heading.
    """
    lines = [tuple(map(_one_line, line)) for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if console.is_terminal and sum(widths) + _GAP * (len(widths) - 1) > console.width:
        heading, *rows = lines
        for row in rows:
            for text in _packed(heading, row, console.width):
                console.out(text, highlight=False)
        return
    for line in lines:
        cells = (
            cell.ljust(width) if column in text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        console.out((" " * _GAP).join(cells).rstrip(), highlight=False)


def _packed(heading: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of a row's block; no cell is broken."""
    yield row[0]
    line = ""
    for name, cell in zip(heading[1:], row[1:], strict=True):
        if not cell:
            continue
        part = f"{' ' * _GAP}{name} {cell}"
        if line and len(line) + len(part) > width:
            yield line
            line = ""
        line += part
    if line:
        yield line


def print_sentences(sentences: Iterable[Text], console: Console) -> None:
    """Print sentences: wrapped on a terminal, each on one line of its own elsewhere."""
    for line in sentences:
        line.plain = printable(line.plain)  # as long as before, so that styles stay in place
        if console.is_terminal:
            console.print(line)
        else:
            console.out(line.plain, highlight=False)


def _one_line(cell: str) -> str:
    """Return the printable text of a cell; a line break would end its row."""
    return printable(cell).replace("\n", REPLACEMENT)


def _one_line_row(row: Row) -> Row:
    return Row(_one_line(row.word), _one_line(row.name), tuple(map(_one_line, row.figures)))


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a table fits the terminal."""

    gap: int
    """Spaces between columns."""
    name_width: int


def _layout(header: Sequence[str], rows: Sequence[Row], width: int) -> _Layout | None:
    """Return the layout in which no figure is cut; None if there is none."""
    longest = max((len(row.name) for row in rows), default=0)
    columns = zip(*(row.figures for row in rows if row.figures), strict=True)
    figures = [*map(_width, columns)] or [0] * (len(header) - 2)
    headings = [_width(_lines(heading)) for heading in header]
    words = max(headings[0], _width(row.word for row in rows))
    fixed = words + sum(map(max, figures, headings[2:]))
    gaps = len(header) - 1
    for gap, least in ((2, _LONGEST_NAME), (1, _LONGEST_NAME), (1, _SHORTEST_NAME)):
        room = width - fixed - gap * gaps
        if width >= NARROWEST_TABLE and room >= max(headings[1], min(longest, least)):
            return _Layout(gap, min(room, _LONGEST_NAME))
    return None


def _width(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _lines(heading: str) -> list[str]:
    """Return the lines of a heading, which is broken so that its column is narrow."""
    return re.split(" (?!%)", heading.replace("/s", " /s"))


def _table(header: Sequence[str], rows: Sequence[Row], layout: _Layout) -> Table:
    padding = (0, layout.gap, 0, 0)
    table = Table(box=None, pad_edge=False, padding=padding, header_style="dim")
    for index, heading in enumerate(header):
        match index:
            case 0:
                table.add_column("\n".join(_lines(heading)), no_wrap=True)
            case 1:
                table.add_column(heading, overflow="fold", max_width=layout.name_width)
            case _:
                table.add_column("\n".join(_lines(heading)), justify="right", no_wrap=True)
    for row in rows:
        style = _WORD_STYLES.get(row.word, "")
        table.add_row(Text(row.word, style), Text(row.name), *map(Text, row.figures))
    return table


def _print_blocks(header: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    """Print a line for each row, and below it a line for each of its figures."""
    names = header[2:]
    name_width = _width(names)
    width = _width(figure for row in rows for figure in row.figures)
    for row in rows:
        word = Text(f"{row.word} " if row.word else "", _WORD_STYLES.get(row.word, ""))
        console.print(word + Text(row.name), overflow="fold")
        for name, figure in zip(names, row.figures, strict=False):
            console.print(
                Text(f"  {name.ljust(name_width)}  ", "dim") + Text(figure.rjust(width)),
                overflow="fold",
            )


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
