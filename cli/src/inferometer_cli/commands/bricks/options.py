"""Options that the commands of `inferometer bricks` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.terminal import print_message

if TYPE_CHECKING:
    from inferometer_api.layers.graph import LayerGraph
    from inferometer_cli.local.layers import Setting

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="model.onnx, zoo://TASK/NAME, zoo://TASK/ (all of a task) or zoo:// (all built in).",
    ),
]
BatchSizeOption = Annotated[
    int, typer.Option("--batch-size", min=1, max=4096, metavar="N", help="Samples of a query.")
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=1024, metavar="N", help="Threads of the engine.")
]
GranularityOption = Annotated[
    int,
    typer.Option(
        "--granularity",
        min=1,
        max=10,
        metavar="G",
        help="The most layers of a brick. 1 needs the fewest bricks.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")]


def describe_models(files: list[Path], setting: "Setting") -> list["LayerGraph"]:
    """Return the layers of each model; name those that are refused, and go on.

    Raises RefusedError if none is left.
    """
    from inferometer_cli.exits import RefusedError
    from inferometer_cli.local.layers import describe_model

    graphs, refused = [], []
    for number, file in enumerate(files, 1):
        try:
            graphs.append(describe_model(file, setting))
        except RefusedError as error:
            refused.append(str(error))
        else:
            print_message(f"{number}/{len(files)} {file.stem}: {len(graphs[-1].uses)} layers")
    if not graphs:
        raise RefusedError(refused[0])
    for each in refused:
        print_message(f"left out: {each}")
    return graphs
