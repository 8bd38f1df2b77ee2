"""Turns a full ONNX graph into a light one, whose weights lie in a file that the zoo makes."""

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from inferometer_models.weights import ALIGNMENT_BYTES

CHECKSUM_KEY = "inferometer.weights_sha256"
"""Metadata of a light graph: the checksum of its weights, so that its own identifies both."""

_WITH_SETTINGS = frozenset({"Resize", "Upsample"})
"""Operators whose float inputs but the first are no weights."""


def light(full: ModelProto, location: str) -> ModelProto:
    """Return a copy of `full` whose weights are external data at `location`, without the data.

    Weights are the FP32 initializers of more than one element of the top graph; those that Resize
    takes are settings and stay, as everything else does. Their order in the graph is that of the
    file. Weights that already are external data need not be there.
    """
    model = ModelProto()
    model.CopyFrom(full)
    model.graph.ClearField("initializer")
    settings = _settings(full.graph)
    offset = 0
    for tensor in full.graph.initializer:
        if not _is_weight(tensor) or tensor.name in settings:
            model.graph.initializer.append(tensor)
            continue
        length = 4 * element_count(tensor)
        model.graph.initializer.append(_external(tensor, location, offset, length))
        offset += -(-length // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return model


def weights_of(model: ModelProto) -> tuple[TensorProto, ...]:
    """Return the external tensors of a light graph, in the order of their file."""
    return tuple(
        tensor for tensor in model.graph.initializer if tensor.data_location == TensorProto.EXTERNAL
    )


def element_count(tensor: TensorProto) -> int:
    """Return the number of elements of a tensor."""
    return int(np.prod(tensor.dims, dtype=np.int64))


def set_checksum(model: ModelProto, sha256: str) -> None:
    """Write the checksum of its weights into a light graph."""
    others = [each for each in model.metadata_props if each.key != CHECKSUM_KEY]
    model.ClearField("metadata_props")
    model.metadata_props.extend(others)
    model.metadata_props.add(key=CHECKSUM_KEY, value=sha256)


def default_opset(model: ModelProto) -> int:
    """Return the version of the default operator set; ValueError where the model names none."""
    for opset in model.opset_import:
        if opset.domain in {"", "ai.onnx"}:
            return opset.version
    raise ValueError("The model names no version of the default ONNX operator set; export it anew.")


def _settings(graph: GraphProto) -> set[str]:
    resizing = (node for node in graph.node if node.op_type in _WITH_SETTINGS)
    return {name for node in resizing for name in node.input[1:]}


def _is_weight(tensor: TensorProto) -> bool:
    return tensor.data_type == TensorProto.FLOAT and element_count(tensor) > 1


def _external(tensor: TensorProto, location: str, offset: int, length: int) -> TensorProto:
    external = TensorProto(
        name=tensor.name,
        data_type=tensor.data_type,
        dims=tensor.dims,
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        external.external_data.add(key=key, value=str(value))
    return external
