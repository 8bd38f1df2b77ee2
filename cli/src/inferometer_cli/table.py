"""How does a result read at the end of a run, in a terminal and in a log?"""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer_api.result import ResultDocument, Step, nanoseconds_at
from inferometer_cli.findings import Told, cautions_of, entry_name, reasons_of
from inferometer_cli.headline import Tone, headline
from inferometer_cli.quantity import Unit, significant, time_unit

_PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_STYLES: dict[Tone, str] = {"good": "bold green", "bad": "bold red", "unfinished": "bold yellow"}
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class _Row:
    verdict: str
    name: str
    figures: tuple[str, ...]


def print_table(document: ResultDocument, console: Console) -> None:
    """Print the verdict, a row for each step, and every reason and caution as a sentence.

    On a terminal a coloured table; elsewhere plain lines, each sentence on one line of its own.
    """
    rows = list(_rows(document))
    if rows:
        if console.is_terminal:
            console.print(_table(document, rows))
        else:
            _print_plain_table(document, rows, console)
        console.print()
    for line in _sentences(document):
        if console.is_terminal:
            console.print(line)
        else:
            console.out(line.plain, highlight=False)


def _rows(document: ResultDocument) -> Iterator[_Row]:
    unit = _latency_unit(document)
    for result in document.scenarios:
        verdict = result.verdict.state
        name = printable(entry_name(result))
        if len(result.steps) == 1 and not result.steps[0].label:
            yield _Row(verdict, name, _figures(result.steps[0], unit))
            continue
        yield _Row(verdict, name, ())
        for step in result.steps:
            yield _Row("", _INDENT + printable(step.label), _figures(step, unit))


def _figures(step: Step, unit: Unit) -> tuple[str, ...]:
    return (
        str(step.counts.queries),
        significant(step.achieved_qps),
        significant(step.achieved_samples_per_second),
        *(unit.text(nanoseconds_at(step.latency, percentile)) for percentile in _PERCENTILES),
        str(step.counts.failed),
    )


def _header(document: ResultDocument) -> tuple[str, ...]:
    unit = _latency_unit(document).name
    latencies = [f"p{percentile:g} {unit}" for percentile in _PERCENTILES]
    return ("", "scenario", "queries", "qps", "samples/s", *latencies, "errors")


def _latency_unit(document: ResultDocument) -> Unit:
    return time_unit(
        nanoseconds_at(step.latency, percentile)
        for result in document.scenarios
        for step in result.steps
        for percentile in _PERCENTILES
    )


def _table(document: ResultDocument, rows: list[_Row]) -> Table:
    # The columns fit in 80 characters: a heading may take two lines, its figure one.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, heading in enumerate(_header(document)):
        match index:
            case 0:
                table.add_column(heading, no_wrap=True)
            case 1:
                table.add_column(heading, overflow="fold", max_width=24)
            case _:
                table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        style = _STYLES["good" if row.verdict == "VALID" else "bad"]
        table.add_row(Text(row.verdict, style), Text(row.name), *row.figures)
    return table


def _print_plain_table(document: ResultDocument, rows: list[_Row], console: Console) -> None:
    header = _header(document)
    lines = [header, *((row.verdict, row.name, *row.figures) for row in rows)]
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


def _sentences(document: ResultDocument) -> Iterator[Text]:
    head = headline(document)
    yield Text.assemble((head.word, _STYLES[head.tone]), ": ", head.sentence)
    if document.outcome.message and document.outcome.state != "Complete":
        yield Text(printable(document.outcome.message))
    for told in reasons_of(document):
        yield _told("INVALID", "red", told)
    for told in cautions_of(document):
        yield _told("caution", "yellow", told)


def _told(word: str, style: str, told: Told) -> Text:
    where = ", ".join(place for _, place in told.places)
    return Text.assemble((word, style), f" {printable(where)}: {printable(told.finding.message)}")


def printable(text: str) -> str:
    """Return the text without control characters, which could command the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
