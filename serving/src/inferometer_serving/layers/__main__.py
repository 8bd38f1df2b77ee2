"""Finds and times layers: `python -m inferometer_serving.layers describe|time`.

It reports in lines of JSON on standard output: `{"event": "progress", "done": 3, "total": 20}`,
then the document itself. A model that is refused ends it with code 2 and the reason on standard
error.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from inferometer_api.layers.bricks import BrickSuite
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.layers.optimised import optimise
from inferometer_serving.layers.reading import read_layers
from inferometer_serving.layers.timing import TimingOptions, time_bricks

_MOST_BYTES = 1 << 40
_EXIT_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the document that a command line requests, and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.action(options)
    except ModelRefusedError as error:
        print(f"refused: {error}", file=sys.stderr)  # noqa: T201 - what the caller reads
        return _EXIT_REFUSED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.layers")
    commands = parser.add_subparsers(required=True)
    describe = commands.add_parser("describe", help="Print the layers of a model.")
    describe.set_defaults(action=_describe)
    describe.add_argument("model", type=Path)
    timed = commands.add_parser("time", help="Time the bricks of a suite, and whole models too.")
    timed.set_defaults(action=_time)
    timed.add_argument("suite", type=Path)
    timed.add_argument("--model", type=Path, action="append", default=[], dest="models")
    timed.add_argument("--rounds", type=int, default=8)
    timed.add_argument("--cpu", default="")
    for each in (describe, timed):
        each.add_argument("--batch-size", type=int, default=1)
        each.add_argument("--threads", type=int, default=1)
    return parser


def _describe(options: argparse.Namespace) -> None:
    graph = read_graph(options.model, max_bytes=_MOST_BYTES)
    optimised = optimise(graph, batch_size=options.batch_size, threads=options.threads)
    layers = read_layers(graph, optimised, batch_size=options.batch_size)
    _print(layers.model_dump_json(exclude_none=True))


def _time(options: argparse.Namespace) -> None:
    timings = time_bricks(
        BrickSuite.read_json(options.suite.read_bytes()),
        [read_graph(each, max_bytes=_MOST_BYTES) for each in options.models],
        TimingOptions(options.batch_size, options.threads, options.rounds, options.cpu),
        lambda done, total: _print(json.dumps({"event": "progress", "done": done, "total": total})),
    )
    _print(timings.model_dump_json(exclude_none=True))


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the caller reads


if __name__ == "__main__":
    sys.exit(main())
