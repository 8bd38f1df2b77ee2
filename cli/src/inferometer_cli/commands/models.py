"""`inferometer models`: the built-in model zoo."""

from typing import Annotated

import typer

from inferometer_cli.terminal import print_output
from inferometer_models import zoo

_HEADER = ("NAME", "INPUT", "OUTPUT", "OPERATORS")


def models(
    *,
    task: Annotated[
        str | None,
        typer.Option("--task", help="List only the models for this task, such as classification."),
    ] = None,
) -> None:
    """List the built-in models. Use one in a run file as model.uri: zoo://NAME."""
    entries = [entry for entry in zoo.entries() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.entries()}))
        raise typer.BadParameter(f"unknown task {task}; the tasks are {tasks}")
    rows = [_HEADER, *map(_row, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    print_output("\n".join(lines))


def _row(entry: zoo.ZooEntry) -> tuple[str, ...]:
    return (
        entry.name,
        f"{entry.input_datatype} {_shape(entry.input_shape)}",
        f"{entry.output_datatype} {_shape(entry.output_shape)}",
        str(entry.operators),
    )


def _shape(shape: zoo.Shape) -> str:
    return "x".join(str(dimension) for dimension in shape)
