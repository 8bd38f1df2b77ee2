"""`inferometer models`: the built-in model zoo."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from inferometer_models import zoo


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
    table = Table("NAME", "INPUT", "OUTPUT", "OPERATORS", box=None, pad_edge=False)
    for entry in entries:
        table.add_row(
            entry.name,
            f"{entry.input_datatype} {_shape(entry.input_shape)}",
            f"{entry.output_datatype} {_shape(entry.output_shape)}",
            str(entry.operators),
        )
    Console(soft_wrap=True).print(table, markup=False)


def _shape(shape: zoo.Shape) -> str:
    return "x".join(str(dimension) for dimension in shape)
