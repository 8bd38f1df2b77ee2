"""`inferometer models`: the built-in model zoo."""

from collections.abc import Sequence
from typing import Annotated

import typer

from inferometer_cli.terminal import print_output
from inferometer_models import zoo
from inferometer_results.quantity import significant, size

_HEADER = ("NAME", "PARAMETERS", "MACS", "SIZE", "OPERATORS", "INPUT", "OUTPUT")
_NUMBERS = range(1, 5)
"""The columns that are aligned on the right."""
_PREFIXES = ("", "k", "M", "G", "T")


def models(
    *,
    task: Annotated[
        str | None,
        typer.Option("--task", help="List only the models for this task, such as classification."),
    ] = None,
) -> None:
    """List the built-in models. Use one in a run file as model.uri: zoo://NAME.

    MACS are the multiply-accumulate operations of one sample. SIZE is that of the ONNX file and its
    weights, which the first use of a model writes into $XDG_CACHE_HOME/inferometer/zoo.
    """
    entries = [entry for entry in zoo.entries() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.entries()}))
        raise typer.BadParameter(f"unknown task {task}; the tasks are {tasks}")
    rows = [_HEADER, *map(_row, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    print_output("\n".join(_line(row, widths) for row in rows))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _row(entry: zoo.ZooEntry) -> tuple[str, ...]:
    return (
        entry.name,
        _prefixed(entry.parameters),
        _prefixed(entry.macs),
        size(entry.size_bytes),
        str(entry.operators),
        f"{entry.input_datatype} {_shape(entry.input_shape)}",
        f"{entry.output_datatype} {_shape(entry.output_shape)}",
    )


def _prefixed(number: float) -> str:
    """Return a number with three significant digits and a prefix of the SI: "25.6 M"."""
    rounded = float(f"{number:.3g}")
    power = max(0, (len(f"{rounded:.0f}") - 1) // 3)
    return f"{significant(rounded / 1000**power)} {_PREFIXES[power]}"


def _shape(shape: zoo.Shape) -> str:
    return "x".join(str(dimension) for dimension in shape)
