"""Measurements of layers next to a server, at the request of a client."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.timings import LayerFailure, LayerTimings
from inferometer_api.spec.zoo_address import UnknownModelError, zoo_model, zoo_name
from inferometer_models import zoo
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.layers.attempts import Attempt
from inferometer_serving.layers.in_pod_request import LayersRequest
from inferometer_serving.layers.measure import MeasureOptions, measure, single_layers
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.layers.reading import describe
from inferometer_serving.layers.timing import Report
from inferometer_serving.layers.whole_model import MOST_BYTES, NamedVariant
from inferometer_serving.machine_name import engine_versions
from inferometer_serving.options import EngineName, Precision

_CALL_ROUNDS, _KERNEL_ROUNDS = 8, 7


def measure_in_pod(
    model: Path,
    request: LayersRequest,
    settings: GraphSettings,
    report: Report,
    attempt: Attempt | None = None,
) -> LayerTimings:
    """Return timings of what a request names. Raises ModelRefusedError."""
    attempt = attempt or Attempt()
    if request.kind == "Calls":
        return _calls(model, request, settings, report, attempt)
    plain = replace(settings, layout="Plain")
    graph = read_graph(model, max_bytes=MOST_BYTES)
    layers = describe(graph, plain)
    engines = tuple(map(EngineName, engine_versions()))
    suite = single_layers([layers] if request.kind == "Kernels" else [])
    variants = [
        NamedVariant(
            f"{engine}:FP32:{settings.threads}", model, engine, Precision.FP32, settings.threads
        )
        for engine in engines
    ]
    options = MeasureOptions(
        *(plain, _KERNEL_ROUNDS, engines, Precision.FP32),
        attempt.left(request.budget_seconds),
        attempt,
    )
    found = measure(suite, [], variants, options, report)
    return found.model_copy(update={"graphs": [layers]})


def _calls(
    model: Path,
    request: LayersRequest,
    settings: GraphSettings,
    report: Report,
    attempt: Attempt,
) -> LayerTimings:
    served = read_graph(model, max_bytes=MOST_BYTES)
    graphs = [describe(served, settings)]
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
    options = MeasureOptions(
        settings,
        _CALL_ROUNDS,
        budget_seconds=attempt.left(request.budget_seconds),
        attempt=attempt,
        uses=[Counter(use.layer for use in each.uses) for each in graphs],
    )
    found = measure(single_layers(graphs), [served], [], options, report)
    return found.model_copy(
        update={
            "graphs": graphs,
            "failed": found.failed + failed,
            "untimed": found.untimed + untimed,
        }
    )


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
