"""Layers that ONNX Runtime fused have a standard form for other engines."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    unknown = helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(ValueError, match="no standard form"):
        standard(_model([unknown]))


def _both(
    operator: str, shapes: Sequence[Sequence[int]], outputs: int = 1, **attributes: Any
) -> list[list["np.ndarray[Any, Any]"]]:
    """Return what a fused operator and its standard form compute of the same random inputs."""
    random = np.random.default_rng(0)
    feeds = {
        f"x{at}": random.normal(size=shape).astype(np.float32) for at, shape in enumerate(shapes)
    }
    names = [f"y{at}" for at in (0, 3)[:outputs]]
    written = ["y0", "", "", "y3"] if outputs == 2 else ["y0"]
    node = helper.make_node(operator, list(feeds), written, domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, FLOAT, each.shape) for name, each in feeds.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in names],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    fused = helper.make_model(graph, opset_imports=domains, ir_version=8)
    plain = standard(fused)
    assert not any(each.domain for each in plain.graph.node)
    return [_computed(each, names, feeds) for each in (fused, plain)]


def _computed(
    model: ModelProto, names: list[str], feeds: Mapping[str, "np.ndarray[Any, Any]"]
) -> list["np.ndarray[Any, Any]"]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found: list[np.ndarray[Any, Any]] = session.run(names, dict(feeds))
    return found


@pytest.mark.parametrize(
    ("operator", "shapes", "outputs", "attributes"),
    [
        ("Gelu", [[2, 8]], 1, {}),
        ("BiasGelu", [[2, 8], [8]], 1, {}),
        ("FastGelu", [[2, 8]], 1, {}),
        ("FastGelu", [[2, 8], [8]], 1, {}),
        ("QuickGelu", [[2, 8]], 1, {"alpha": 1.5}),
        ("SkipLayerNormalization", [[1, 3, 8], [1, 3, 8], [8]], 1, {"epsilon": 1e-5}),
        ("SkipLayerNormalization", [[1, 3, 8], [1, 3, 8], [8], [8]], 1, {"epsilon": 1e-5}),
        ("SkipLayerNormalization", [[1, 3, 8], [1, 3, 8], [8], [8], [8]], 2, {"epsilon": 1e-3}),
    ],
)
def test_a_standard_form_computes_what_the_fused_operator_computes(
    operator: str, shapes: list[list[int]], outputs: int, attributes: dict[str, Any]
) -> None:
    """ONNX Runtime has the same outputs for both, the sum of a residual connection included."""
    for fused, plain in zip(*_both(operator, shapes, outputs, **attributes), strict=True):
        np.testing.assert_allclose(plain, fused, rtol=1e-3, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    batch=st.lists(st.integers(1, 3), max_size=2),
    rows=st.integers(1, 4),
    inner=st.integers(1, 4),
    columns=st.integers(1, 4),
    flips=st.tuples(st.booleans(), st.booleans()),
    alpha=st.sampled_from([1.0, 0.125]),
)
def test_a_fused_product_may_transpose_and_scale(
    batch: list[int], rows: int, inner: int, columns: int, flips: tuple[bool, bool], alpha: float
) -> None:
    """Transposed factors and a scale are operators of their own in the standard form."""
    first = [*batch, inner, rows] if flips[0] else [*batch, rows, inner]
    second = [*batch, columns, inner] if flips[1] else [*batch, inner, columns]
    fused, plain = _both(
        "FusedMatMul",
        [first, second],
        transA=int(flips[0]),
        transB=int(flips[1]),
        alpha=alpha,
    )
    np.testing.assert_allclose(plain[0], fused[0], rtol=1e-4, atol=1e-5)


def test_what_has_no_standard_form_is_refused() -> None:
    """A mean as output, and transposed batches, have no operator of their own."""
    mean = helper.make_node(
        "SkipLayerNormalization", ["x", "x", "w"], ["y", "m"], domain="com.microsoft"
    )
    batches = helper.make_node(
        "FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft", transBatchA=1
    )
    for node, words in ((mean, "a mean as output"), (batches, "transposed batches")):
        with pytest.raises(ValueError, match=words):
            standard(_model([node], _weight("w", 8)))
