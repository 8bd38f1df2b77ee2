"""Options of the commands about layers, and what these share."""

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferometer_cli.exits import RefusedError
from inferometer_cli.terminal import print_message

if TYPE_CHECKING:
    from inferometer_api.layers.graph import LayerGraph
    from inferometer_cli.local.layers import LayerSettings

_REPORT_SECONDS = 5.0

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="model.onnx, zoo://TASK/NAME, https://...", show_default=False
    ),
]
ModelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL",
        help="model.onnx, zoo://TASK/NAME, zoo://TASK/ (all of a task) or zoo:// (all built in).",
        show_default=False,
    ),
]
BatchSizeOption = Annotated[
    int, typer.Option("--batch-size", min=1, max=4096, metavar="N", help="Samples of an inference.")
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=1024, metavar="N", help="Threads within a layer.")
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--warm-up-shape",
        metavar="NAME=SHAPE",
        help="Whole shape of an input with open axes other than the batch, as in "
        "image=1,3,224,224. Can be repeated.",
        show_default=False,
    ),
]
GranularityOption = Annotated[
    int | None,
    typer.Option(
        "--granularity",
        min=1,
        max=10,
        metavar="G",
        help="The most layers of a brick: more of them predict several threads better, and need "
        "more bricks. [default: 1, with several threads 3]",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    Literal["CPU", "GPU"],
    typer.Option("--device", help="Where to run: CPU, or the first NVIDIA GPU."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def read_shapes(texts: list[str] | None) -> dict[str, list[int]]:
    """Return the shapes of inputs by name. Raises RefusedError with an example."""
    found = {}
    for text in texts or ():
        name, separator, sizes = text.rpartition("=")
        words = sizes.split(",")
        if not separator or not all(each.isdecimal() and int(each) for each in words):
            raise RefusedError(
                f'--warm-up-shape expects NAME=SHAPE, such as image=1,3,224,224, but "{text}" was '
                "given."
            )
        found[name] = [int(each) for each in words]
    return found


def describe_models(files: list[Path], settings: "LayerSettings") -> list["LayerGraph"]:
    """Return the layers of each model; name those that are refused, and go on.

    Raises RefusedError if none is left.
    """
    from inferometer_cli.local import layers

    found: dict[Path, LayerGraph] = {}
    refused: dict[Path, str] = {}
    began = monotonic()

    def report(file: Path, described: "LayerGraph | str") -> None:
        if isinstance(described, str):
            refused[file] = described
            what = "left out"
        else:
            found[file] = described
            what = f"{len(described.uses)} layers"
        number = len(found) + len(refused)
        left = (monotonic() - began) / number * (len(files) - number)
        words = f", about {left:.0f} s left" if left else ""
        print_message(f"{number}/{len(files)} {file.stem}: {what}{words}")

    layers.describe_models(files, settings, report)
    if not found:
        raise RefusedError(refused[files[0]])
    for file in files:
        if file in refused:
            print_message(f"left out: {refused[file]}")
    return [found[file] for file in files if file in found]


class ProgressPrinter:
    """Prints how far the timing is, and the time left, every few seconds."""

    def __init__(self) -> None:
        self._began = self._printed = monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Take how many are done, and of how many."""
        now = monotonic()
        if now - self._printed < _REPORT_SECONDS or not done:
            return
        self._printed = now
        left = (now - self._began) / done * (total - done)
        print_message(f"{done}/{total} timed, about {left:.0f} s left")
