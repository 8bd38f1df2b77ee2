"""A light graph keeps everything of the full one but its numbers."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, helper, numpy_helper

from inferometer_models import zoo
from inferometer_models.light import default_opset, light, set_checksum, weights_of
from inferometer_models.structure import differences, operator_counts
from inferometer_models.weights import Draw, size_bytes
from support.full_graphs import convolutional, graph_of, with_weights

DATA = "tiny.onnx.data"


def _places(model: ModelProto) -> dict[str, tuple[str, int, int]]:
    """Map each weight to its file, offset and length."""
    places = {}
    for tensor in weights_of(model):
        found = {each.key: each.value for each in tensor.external_data}
        places[tensor.name] = (found["location"], int(found["offset"]), int(found["length"]))
    return places


def test_weights_become_external_data_in_order() -> None:
    """Each has its place in one file, at a multiple of 64 bytes, and its numbers are gone."""
    made = light(convolutional(), DATA)
    assert _places(made) == {
        "conv.weight": (DATA, 0, 1728),
        "conv.bias": (DATA, 1728, 64),
        "fc.weight": (DATA, 1792, 40960),
        "fc.bias": (DATA, 42752, 40),
    }
    assert not any(tensor.raw_data for tensor in made.graph.initializer)
    assert size_bytes(Draw(count, 0, 1) for count in (432, 16, 10240, 10)) == 42752 + 64


def test_a_light_graph_has_the_structure_of_the_full_one() -> None:
    """Operators, wiring, weights, inputs and outputs are found the same."""
    full = convolutional()
    before = full.SerializeToString()
    made = light(full, DATA)
    assert differences(full, made) == ()
    assert operator_counts(made) == operator_counts(full)
    assert full.SerializeToString() == before


def test_a_light_graph_stays_as_it_is() -> None:
    """Making a light graph light changes nothing."""
    once = light(convolutional(), DATA)
    assert light(once, DATA) == once


def test_shipped_graphs_are_what_this_tool_makes() -> None:
    """No shipped graph holds a weight that the tool would still take out."""
    for name in ("classification/resnet50", "text/gpt2", "detection/yolos_tiny"):
        shipped = onnx.load_model_from_string(zoo.read_onnx(name))
        assert light(shipped, zoo.entry(name).weights_file) == shipped, name


def test_only_floats_of_more_than_one_element_are_taken_out() -> None:
    """Scalars, integers and halves stay to the bit."""
    full = with_weights(
        {
            "large": np.full(257, 0.5, np.float32),
            "pair": np.full(2, 0.5, np.float32),
            "scalar": np.full(1, 0.5, np.float32),
            "whole": np.arange(1000, dtype=np.int64),
            "half": np.full(300, 0.5, np.float16),
        }
    )
    made = light(full, DATA)
    assert list(_places(made)) == ["large", "pair"]
    kept = {"scalar", "whole", "half"}
    assert [each for each in made.graph.initializer if each.name in kept] == [
        each for each in full.graph.initializer if each.name in kept
    ]
    assert differences(full, made) == ()


def test_scales_of_a_resize_stay() -> None:
    """They are settings of the operator: random ones would change its output's shape."""
    nodes = [helper.make_node("Resize", ["table", "", "scales"], ["output"])]
    weights = {
        "table": np.ones((1, 1, 2, 2), np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    full = graph_of(nodes, weights, ["batch", 1], [1, 1, 4, 4])
    made = light(full, DATA)
    assert list(_places(made)) == ["table"]
    stored = next(each for each in made.graph.initializer if each.name == "scales")
    assert numpy_helper.to_array(stored).tolist() == [1, 1, 2, 2]


@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_any_shape_survives(sizes: list[int]) -> None:
    """Whatever its shape, a weight is found with it in the light graph."""
    full = with_weights({"weight": np.ones(sizes, np.float32)})
    assert differences(full, light(full, DATA)) == ()


def test_the_checksum_of_the_weights_is_written_once() -> None:
    """The metadata name the weights that belong to the graph; other metadata stay."""
    made = light(convolutional(), DATA)
    made.metadata_props.add(key="author", value="someone")
    set_checksum(made, "a" * 64)
    set_checksum(made, "b" * 64)
    assert {each.key: each.value for each in made.metadata_props} == {
        "author": "someone",
        "inferometer.weights_sha256": "b" * 64,
    }
    assert len(made.metadata_props) == 2


def test_a_model_without_an_operator_set_is_refused() -> None:
    """The tool says which fact is missing."""
    full = convolutional()
    del full.opset_import[:]
    with pytest.raises(ValueError, match="no version of the default ONNX operator set"):
        default_opset(full)


def test_differences_name_what_changed() -> None:
    """Another operator, another shape of a weight and another wiring are each reported."""
    full = convolutional()
    other = light(full, DATA)
    relu = next(node for node in other.graph.node if node.op_type == "Relu")
    relu.op_type = "Sigmoid"
    weight = next(tensor for tensor in other.graph.initializer if tensor.name == "conv.weight")
    weight.dims[2:] = [5, 5]
    other.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 11
    assert differences(full, other) == (
        "operator Relu: 1 in the full graph, absent in the light one.",
        "operator Sigmoid: absent in the full graph, 1 in the light one.",
        "weight conv.weight: FLOAT 16x3x3x3 in the full graph, FLOAT 16x3x5x5 in the light one.",
        "output output: FLOAT batchx10 in the full graph, FLOAT batchx11 in the light one.",
        "node 1: Relu(conv) -> relu in the full graph, Sigmoid(conv) -> relu in the light one.",
    )


def test_many_differences_are_counted() -> None:
    """Of many differences of one kind five are named and the others counted."""
    full = with_weights({f"weight{number}": np.ones(3, np.float32) for number in range(8)})
    lines = differences(full, with_weights({}))
    assert len(lines) == 6
    assert lines[-1] == "weight: 3 more differences."
