"""Reads the operators and the weights of a model from its file, without running it."""

from collections.abc import Iterator
from math import prod

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, numpy_helper

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_models.structure import DATA_OPERATORS

_FLOATS = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
)


def parameter_count(graph: GraphFile) -> int:
    """Return how many numbers the weights of a model are."""
    return sum(prod(tensor.dims) for tensor in graph.model.graph.initializer)


def wiring(graph: GraphFile) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield operator, inputs and outputs of each node of the top graph that computes."""
    for node in graph.model.graph.node:
        if node.op_type not in DATA_OPERATORS:
            yield node.op_type, tuple(filter(None, node.input)), tuple(filter(None, node.output))


def weight_tensors(graph: GraphFile) -> Iterator[npt.NDArray[np.floating]]:
    """Yield the weights of floating point with two axes or more: matrices and kernels.

    One tensor is in memory at a time. Raises ModelRefusedError if one cannot be read.
    """
    for tensor in graph.model.graph.initializer:
        if tensor.data_type in _FLOATS and len(tensor.dims) > 1:
            try:
                yield numpy_helper.to_array(tensor, base_dir=str(graph.path.parent))
            except (ValueError, OSError) as error:
                raise ModelRefusedError(
                    f"The weight '{tensor.name}' of the model {graph.path} cannot be read: "
                    f"{' '.join(str(error).split())[:300]}. Export or copy the model again."
                ) from error
