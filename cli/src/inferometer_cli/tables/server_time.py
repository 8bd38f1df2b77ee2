"""The table of the time that servers spent on requests, in a terminal."""

from collections.abc import Mapping

from rich.console import Console

from inferometer_cli.text_table import Row, print_rows
from inferometer_results.quantity import time_unit


def print_server_time(spent: Mapping[str, Mapping[str, int]], console: Console) -> None:
    """Print a row for each step with the mean nanoseconds of each part; nothing without steps."""
    if not spent:
        return
    unit = time_unit(each for parts in spent.values() for each in parts.values())
    names = next(iter(spent.values()))
    rows = [
        Row("mean", name, tuple(unit.text(each) for each in parts.values()))
        for name, parts in spent.items()
    ]
    print_rows(("server", "scenario", *(f"{name} {unit.name}" for name in names)), rows, console)
    console.print()
