"""Whole models in the variants that advice compares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferometer_api.layers.variants import ModelVariant
from inferometer_models.graph_file import read_graph
from inferometer_serving.infer.tensors import Array
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.model.engines import open_session
from inferometer_serving.model.session import EngineSettings, Interrupt, Session
from inferometer_serving.options import (
    EngineName,
    GraphOptimization,
    OnnxRuntimeChoices,
    Precision,
    ServeOptions,
)
from inferometer_serving.profile.profiler import model_inputs

MOST_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class WholeModel:
    """A loaded model with its inputs."""

    session: Session
    feeds: dict[str, Array]

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The inputs of each run."""
        return tuple(self.feeds.values())

    def run(self) -> list[Array]:
        """Return the outputs of one inference."""
        names = [each.name for each in self.session.signature.outputs]
        return self.session.runner.run(names, self.feeds)


def open_variant(variant: ModelVariant, settings: GraphSettings) -> WholeModel:
    """Load a model. Raises ModelRefusedError."""
    graph = read_graph(variant.model, max_bytes=MOST_BYTES)
    chosen = EngineSettings(
        threads=variant.threads,
        precision=Precision(variant.precision),
        onnx_runtime=OnnxRuntimeChoices(
            graph_optimization=GraphOptimization(variant.graph_optimization)
        ),
    )
    session = open_session(EngineName(variant.engine), graph, chosen, Interrupt())
    shapes = {name: tuple(shape) for name, shape in settings.shapes.items()}
    options = ServeOptions(variant.model, "model", warm_up_shapes=shapes)
    return WholeModel(session, model_inputs(session, options, settings.batch_size))


def largest_difference(expected: Sequence[Array], found: Sequence[Array]) -> float:
    """Return the largest difference of any output's values, as a share of its deviation."""
    largest = 0.0
    for first, second in zip(expected, found, strict=True):
        if first.dtype.kind != "f" or not first.size:
            continue
        a, b = first.astype(np.float64), second.astype(np.float64)
        deviation = float(a.std()) or 1.0
        largest = max(largest, float(np.abs(a - b).max()) / deviation)
    return largest
