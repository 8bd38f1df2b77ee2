"""`inferometer overhead`: what each step from the engine to a served model adds to a latency."""

import tempfile
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.exits import RefusedError, deferred_signals
from inferometer_cli.quick_run import model_uri
from inferometer_cli.terminal import flushed_output, output_console, print_message

if TYPE_CHECKING:
    from inferometer_analysis.overhead import Ladder

_Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="model.onnx or zoo://TASK/NAME.", show_default=False),
]
_RungOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rung",
        metavar="NAME=URL",
        help="A further rung: a server with the same model named `model`, such as "
        "pod=http://10.0.0.7:8000 or service=http://10.96.0.3:8000. Can be repeated, from the "
        "lowest up.",
    ),
]
_RoundsOption = Annotated[
    int,
    typer.Option(
        "--rounds", min=3, max=200, metavar="N", help="Rounds of each pair of neighbours."
    ),
]
_SecondsOption = Annotated[
    int, typer.Option("--seconds", min=1, metavar="N", help="Seconds of each measurement.")
]


def overhead(
    model: _Model,
    *,
    rung: _RungOption = None,
    rounds: _RoundsOption = 6,
    seconds: _SecondsOption = 2,
) -> None:
    """Measure the ladder: engine in process, server over HTTP, and further rungs.

    Each rung is measured in turn with the one below it (A B, B A, ...), so that a slow change of
    the machine affects both alike; then the first with the last. The steps must add up to that.
    """
    from inferometer_analysis.overhead import ladder
    from inferometer_cli.local.files import check_manifest_of
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.local.rungs import (
        LadderModel,
        behind,
        in_process,
        measure_in_turn,
        own_server,
    )

    given = [_named(each) for each in rung or []]
    uri = model_uri(model)
    check_manifest_of(model)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferometer-")))
        ending = stack.enter_context(deferred_signals())
        rungs = [in_process(uri, folder, seconds)]
        served = LadderModel()
        http, _ = stack.enter_context(own_server(uri))
        for name, url in [("server", http), *given]:
            rungs.append(
                behind(
                    name,
                    url,
                    "model",
                    seconds,
                    lambda run: measure(run, Path.cwd(), ending, watch=lambda *_: None),
                    served,
                )
            )
        # A rung that cannot be measured, or has another model, ends the command before the others.
        for each in rungs[1:] if given else ():
            each.median()
        neighbours = [measure_in_turn(*pair, rounds, print_message) for pair in pairwise(rungs)]
        ends = (
            neighbours[0]
            if len(rungs) == 2
            else measure_in_turn(rungs[0], rungs[-1], rounds, print_message)
        )
    _show(rungs[0].name, ladder([each.name for each in rungs], neighbours, ends))


def _show(first: str, found: "Ladder") -> None:
    lines = [f"{first:<16} {found.steps[0].below / 1e3:>10.1f} µs"]
    lines += [
        f"{'+ ' + each.name:<16} {each.added / 1e3:>10.1f} µs  +- {each.margin / 1e3:.1f}"
        for each in found.steps
    ]
    lines.append(f"{'= whole':<16} {found.whole / 1e3:>10.1f} µs")
    if len(found.steps) > 1:  # one step is the whole by itself
        words = {
            "closes": "The ladder closes",
            "does not close": "The ladder does not close",
            "undecided": "It is undecided whether the ladder closes (raise --rounds)",
        }
        lines.append(
            f"{words[found.outcome]}: {found.unexplained:.1%} of the overhead is unexplained "
            f"({abs(found.gap) / 1e3:.1f} µs +- {found.gap_margin / 1e3:.1f})."
        )
    with flushed_output():
        console = output_console()
        for line in lines:
            console.out(line, highlight=False)


def _named(text: str) -> tuple[str, str]:
    name, separator, url = text.partition("=")
    if not separator or not name:
        raise RefusedError(f'--rung expects NAME=URL, but got "{text}".')
    return name, url
