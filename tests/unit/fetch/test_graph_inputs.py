"""Tests of the inputs that an ONNX file names before a runtime opens it."""

from onnx import TensorProto, helper

from inferometer_fetch.fetched_model import GraphInput
from inferometer_fetch.graph_inputs import DATATYPE_NAMES, graph_inputs
from inferometer_serving.infer.datatypes import DATATYPES
from support.onnx_models import add, identity, open_axes


def test_inputs_are_listed_in_order_with_open_axes() -> None:
    """Named and unnamed axes are open, and the order is the graph's."""
    assert graph_inputs(add().graph) == (
        GraphInput("left", "FP32", (-1, 4)),
        GraphInput("right", "FP32", (-1, 4)),
    )
    assert graph_inputs(open_axes().graph) == (GraphInput("image", "FP32", (-1, 3, -1, -1)),)


def test_weights_are_no_inputs() -> None:
    """An input that has a value in the file needs none from a request."""
    graph = identity("INT64", (2,)).graph
    graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0]))
    graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]))
    assert graph_inputs(graph) == (GraphInput("x", "INT64", (2,)),)


def test_facts_missing_from_the_file_are_not_guessed() -> None:
    """An open rank and an element type that the protocol lacks are left to the runtime."""
    graph = identity().graph
    graph.input[0].type.tensor_type.ClearField("shape")
    assert graph_inputs(graph) is None
    graph = identity().graph
    graph.input[0].type.tensor_type.elem_type = TensorProto.COMPLEX64
    assert graph_inputs(graph) is None


def test_every_datatype_of_the_server_is_known() -> None:
    """The fetcher names the same element types as the server."""
    assert set(DATATYPE_NAMES.values()) == set(DATATYPES)
