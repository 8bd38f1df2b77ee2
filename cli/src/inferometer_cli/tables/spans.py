"""The table of traced queries in a terminal: the parts of slow ones against the median."""

from rich.console import Console
from rich.text import Text

from inferometer_api.results.result import ResultDocument
from inferometer_cli.text_table import Row, print_rows, print_sentences
from inferometer_results.quantity import time_unit
from inferometer_results.tracing import TracedStep, part_name, sentences_of, traced_steps


def print_traces(document: ResultDocument, console: Console) -> None:
    """Print sentences and parts of each traced step."""
    for number, each in enumerate(traced_steps(document)):
        if number:
            console.print()
        print_sentences([Text(f"{each.name}:", style="bold")], console)
        print_sentences([Text(line) for line in sentences_of(each.tracing)], console)
        _print_parts(each, console)


def _print_parts(each: TracedStep, console: Console) -> None:
    tracing = each.tracing
    if not tracing.parts:
        return
    unit = time_unit([tracing.slowest_latency_nanoseconds])
    rows = [(part_name(p), p.median_nanoseconds, p.slowest_nanoseconds) for p in tracing.parts]
    rows.append(
        ("latency", tracing.median_latency_nanoseconds, tracing.slowest_latency_nanoseconds)
    )
    console.print()
    print_rows(
        ("", "part", f"median {unit.name}", "slowest 1 %", "difference"),
        [
            Row(
                "",
                name,
                (unit.text(usual), unit.text(slow), unit.text(slow - usual)),
            )
            for name, usual, slow in rows
        ],
        console,
    )
