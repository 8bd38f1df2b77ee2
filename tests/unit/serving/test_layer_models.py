"""Layers become models of their own, with keys that equal layers share."""

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from inferometer_serving.bounds.layer_models import Type, layer_models, macs_of, standard

FLOAT = TensorProto.FLOAT


def _model(nodes: list[NodeProto], *weights: TensorProto) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _weight(name: str, *shape: int, value: float = 0.0) -> TensorProto:
    return numpy_helper.from_array(np.full(shape, value, np.float32), name)


SHAPE = (1, 4, 8, 8)


def test_equal_layers_share_a_key_and_others_do_not() -> None:
    """Weights do not count; attributes, shapes and constants that are shapes do."""
    axes = [numpy_helper.from_array(np.array([each]), f"axes{each}") for each in (2, 3)]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w2"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1], group=1),
        helper.make_node("ReduceSum", ["c", "axes2"], ["d"], keepdims=0),
        helper.make_node("ReduceSum", ["c", "axes3"], ["e"], keepdims=0),
        helper.make_node("Add", ["c", "c"], ["f"]),
        helper.make_node("Add", ["c", "b"], ["g"]),
    ]
    model = _model(nodes, _weight("w1", 4, 4, 3, 3), _weight("w2", 4, 4, 3, 3, value=1), *axes)
    types: dict[str, Type] = {
        **dict.fromkeys("xabcfg", (FLOAT, SHAPE)),
        **dict.fromkeys("de", (FLOAT, (1, 4, 8))),
    }
    keys = [each.key for each in layer_models(model, types)]
    assert keys[0] == keys[1]
    assert len({*keys[1:]}) == 6


def test_predecessors_views_and_what_cannot_run_alone() -> None:
    """Layers name those before them; a view is free, a loop or an unseen shape is explained."""
    body = helper.make_graph([], "body", [], [])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "s"], ["b"]),
        helper.make_node("Loop", ["n", "", "b"], ["c"], body=body),
        helper.make_node("Add", ["c", "a"], ["d"]),
    ]
    layers = layer_models(_model(nodes), {"x": (FLOAT, SHAPE), "a": (FLOAT, SHAPE)})
    assert [each.predecessors for each in layers] == [(), (0,), (1,), (0, 2)]
    assert [each.is_view for each in layers] == [False, True, False, False]
    assert "control flow" in layers[2].why_not
    assert "'c' was not seen" in layers[3].why_not
    assert layers[0].moved_bytes == 2 * 4 * 4 * 64


def test_the_holes_of_a_dilated_kernel_are_not_counted() -> None:
    """A convolution multiplies its weights alone, however far they lie apart."""
    known: dict[str, Type] = {
        "x": (FLOAT, (2, 6, 16, 16)),
        "w": (FLOAT, (8, 3, 3, 3)),
        "y": (FLOAT, (2, 8, 12, 12)),
    }
    plain = helper.make_node("Conv", ["x", "w"], ["y"], group=2)
    dilated = helper.make_node("Conv", ["x", "w"], ["y"], group=2, dilations=[2, 2])
    assert macs_of(plain, known) == macs_of(dilated, known) == 2 * 8 * 12 * 12 * 3 * 3 * 3
    product = helper.make_node("Gemm", ["a", "b"], ["c"], transA=1)
    shapes: dict[str, Type] = {"a": (FLOAT, (5, 2)), "b": (FLOAT, (5, 7)), "c": (FLOAT, (2, 7))}
    assert macs_of(product, shapes) == 2 * 7 * 5


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
