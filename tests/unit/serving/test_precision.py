"""The precision of a graph's layers is counted from the types of its tensors."""

from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from inferometer_serving.model.precision import precisions_of


def _model(*nodes: str, weight: int = TensorProto.FLOAT) -> ModelProto:
    """Return a graph of matrix products and casts in a row; "MatMul" or "Cast:10"."""
    made, at = [], "x"
    for number, node in enumerate(nodes):
        operator, _, target = node.partition(":")
        attributes: dict[str, Any] = {"to": int(target)} if target else {}
        inputs = [at] if operator != "MatMul" else [at, "w"]
        at = f"t{number}"
        made.append(helper.make_node(operator, inputs, [at], **attributes))
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", weight, ["n", 2])],
        [helper.make_tensor_value_info(at, weight, None)],
        [helper.make_tensor("w", weight, [2, 2], [0.0] * 4)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    ("model", "layers", "effective"),
    [
        (_model("MatMul", "Relu", "MatMul"), {"FP32": 2}, "FP32"),
        (_model("MatMul", weight=TensorProto.FLOAT16), {"FP16": 1}, "FP16"),
        (_model("Relu"), {}, ""),
    ],
    ids=["products alone count", "half", "none"],
)
def test_layers_are_counted(model: ModelProto, layers: dict[str, int], effective: str) -> None:
    """Layers that multiply matrices count in the type of their inputs."""
    found = precisions_of(model)
    assert (found.layers, found.effective) == (layers, effective)


def test_products_of_activations_have_the_inferred_type() -> None:
    """A product of two activations has their type, which follows from the operators before."""
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            helper.make_node("MatMul", ["h", "h"], ["y"]),
            helper.make_node("MatMul", ["x", "x"], ["z"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, 2]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 2]),
        ],
    )
    found = precisions_of(helper.make_model(graph))
    assert found.layers == {"FP16": 1, "FP32": 1}
    assert found.effective == "Mixed"


def test_dequantised_products_are_integer() -> None:
    """A product of two dequantised tensors is one that the engine computes in integers."""
    dequantise = [
        helper.make_node("DequantizeLinear", [name, "s"], [f"{name}_float"]) for name in ("x", "w")
    ]
    graph = helper.make_graph(
        [*dequantise, helper.make_node("MatMul", ["x_float", "w_float"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])],
        [
            helper.make_tensor("w", TensorProto.INT8, [2, 2], [1] * 4),
            helper.make_tensor("s", TensorProto.FLOAT, [], [0.1]),
        ],
    )
    assert precisions_of(helper.make_model(graph)).layers == {"INT8": 1}
