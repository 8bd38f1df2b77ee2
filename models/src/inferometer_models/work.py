"""Counts the parameters of a graph and the multiplications of one inference."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships neither types nor stubs
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from inferometer_models.light import graphs, made_weights

_FLOATS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
_ERRORS_ONLY = 3

Sample = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Shapes = Mapping[str, tuple[int, ...]]


def parameters(model: ModelProto) -> int:
    """Count the elements of all floating-point weights, stored or made by ConstantOfShape.

    The running means and variances of a batch normalization are weights, too.
    """
    total = 0
    for graph in graphs(model.graph):
        stored = (each for each in graph.initializer if each.data_type in _FLOATS)
        total += sum(prod(each.dims) for each in stored)
        total += sum(prod(shape) for shape in _made_shapes(graph).values())
    return total


def macs(model: ModelProto, sample: Sample) -> int:
    """Count the multiply-accumulate operations of one inference of `sample`, by running it.

    Counted are the convolutions and matrix products of the top graph, as papers on such models do;
    element-wise operators are not. Shapes that depend on other tensors are known only by running.
    """
    nodes = [node for node in model.graph.node if node.op_type in _MACS]
    shapes = _shapes(model, nodes, sample)
    return sum(_MACS[node.op_type](node, shapes) for node in nodes)


def _convolution(node: NodeProto, shapes: Shapes) -> int:
    """Each element of the output has one product per weight of its filter."""
    return prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])


def _transposed(node: NodeProto, shapes: Shapes) -> int:
    """Each element of the input meets every weight of its filter."""
    return prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])


def _product(node: NodeProto, shapes: Shapes) -> int:
    """Each element of the output has one product per column of the left matrix."""
    return prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]


def _general_product(node: NodeProto, shapes: Shapes) -> int:
    is_transposed = any(each.name == "transA" and each.i for each in node.attribute)
    return prod(shapes[node.output[0]]) * shapes[node.input[0]][0 if is_transposed else 1]


_MACS: Mapping[str, Callable[[NodeProto, Shapes], int]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "MatMul": _product,
    "Gemm": _general_product,
}


def _shapes(model: ModelProto, nodes: list[NodeProto], sample: Sample) -> Shapes:
    """Return the shape of every tensor that the nodes read or write."""
    known = {each.name: tuple(each.dims) for each in model.graph.initializer}
    known |= _made_shapes(model.graph)
    known["input"] = sample.shape
    names = {name for node in nodes for name in (*node.input, *node.output) if name} - set(known)
    if not names:
        return known
    shown = ModelProto()
    shown.CopyFrom(model)
    shown.graph.ClearField("output")
    # Their datatype and shape are inferred.
    shown.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in sorted(names))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    session = onnxruntime.InferenceSession(
        shown.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(sorted(names), {"input": sample})
    return known | {
        name: tuple(each.shape) for name, each in zip(sorted(names), found, strict=True)
    }


def _made_shapes(graph: GraphProto) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight that a ConstantOfShape node makes."""
    made = made_weights(graph)
    return {name: tuple(numpy_helper.to_array(shape).tolist()) for name, shape in made.items()}
