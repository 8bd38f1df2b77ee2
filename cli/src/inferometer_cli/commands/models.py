"""`inferometer models`: the built-in model zoo."""

from typing import Annotated

import typer

from inferometer_cli.terminal import say
from inferometer_models import zoo

_HEADER = ("NAME", "INPUT", "OUTPUT", "OPERATORS")


def models(
    *,
    task: Annotated[
        str | None, typer.Option("--task", help="Only models of this task, as in classification.")
    ] = None,
) -> None:
    """List the built-in models: use one as model.uri: zoo://NAME."""
    entries = [entry for entry in zoo.entries() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.entries()}))
        raise typer.BadParameter(f"there is no task {task}; the tasks are {tasks}")
    rows = [_HEADER, *map(_row, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    say("\n".join(lines))


def _row(entry: zoo.ZooEntry) -> tuple[str, ...]:
    return (
        entry.name,
        f"{entry.input_datatype} {_shape(entry.input_shape)}",
        f"{entry.output_datatype} {_shape(entry.output_shape)}",
        str(entry.operators),
    )


def _shape(shape: zoo.Shape) -> str:
    return "x".join(str(dimension) for dimension in shape)
