"""Measurements of layers next to a server, at the request of a client."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import compose_suite, default_granularity, split
from inferometer_api.layers.timings import LayerFailure, LayerTimings
from inferometer_api.layers.variants import (
    CPU_REWRITINGS,
    ModelVariant,
    Rewriting,
    cpu_variants,
)
from inferometer_api.spec.zoo_address import UnknownModelError, zoo_model, zoo_name
from inferometer_models import zoo
from inferometer_models.control_groups import cpu_limit
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.layers.attempts import Attempt
from inferometer_serving.layers.in_pod_request import LayersRequest
from inferometer_serving.layers.measure import MeasureOptions, measure
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.layers.reading import describe
from inferometer_serving.layers.rewriting import rewrite
from inferometer_serving.layers.timing import Report
from inferometer_serving.layers.whole_model import MOST_BYTES
from inferometer_serving.machine_name import engine_versions
from inferometer_serving.node.machine import available_bytes
from inferometer_serving.options import EngineName, Precision

_CALL_ROUNDS, _KERNEL_ROUNDS, _ADVICE_ROUNDS = 8, 7, 15
_MOST_REWRITTEN_BYTES = 200_000_000
"""Rewriting writes about five times the model into /tmp, of which a pod has 1 GiB."""
_MEMORY_BY_MODEL = 8
"""Rewriting holds a model several times, with the outputs of its layers for calibration."""


def measure_in_pod(
    served: ModelVariant,
    request: LayersRequest,
    settings: GraphSettings,
    report: Report,
    attempt: Attempt | None = None,
) -> LayerTimings:
    """Return timings of what a request names, next to a server. Raises ModelRefusedError."""
    attempt, model = attempt or Attempt(), served.model
    if request.kind == "Calls":
        return _calls(model, request, settings, report, attempt)
    plain = replace(settings, layout="Plain")
    graph = read_graph(model, max_bytes=MOST_BYTES)
    layers = _named(describe(graph, plain), request)
    engines = tuple(map(EngineName, engine_versions()))
    suite = compose_suite([layers] if request.kind == "Kernels" else [], 1)
    variants = [ModelVariant(model, engine, Precision.FP32, settings.threads) for engine in engines]
    rounds = _KERNEL_ROUNDS
    reasons: Sequence[LayerFailure] = ()
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        if request.advise:
            rewritten, reasons = _rewritten(graph, Path(folder), plain, request, attempt)
            rounds = _ADVICE_ROUNDS
            variants = cpu_variants(served, _cpus(), rewritten)
        left = attempt.left(request.budget_seconds)
        options = MeasureOptions(plain, rounds, engines, Precision.FP32, left, attempt)
        found = measure(suite, [], variants, options, report)
    return found.model_copy(
        update={
            "graphs": [layers],
            "failed": [*found.failed, *reasons],
            "present": served.name if request.advise else "",
        }
    )


def _rewritten(
    graph: GraphFile,
    folder: Path,
    settings: GraphSettings,
    request: LayersRequest,
    attempt: Attempt,
) -> tuple[dict[Rewriting, Path], list[LayerFailure]]:
    """Return the files of rewritten models, and why others could not be written."""
    files: dict[Rewriting, Path] = {}
    failed: list[LayerFailure] = []
    for kind in CPU_REWRITINGS:
        name = ModelVariant(threads=settings.threads, rewriting=kind).name
        reason = attempt.crashed.get(name) or _why_not_rewritten(graph, request, attempt)
        if not reason:
            attempt.opening(name)
            try:
                rewrite(graph, kind, folder / f"{kind}.onnx", settings)
                files[kind] = folder / f"{kind}.onnx"
            except ModelRefusedError as error:
                reason = str(error)
            attempt.opening("")
        if reason:
            failed.append(LayerFailure(key=name, engine=EngineName.ONNX_RUNTIME, reason=reason))
    return files, failed


def _why_not_rewritten(graph: GraphFile, request: LayersRequest, attempt: Attempt) -> str:
    """Return what a rewriting would take and is not there; empty if all is."""
    if graph.size_bytes > _MOST_REWRITTEN_BYTES:
        return (
            f"Next to a server, models of more than {_MOST_REWRITTEN_BYTES:,} bytes are not "
            f"rewritten: this has {graph.size_bytes:,}. `inferometer advise` rewrites it."
        )
    needed, free = _MEMORY_BY_MODEL * graph.size_bytes, available_bytes()
    if needed > free:
        return (
            f"Rewriting takes about {needed:,} bytes of memory, and {free:,} are available. "
            "Raise the memory of the server."
        )
    if attempt.left(request.budget_seconds) < request.budget_seconds / 2:
        return "Half of the time budget was used: the rest is for timings. Raise budgetSeconds."
    return ""


def _cpus() -> int:
    """Return how many CPUs this process may use, by its affinity and its group's limit."""
    return int(min(len(os.sched_getaffinity(0)), cpu_limit() or inf))


def _calls(
    model: Path,
    request: LayersRequest,
    settings: GraphSettings,
    report: Report,
    attempt: Attempt,
) -> LayerTimings:
    served = read_graph(model, max_bytes=MOST_BYTES)
    graphs = [_named(describe(served, settings), request)]
    failed: list[LayerFailure] = []
    untimed: list[str] = []
    for address in request.models:
        if attempt.left(request.budget_seconds) <= 0:
            untimed.append(address)
            continue
        try:
            graphs.append(_describe(address, settings))
        except (ModelRefusedError, UnknownModelError) as error:
            failed.append(
                LayerFailure(key=address, engine=EngineName.ONNX_RUNTIME, reason=str(error))
            )
    granularity = default_granularity(settings.threads)
    options = MeasureOptions(
        settings,
        _CALL_ROUNDS,
        budget_seconds=attempt.left(request.budget_seconds),
        attempt=attempt,
        uses=[Counter(use.key for use in split(each, granularity)) for each in graphs],
    )
    found = measure(compose_suite(graphs, granularity), [served], [], options, report)
    return found.model_copy(
        update={
            # The other models are described, and not run.
            "models": dict(zip([graphs[0].model], found.models.values(), strict=False)),
            "graphs": graphs,
            "failed": found.failed + failed,
            "untimed": found.untimed + untimed,
        }
    )


def _named(graph: LayerGraph, request: LayersRequest) -> LayerGraph:
    """Return the graph of the served model by the name that it is served as."""
    return graph.model_copy(update={"model": request.model_name or graph.model})


def _describe(address: str, settings: GraphSettings) -> LayerGraph:
    with _write_model(address) as path:
        return describe(read_graph(path, max_bytes=MOST_BYTES), settings)


@contextmanager
def _write_model(address: str) -> Iterator[Path]:
    """Write a built-in model for a while."""
    entry = zoo.entry(zoo_model(zoo_name(address)))
    with tempfile.TemporaryDirectory(prefix="inferometer-zoo-") as name:
        path = Path(name) / f"{entry.bare_name}.onnx"
        path.write_bytes(zoo.read_onnx(entry.name))
        with path.with_name(entry.weights_file).open("wb") as file:
            for chunk in zoo.weight_chunks(entry.name):
                file.write(chunk)
        yield path
