"""Finds and times layers: `python -m inferometer_serving.layers describe|time|measure|rewrite`.

It reports in lines of JSON on standard output: `{"event": "progress", "done": 3, "total": 20}`,
then the document itself. A model that is refused ends it with code 2 and the reason on standard
error. What makes an engine crash is left out of the document, and named in it.

`describe` takes several models, and prints a document for each after a line of its name,
`{"event": "described", "model": "a.onnx"}`; one that is refused has a line with the reason instead,
`{"event": "refused", "model": "b.onnx", "reason": "..."}`.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.layers.variants import ModelVariant, read_variant
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.layers.attempts import Attempt, run_attempts
from inferometer_serving.layers.in_pod import measure_in_pod
from inferometer_serving.layers.in_pod_request import KINDS, LayersRequest
from inferometer_serving.layers.measure import MeasureOptions, measure
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.layers.reading import describe
from inferometer_serving.layers.rewriting import REWRITINGS, rewrite
from inferometer_serving.layers.whole_model import MOST_BYTES
from inferometer_serving.options import Device, EngineName, Precision

_EXIT_REFUSED = 2
_TF32 = "TF32"
_MOST_SECONDS = 400
"""For the layers of a model. ONNX Runtime takes a minute for a chain of 100,000 nodes, and hours
for as many that all read one tensor."""
"""A precision of layers on a GPU alone: no engine is started with it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the document that a command line requests, and return the exit code."""
    return run_attempts(partial(_act, _parser().parse_args(arguments)))


def _act(options: argparse.Namespace, attempt: Attempt) -> int:
    try:
        options.action(options, attempt)
    except ModelRefusedError as error:
        print(f"refused: {error}", file=sys.stderr)  # noqa: T201 - what the caller reads
        return _EXIT_REFUSED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.layers")
    commands = parser.add_subparsers(required=True)
    described = commands.add_parser("describe", help="Print the layers of models.")
    described.set_defaults(action=_describe)
    described.add_argument("models", type=Path, nargs="+")
    timed = commands.add_parser("time", help="Time the bricks of a suite, and whole models too.")
    timed.set_defaults(action=_time)
    timed.add_argument("suite", type=Path)
    timed.add_argument("--model", type=Path, action="append", default=[], dest="models")
    timed.add_argument("--variants", type=Path, help="JSON: ways to run a whole model.")
    timed.add_argument("--uses", type=Path, help="JSON: how often each model runs each brick.")
    timed.add_argument("--rounds", type=int, default=8)
    timed.add_argument("--engine", action="append", default=[], dest="engines")
    timed.add_argument("--precision", choices=(*Precision, _TF32), default=Precision.DEFAULT)
    timed.add_argument("--budget-seconds", type=float, default=inf)
    rewritten = commands.add_parser("rewrite", help="Write a model that may be faster.")
    rewritten.set_defaults(action=_rewrite)
    rewritten.add_argument("model", type=Path)
    rewritten.add_argument("kind", choices=REWRITINGS)
    rewritten.add_argument("output", type=Path)
    measured = commands.add_parser("measure", help="Find and time what a scenario requests.")
    measured.set_defaults(action=_measure)
    measured.add_argument("model", type=Path)
    measured.add_argument("--kind", choices=KINDS, default="Kernels")
    measured.add_argument("--zoo", action="append", default=[])
    measured.add_argument("--budget-seconds", type=int, default=600)
    measured.add_argument("--advise", action="store_true", help="Time other variants too.")
    measured.add_argument("--serving-engine", type=EngineName, default=EngineName.ONNX_RUNTIME)
    measured.add_argument("--serving-precision", type=Precision, default=Precision.DEFAULT)
    measured.add_argument("--graph-optimization", default="All", help="Of the server.")
    measured.add_argument("--name", default="", help="What the server calls the model.")
    for each in (described, timed, measured, rewritten):
        each.add_argument("--device", type=Device, default=Device.CPU)
        each.add_argument("--batch-size", type=int, default=1)
        each.add_argument("--threads", type=int, default=1)
        each.add_argument("--layout", choices=("Blocked", "Plain"), default="Blocked")
        each.add_argument("--shapes", type=json.loads, default={}, help="JSON: shapes by input.")
    return parser


def _settings(options: argparse.Namespace) -> GraphSettings:
    return GraphSettings(
        options.batch_size, options.threads, options.layout, options.shapes, options.device
    )


def _describe(options: argparse.Namespace, attempt: Attempt) -> None:
    for path in options.models:
        name, document, reason = str(path), "", ""
        attempt.opening(name)
        signal.alarm(_MOST_SECONDS)
        if crash := attempt.crashed.get(name):
            reason = f"The layers of the model {name} cannot be found. {crash}"
        else:
            try:
                graph = read_graph(path, max_bytes=MOST_BYTES)
                document = describe(graph, _settings(options)).model_dump_json(exclude_none=True)
            except ModelRefusedError as error:
                reason = str(error)
        if reason:
            _print(json.dumps({"event": "refused", "model": name, "reason": reason}))
        else:
            _print(json.dumps({"event": "described", "model": name}))
            _print(document)
    signal.alarm(0)
    attempt.opening("")


def _measure(options: argparse.Namespace, attempt: Attempt) -> None:
    request = LayersRequest(
        *(options.kind, tuple(options.zoo), options.batch_size, options.budget_seconds),
        advise=options.advise,
        model_name=options.name,
    )
    served = ModelVariant(
        *(options.model, options.serving_engine, options.serving_precision, options.threads),
        graph_optimization=options.graph_optimization,
    )
    found = measure_in_pod(served, request, _settings(options), _print_progress, attempt)
    _print(found.model_dump_json(exclude_none=True))


def _rewrite(options: argparse.Namespace, _: Attempt) -> None:
    graph = read_graph(options.model, max_bytes=MOST_BYTES)
    rewrite(graph, options.kind, options.output, _settings(options))
    _print(json.dumps({"written": str(options.output)}))


def _time(options: argparse.Namespace, attempt: Attempt) -> None:
    if options.device is Device.GPU:
        _print(_timed_on_gpu(options).model_dump_json(exclude_none=True))
        return
    if options.precision == _TF32:
        raise ModelRefusedError("TF32 is a precision of GPUs: choose FP32 or BF16 on a CPU.")
    found = measure(
        BrickSuite.read_json(options.suite.read_bytes()),
        [read_graph(each, max_bytes=MOST_BYTES) for each in options.models],
        list(map(read_variant, _read_list(options.variants))),
        MeasureOptions(
            _settings(options),
            options.rounds,
            tuple(map(EngineName, options.engines)),
            Precision(options.precision),
            attempt.left(options.budget_seconds),
            attempt,
            _read_list(options.uses),
        ),
        _print_progress,
    )
    _print(found.model_dump_json(exclude_none=True))


def _timed_on_gpu(options: argparse.Namespace) -> LayerTimings:
    # What it needs is installed with the extra `gpu`.
    from inferometer_serving.layers.gpu.measure import (  # noqa: PLC0415
        GpuMeasureOptions,
        gpu_variant,
        measure_on_gpu,
    )

    return measure_on_gpu(
        BrickSuite.read_json(options.suite.read_bytes()),
        [gpu_variant(read_variant(each)) for each in _read_list(options.variants)],
        GpuMeasureOptions(
            _settings(options),
            options.rounds,
            tuple(options.engines),
            options.precision != Precision.FP32,
            options.budget_seconds,
        ),
        _print_progress,
    )


def _read_list(file: Path | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [] if file is None else json.loads(file.read_bytes())
    return found


def _print_progress(done: int, total: int) -> None:
    _print(json.dumps({"event": "progress", "done": done, "total": total}))


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the caller reads


if __name__ == "__main__":
    sys.exit(main())
