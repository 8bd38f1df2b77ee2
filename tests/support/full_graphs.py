"""Small ONNX graphs with stored weights that stand for exported models."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

Weights = Mapping[str, np.ndarray]


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
    return _model(nodes, weights, (["batch", 3, 8, 8], ["batch", 10]))


def with_weights(weights: Weights, *, opset: int = 17) -> ModelProto:
    """Build a graph that copies "input" to "output" and stores `weights` with it."""
    nodes = [helper.make_node("Identity", ["input"], ["output"])]
    return _model(nodes, weights, (["batch", 4], ["batch", 4]), opset=opset)


def with_a_branch() -> ModelProto:
    """Build a graph whose If node holds a weight of 300 numbers in its first branch."""
    weight = numpy_helper.from_array(np.full(300, 0.5, np.float32), "branch.weight")
    declared = helper.make_tensor_value_info("chosen", TensorProto.FLOAT, None)
    then = helper.make_graph(
        [helper.make_node("Add", ["input", "branch.weight"], ["chosen"])], "then", [], [declared]
    )
    then.initializer.append(weight)
    otherwise = helper.make_graph(
        [helper.make_node("Identity", ["input"], ["chosen"])], "otherwise", [], [declared]
    )
    node = helper.make_node(
        "If", ["condition"], ["output"], then_branch=then, else_branch=otherwise
    )
    weights = {"condition": np.array(True)}
    return _model([node], weights, (["batch", 300], ["batch", 300]))


def _model(
    nodes: Sequence[NodeProto],
    weights: Weights,
    shapes: tuple[Sequence[int | str], Sequence[int | str]],
    *,
    opset: int = 17,
) -> ModelProto:
    graph: GraphProto = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shapes[0])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shapes[1])],
        [numpy_helper.from_array(numbers, name) for name, numbers in weights.items()],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)], producer_name="tests"
    )
