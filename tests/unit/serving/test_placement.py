"""Nodes that run on another provider than requested are counted."""

import pytest
from onnx import ModelProto, TensorProto, helper

from inferometer_serving.model.placement import (
    AssignedNode,
    bookkeeping_nodes,
    placement,
    work_depends_on_values,
)
from support import onnx_models


def _reshaping() -> ModelProto:
    """Build a model whose Reshape takes its shape from Shape, Gather and Concat of the input."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Shape", ["a"], ["s"], name="shape"),
        helper.make_node("Gather", ["s", "zero"], ["n"], name="gather"),
        helper.make_node("Concat", ["n", "minus"], ["t"], name="concat", axis=0),
        helper.make_node("Reshape", ["a", "t"], ["y"], name="reshape"),
    ]
    weights = [
        helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        helper.make_tensor("minus", TensorProto.INT64, [1], [-1]),
    ]
    graph = helper.make_graph(
        nodes,
        "reshaping",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        initializer=weights,
    )
    return helper.make_model(graph)


def test_shape_arithmetic_is_bookkeeping() -> None:
    """Nodes that only handle shapes are bookkeeping; those that see the input's data are not."""
    assert bookkeeping_nodes(_reshaping()) == {"shape", "gather", "concat"}


def test_only_compute_nodes_count_as_fallen_back() -> None:
    """Of the nodes outside the provider requested, only those that handle data fell back."""
    nodes = [
        AssignedNode("relu", "Relu", "CUDA"),
        AssignedNode("gather", "Gather", "CPU"),
        AssignedNode("new", "Shape", "CPU"),
        AssignedNode("odd", "NonZero", "CPU"),
    ]
    found = placement(nodes, "CUDA", _reshaping())
    assert found.nodes_by_provider == {"CPU": 3, "CUDA": 1}
    assert found.compute_nodes_fell_back == 1
    assert placement(nodes, "CPU", _reshaping()).compute_nodes_fell_back == 1


def test_what_the_engine_adds_to_shapes_did_not_fall_back() -> None:
    """MiniLM on a GPU: ONNX Runtime permutes shapes by a Gather of its own. An embedding counts."""
    added = [AssignedNode(name, "Gather", "CPU") for name in ("Gather", "Gather_token_1")]
    assert placement(added, "CUDA", _reshaping()).compute_nodes_fell_back == 0
    embedding = AssignedNode("embed", "Gather", "CPU")
    assert placement([embedding], "CUDA", _embedding()).compute_nodes_fell_back == 1


def test_gather_by_data_is_no_bookkeeping() -> None:
    """A Gather that looks values of the input up is computing, as an embedding is."""
    assert bookkeeping_nodes(_embedding()) == frozenset()


def _embedding() -> ModelProto:
    node = helper.make_node("Gather", ["table", "x"], ["y"], name="embed")
    graph = helper.make_graph(
        [node],
        "embedding",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        initializer=[helper.make_tensor("table", TensorProto.FLOAT, [2], [1.0, 2.0])],
    )
    return helper.make_model(graph)


@pytest.mark.parametrize(
    ("model", "depends"),
    [
        (onnx_models.identity(), False),
        (onnx_models.open_axes(), False),
        (_reshaping(), False),
        (onnx_models.busy(), True),
        (onnx_models.open_trips(), True),
    ],
)
def test_loops_make_time_depend_on_values(model: ModelProto, *, depends: bool) -> None:
    """A graph with a loop may take any time, whatever the shapes; a plain one may not."""
    assert work_depends_on_values(model) is depends


@pytest.mark.parametrize(("size", "depends"), [("x", True), ("fixed", False)])
def test_sizes_from_data_make_time_depend_on_values(size: str, *, depends: bool) -> None:
    """So may a graph whose tensors are as large as an input's values say."""
    node = helper.make_node("Tile", ["fixed", size], ["y"], name="tile")
    graph = helper.make_graph(
        [node],
        "tiling",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [None])],
        initializer=[helper.make_tensor("fixed", TensorProto.INT64, [1], [3])],
    )
    assert work_depends_on_values(helper.make_model(graph)) is depends
