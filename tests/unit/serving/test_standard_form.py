"""Layers that ONNX Runtime fused have a standard form for other engines."""

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from inferometer_serving.layers.standard_form import standard

FLOAT = TensorProto.FLOAT


def _model(nodes: list[NodeProto], *weights: TensorProto) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)])


def _weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def test_a_fused_convolution_has_a_standard_form() -> None:
    """A convolution with sum and activation becomes three operators that any engine takes."""
    node = helper.make_node(
        "FusedConv",
        ["x", "w", "b", "z"],
        ["y"],
        domain="com.microsoft",
        activation="Relu",
        pads=[1, 1, 1, 1],
    )
    model = _model([node], _weight("w", 4, 4, 3, 3))
    found = standard(model)
    assert [each.domain for each in found.opset_import] == [""]
    assert [each.op_type for each in found.graph.node] == ["Conv", "Add", "Relu"]
    assert list(found.graph.node[0].input) == ["x", "w", "b"]
    assert found.graph.node[1].input[1] == "z"
    assert found.graph.node[2].output[0] == "y"
    assert helper.get_node_attr_value(found.graph.node[0], "pads") == [1, 1, 1, 1]
    clipped = helper.make_node(
        "FusedConv",
        ["x", "w"],
        ["y"],
        domain="com.microsoft",
        activation="Clip",
        activation_params=[0.0, 6.0],
    )
    found = standard(_model([clipped], _weight("w", 4, 4, 3, 3)))
    assert [each.op_type for each in found.graph.node] == ["Conv", "Clip"]
    limits = {each.name: numpy_helper.to_array(each) for each in found.graph.initializer}
    assert [float(limits[name]) for name in found.graph.node[1].input[1:]] == [0.0, 6.0]
    unknown = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(ValueError, match="no standard form"):
        standard(_model([unknown]))
