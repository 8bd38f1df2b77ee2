"""`inferometer models`: the built-in model zoo."""

from typing import Annotated

import typer

from inferometer_cli.terminal import flushed_output, output_console
from inferometer_models import zoo
from inferometer_results.quantity import count_of, size

_HEADER = ("NAME", "PARAMETERS", "MACS", "SIZE", "OPERATORS", "INPUT", "OUTPUT")
_TEXT_COLUMNS = (0, 5, 6)


def models(
    *,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="List only the models for this task, such as classification.",
        ),
    ] = None,
) -> None:
    """List the built-in models. Use one in a run file as model.uri: zoo://NAME.

    MACS are the multiply-accumulate operations of one sample. SIZE is that of the ONNX file and its
    weights, which the first use of a model writes into $XDG_CACHE_HOME/inferometer/zoo.
    """
    entries = [entry for entry in zoo.entries() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.entries()}))
        raise typer.BadParameter(f"There is no task {task}. The tasks are {tasks}.")
    from inferometer_cli.text_table import print_columns

    lines = [_HEADER, *map(_row, entries)]
    with flushed_output():
        print_columns(lines, output_console(), text_columns=_TEXT_COLUMNS)


def _row(entry: zoo.ZooEntry) -> tuple[str, ...]:
    return (
        entry.name,
        count_of(entry.parameters),
        count_of(entry.macs),
        size(entry.size_bytes),
        str(entry.operators),
        f"{entry.input_datatype} {_shape(entry.input_shape)}",
        f"{entry.output_datatype} {_shape(entry.output_shape)}",
    )


def _shape(shape: zoo.Shape) -> str:
    return "x".join(str(dimension) for dimension in shape)
