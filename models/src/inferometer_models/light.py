"""Turns a full ONNX graph into a light one that takes as long to run."""

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

LARGEST_KEPT_ELEMENTS = 256
"""A float initializer of more elements than this loses its numbers."""

STAND_IN = 0.01
"""The value of a weight whose own magnitude is zero, too small for a normal number, or unknown."""

SHAPE_SUFFIX = "__shape"
"""What is appended to a weight's name to name the initializer that holds its shape."""

FIRST_OPSET_WITH_BFLOAT16 = 20
"""ConstantOfShape cannot make BFLOAT16 before this version of the operator set."""

# The smallest normal number: a weight of subnormal numbers would slow the processor down, and
# the latency of the light graph would no longer be that of the full one.
_SMALLEST_NORMAL: dict[int, float] = {
    TensorProto.FLOAT16: float(np.finfo(np.float16).tiny),
    TensorProto.BFLOAT16: float(np.finfo(np.float32).tiny),  # eight bits of exponent, as float32
    TensorProto.FLOAT: float(np.finfo(np.float32).tiny),
    TensorProto.DOUBLE: float(np.finfo(np.float64).tiny),
}


def light(full: ModelProto) -> ModelProto:
    """Return a copy of `full` in which ConstantOfShape nodes make the large float weights.

    Every float initializer of more than LARGEST_KEPT_ELEMENTS elements, those of subgraphs
    included, gives way to a node of the same output name, datatype and shape, which comes before
    all others. Its one value is the mean magnitude of the finite weights. Integers, small
    initializers and all other nodes stay as they are. Weights kept in external files must have
    been loaded into `full`.
    """
    model = ModelProto()
    model.CopyFrom(full)
    opset = default_opset(model)
    # Innermost first: a rebuilt graph holds copies of the nodes that it was found through.
    for graph in reversed(graphs(model.graph)):
        _lighten_graph(graph, opset)
    return model


def default_opset(model: ModelProto) -> int:
    """Return the version of the default operator set; ValueError where the model names none."""
    for opset in model.opset_import:
        if opset.domain in {"", "ai.onnx"}:
            return opset.version
    raise ValueError("The model names no version of the default ONNX operator set; export it anew.")


def graphs(graph: GraphProto) -> list[GraphProto]:
    """Return `graph` and all graphs inside its nodes (the branches of If, the body of Loop)."""
    found = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found += graphs(attribute.g)
            elif attribute.type == AttributeProto.GRAPHS:
                for inner in attribute.graphs:
                    found += graphs(inner)
    return found


def made_weights(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the nodes that `light` has put in: weight's name to the initializer of its shape."""
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    return {
        node.output[0]: initializers[node.input[0]]
        for node in graph.node
        if node.op_type == "ConstantOfShape"
        and node.input[0] == node.output[0] + SHAPE_SUFFIX
        and node.input[0] in initializers
    }


def stand_in_value(weight: TensorProto) -> float:
    """Return the one value that replaces all numbers of a float tensor."""
    numbers = numpy_helper.to_array(weight).astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    magnitude = float(np.abs(finite).mean()) if finite.size else 0.0
    return magnitude if magnitude >= _SMALLEST_NORMAL[weight.data_type] else STAND_IN


def _lighten_graph(graph: GraphProto, opset: int) -> None:
    """Replace the large float weights that `graph` itself holds, in place."""
    nodes: list[NodeProto] = []
    initializers: list[TensorProto] = []
    for tensor in graph.initializer:
        if _is_replaced(tensor, opset):
            shape_name = tensor.name + SHAPE_SUFFIX
            shape = np.array(tensor.dims, dtype=np.int64)
            initializers.append(numpy_helper.from_array(shape, shape_name))
            value = helper.make_tensor("value", tensor.data_type, [1], [stand_in_value(tensor)])
            nodes.append(
                helper.make_node("ConstantOfShape", [shape_name], [tensor.name], value=value)
            )
        else:
            initializers.append(tensor)
    made = {node.output[0] for node in nodes}
    # Before IR version 4 an initializer was an input as well; a node's output may not be.
    inputs = [declared for declared in graph.input if declared.name not in made]
    rebuilt = GraphProto(node=[*nodes, *graph.node], initializer=initializers, input=inputs)
    for field in ("node", "initializer", "input"):
        graph.ClearField(field)
    graph.MergeFrom(rebuilt)


def _is_replaced(tensor: TensorProto, opset: int) -> bool:
    if tensor.data_type == TensorProto.BFLOAT16 and opset < FIRST_OPSET_WITH_BFLOAT16:
        return False
    is_large = int(np.prod(tensor.dims, dtype=np.int64)) > LARGEST_KEPT_ELEMENTS
    return is_large and tensor.data_type in _SMALLEST_NORMAL
