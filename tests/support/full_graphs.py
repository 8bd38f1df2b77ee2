"""Small ONNX graphs with stored weights that stand for exported models."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

Weights = Mapping[str, np.ndarray | np.float32]


def convolutional(seed: int = 7) -> ModelProto:
    """Build an image classifier as the zoo wants it: "input" batchx3x8x8 to "output" batchx10."""
    random = np.random.default_rng(seed)
    weights = {
        "conv.weight": random.normal(0, 0.1, (16, 3, 3, 3)).astype(np.float32),
        "conv.bias": random.normal(0, 0.1, 16).astype(np.float32),
        "fc.weight": random.normal(0, 0.1, (10, 1024)).astype(np.float32),
        "fc.bias": random.normal(0, 0.1, 10).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["input", "conv.weight", "conv.bias"], ["conv"], pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("Flatten", ["relu"], ["flat"]),
        helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["output"], transB=1),
    ]
    return graph_of(nodes, weights, ["batch", 3, 8, 8], ["batch", 10])


def with_weights(weights: Weights) -> ModelProto:
    """Build a graph that copies "input" to "output" and stores `weights` with it."""
    nodes = [helper.make_node("Identity", ["input"], ["output"])]
    return graph_of(nodes, weights, ["batch", 4], ["batch", 4])


def graph_of(
    nodes: Sequence[NodeProto],
    weights: Weights,
    input_shape: Sequence[int | str],
    output_shape: Sequence[int | str],
) -> ModelProto:
    """Build a model from the nodes between "input" and "output", and their weights."""
    graph: GraphProto = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, input_shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, output_shape)],
        [numpy_helper.from_array(np.asarray(numbers), name) for name, numbers in weights.items()],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)], producer_name="tests"
    )
