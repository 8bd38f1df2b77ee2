"""Benchmarks of all layers of a model and of the model itself, in interleaved rounds.

Prints one JSON document: the layers with keys and predecessors, an entry for each layer and engine,
the durations of the whole model by each engine, and the peaks of the machine.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import orjson
from onnx import ModelProto, helper

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.bounds.engines import OnnxLayer, OpenVinoLayer
from inferometer_serving.bounds.layer_models import LayerModel, Type, layer_models, standard
from inferometer_serving.bounds.peaks import measured_peaks
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.engines import open_session
from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.session import EngineSettings, Interrupt, Session, reason_of
from inferometer_serving.options import (
    EngineName,
    Precision,
    ServeOptions,
    add_options,
    parse,
    serve_options,
)
from inferometer_serving.profile.profiler import model_inputs

_MOST_BYTES = 1_800_000_000
"""The optimised graph is one message of at most 2 GB."""
_ROUND_NS = 3_000_000
"""How long one layer runs in each round, on one engine."""
_LEAST_RUNS, _MOST_RUNS = 3, 60

Layer = OnnxLayer | OpenVinoLayer
Variant = tuple[EngineName, Precision, int]


@dataclass(slots=True)
class _Bench:
    """One layer on one engine."""

    key: str
    layer: Layer
    runs_a_round: int
    runs: int = 0


@dataclass(slots=True)
class _Report:
    """What was found so far."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Benchmark the layers of a model, and return the exit code: 2 if it is refused."""
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.bounds")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--known", type=Path, help="JSON: keys that need no benchmark, by engine")
    parser.add_argument(
        "--variant",
        action="append",
        type=_variant,
        metavar="ENGINE:PRECISION:THREADS",
        help="a way to run the whole model; by default one for each engine",
    )
    parser.add_argument("--fill", action="store_true", help="benchmark the layers alone, too")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=1)
    add_options(parser)
    values = vars(parse(parser, arguments))
    options = serve_options(values["model"], values, default_name="model")
    known = orjson.loads(values["known"].read_bytes()) if values["known"] else {}
    try:
        document = benchmark(
            options,
            values["batch_size"],
            values["rounds"],
            known if values["fill"] else None,
            values["variant"] or (),
        )
    except ModelRefusedError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    return 0


def benchmark(
    options: ServeOptions,
    batch_size: int,
    rounds: int,
    known: Mapping[str, Sequence[str]] | None,
    variants: Sequence[Variant] = (),
) -> dict[str, Any]:
    """Return the layers, entries and durations of a model as JSON; see the module.

    `known` has the keys that need no benchmark by engine; None: no layer does.
    """
    graph = read_graph(options.model, max_bytes=options.max_model_bytes)
    if graph.size_bytes > _MOST_BYTES:
        raise ModelRefusedError(
            f"The model has {graph.size_bytes:,} bytes, and layers are taken from graphs of at "
            f"most {_MOST_BYTES:,}."
        )
    settings = EngineSettings(options.device, options.threads, options.precision)
    sessions = _sessions(graph, settings, variants)
    inputs = model_inputs(next(iter(sessions.values())), options, batch_size)
    optimised, types = _optimised(graph, settings, inputs)
    layers = layer_models(optimised, types)
    report = _Report()
    benches = [] if known is None else _benches(layers, settings, known, report)
    durations = _measure_rounds(benches, sessions, inputs, rounds)
    _finish(benches, report)
    expected = _outputs(next(iter(sessions.values())), inputs)
    for name, session in sessions.items():
        report.measured[name] = {
            "nanoseconds": durations[name],
            "difference": _difference(expected, _outputs(session, inputs)),
            "precision": session.precisions.effective,
            "version": session.runtime_version,
        }
    return {
        "sha256": graph.sha256,
        "batchSize": batch_size,
        "threads": options.threads,
        "layers": [_layer_document(each) for each in layers],
        "entries": report.entries,
        "failures": report.failures,
        "measured": report.measured,
        "peaks": measured_peaks(settings),
    }


def _variant(text: str) -> Variant:
    engine, precision, threads = text.split(":")
    return EngineName(engine), Precision(precision), int(threads)


def _sessions(
    graph: GraphFile, settings: EngineSettings, variants: Sequence[Variant]
) -> dict[str, Session]:
    """Return a session of the whole model for each variant that its engine takes, by name.

    Without variants they are named after the engines. The first must be taken.
    """
    wanted = {":".join(map(str, each)): each for each in variants} or {
        engine.value: (engine, settings.precision, settings.threads) for engine in EngineName
    }
    found: dict[str, Session] = {}
    for name, (engine, precision, threads) in wanted.items():
        chosen = replace(settings, precision=precision, threads=threads)
        try:
            found[name] = open_session(engine, graph, chosen, Interrupt())
        except ModelRefusedError:
            if not found:
                raise
    return found


def _optimised(
    graph: GraphFile, settings: EngineSettings, inputs: Mapping[str, Array]
) -> tuple[ModelProto, dict[str, Type]]:
    """Return the graph that ONNX Runtime optimises, in its plain layout, and its tensors' types."""
    with tempfile.TemporaryDirectory(prefix="inferometer-layers-") as folder:
        path = Path(folder) / "optimised.onnx"
        options = session_options(settings)
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(path)
        # From memory, where its weights are part of it: the saved graph has them, too.
        whole = onnx.load_model(graph.path).SerializeToString()
        for value in graph.model.graph.input:
            shape = inputs[value.name].shape if value.name in inputs else ()
            for axis, size in zip(value.type.tensor_type.shape.dim, shape, strict=False):
                if axis.dim_param:
                    options.add_free_dimension_override_by_name(axis.dim_param, size)
        onnxruntime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])
        optimised = onnx.load_model(path)
    return optimised, _seen_types(optimised, settings, inputs)


def _seen_types(
    optimised: ModelProto, settings: EngineSettings, inputs: Mapping[str, Array]
) -> dict[str, Type]:
    """Return the types of all tensors in a run, with every tensor as an output of the graph."""
    exposed = ModelProto()
    exposed.CopyFrom(optimised)
    names = [name for node in optimised.graph.node for name in node.output if name]
    exposed.graph.ClearField("output")
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = session_options(settings)
    off = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.graph_optimization_level = off
    session = onnxruntime.InferenceSession(
        exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = {each.name for each in session.get_inputs()}
    results = session.run(names, {name: inputs[name] for name in wanted})
    found = {name: _type_of(array) for name, array in inputs.items()}
    return found | {
        name: _type_of(array)
        for name, array in zip(names, results, strict=True)
        if isinstance(array, np.ndarray)
    }


def _type_of(array: Array) -> Type:
    return helper.np_dtype_to_tensor_dtype(array.dtype), array.shape


def _benches(
    layers: Sequence[LayerModel],
    settings: EngineSettings,
    known: Mapping[str, Sequence[str]],
    report: _Report,
) -> list[_Bench]:
    """Open each unknown layer on each engine; one that fails is reported."""
    firsts = {each.key: each for each in reversed(layers) if each.model is not None}
    found = []
    for key, layer in firsts.items():
        for kind in (OnnxLayer, OpenVinoLayer):
            if key in known.get(kind.engine, ()):
                continue
            try:
                found.append(_opened(kind, layer, settings))
            except Exception as error:  # noqa: BLE001 - a layer that fails alone fails alone
                report.failures.append(
                    {"key": key, "engine": kind.engine, "reason": reason_of(error)}
                )
    return found


def _opened(kind: type[Layer], layer: LayerModel, settings: EngineSettings) -> _Bench:
    if layer.model is None:
        raise ValueError(layer.why_not)
    opened = kind(layer.model if kind is OnnxLayer else standard(layer.model), settings)
    opened.run()
    started_ns = perf_counter_ns()
    opened.run()
    spent_ns = max(1, perf_counter_ns() - started_ns)
    runs = min(_MOST_RUNS, max(_LEAST_RUNS, _ROUND_NS // spent_ns))
    return _Bench(layer.key, opened, runs)


def _measure_rounds(
    benches: Sequence[_Bench],
    sessions: Mapping[str, Session],
    inputs: dict[str, Array],
    rounds: int,
) -> dict[str, list[int]]:
    """Run every layer and the whole model in each round; return the model's durations by name."""
    durations: dict[str, list[int]] = {name: [] for name in sessions}
    for _ in range(rounds):
        for bench in benches:
            for _ in range(bench.runs_a_round):
                bench.layer.run()
            bench.runs += bench.runs_a_round
        for name, session in sessions.items():
            durations[name] += _timed(session, inputs)
    return durations


def _finish(benches: Sequence[_Bench], report: _Report) -> None:
    for bench in benches:
        try:
            times = bench.layer.kernel_ns(bench.runs)
        except (OSError, ValueError, KeyError) as error:
            report.failures.append(
                {"key": bench.key, "engine": bench.layer.engine, "reason": reason_of(error)}
            )
            continue
        report.entries.append(
            {
                "key": bench.key,
                "engine": bench.layer.engine,
                "precision": bench.layer.precision,
                "nanoseconds": median(times),
                "runs": bench.runs,
            }
        )


def _timed(session: Session, inputs: dict[str, Array]) -> list[int]:
    names = [each.name for each in session.signature.outputs]
    times: list[int] = []
    # The threads of the session before may spin for a while.
    until_ns = perf_counter_ns() + _ROUND_NS
    while perf_counter_ns() < until_ns:
        session.runner.run(names, inputs)
    spent_ns = 0
    while len(times) < _LEAST_RUNS or (spent_ns < 10 * _ROUND_NS and len(times) < _MOST_RUNS):
        started_ns = perf_counter_ns()
        session.runner.run(names, inputs)
        times.append(perf_counter_ns() - started_ns)
        spent_ns += times[-1]
    return times


def _outputs(session: Session, inputs: dict[str, Array]) -> list[Array]:
    return session.runner.run([each.name for each in session.signature.outputs], inputs)


def _difference(expected: Sequence[Array], found: Sequence[Array]) -> float:
    """Return the largest difference of any output's values, as a share of its deviation."""
    largest = 0.0
    for first, second in zip(expected, found, strict=True):
        if first.dtype.kind != "f" or not first.size:
            continue
        a, b = first.astype(np.float64), second.astype(np.float64)
        deviation = float(a.std()) or 1.0
        largest = max(largest, float(np.abs(a - b).max()) / deviation)
    return largest


def _layer_document(layer: LayerModel) -> dict[str, Any]:
    return {
        "index": layer.index,
        "name": layer.name,
        "operator": layer.operator,
        "key": layer.key,
        "predecessors": list(layer.predecessors),
        "macs": layer.macs,
        "bytes": layer.moved_bytes,
        "isView": layer.is_view,
        "whyNot": layer.why_not,
    }
