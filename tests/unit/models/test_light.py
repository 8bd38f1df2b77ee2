"""A light graph keeps everything of the full one but its numbers."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from inferometer_models import zoo
from inferometer_models.light import STAND_IN, light, stand_in_value
from inferometer_models.structure import differences, operator_counts
from support.full_graphs import convolutional, with_a_branch, with_weights


def _made(model: ModelProto) -> dict[str, float]:
    """Map each made weight to its value."""
    return {
        node.output[0]: float(numpy_helper.to_array(node.attribute[0].t)[0])
        for node in model.graph.node
        if node.op_type == "ConstantOfShape"
    }


def test_large_float_weights_become_nodes_at_the_head_of_the_graph() -> None:
    """A ConstantOfShape node, named after the weight, gives the mean magnitude in its shape."""
    full = convolutional()
    made = light(full)
    onnx.checker.check_model(made, full_check=True)
    head = made.graph.node[0]
    assert (head.op_type, head.name) == ("ConstantOfShape", "")
    assert (list(head.input), list(head.output)) == (["conv.weight__shape"], ["conv.weight"])
    stored = {tensor.name: tensor for tensor in made.graph.initializer}
    assert numpy_helper.to_array(stored["conv.weight__shape"]).tolist() == [16, 3, 3, 3]
    weight = next(numpy_helper.to_array(t) for t in full.graph.initializer if t.name in head.output)
    assert _made(made)["conv.weight"] == pytest.approx(np.abs(weight).mean(), rel=1e-6)
    assert "conv.bias" in stored
    assert "fc.weight" not in stored


def test_a_light_graph_has_the_structure_of_the_full_one() -> None:
    """Operators, wiring, weights, inputs and outputs are found the same."""
    full = convolutional()
    before = full.SerializeToString()
    made = light(full)
    assert differences(full, made) == ()
    assert operator_counts(made) == operator_counts(full)
    assert full.SerializeToString() == before


def test_a_light_graph_stays_as_it_is() -> None:
    """Making a light graph light changes nothing."""
    once = light(convolutional())
    assert light(once) == once


def test_shipped_graphs_are_what_this_tool_makes() -> None:
    """No shipped graph holds a weight that the tool would still replace."""
    for name in ("classification/resnet50", "text/gpt2", "detection/yolos_tiny"):
        shipped = onnx.load_model_from_string(zoo.read_onnx(name))
        assert light(shipped) == shipped, name


def test_only_float_initializers_above_the_limit_are_replaced() -> None:
    """257 floats go; 256 floats, and integers of any number, stay to the bit."""
    full = with_weights(
        {
            "large": np.full(257, 0.5, np.float32),
            "small": np.full(256, 0.5, np.float32),
            "whole": np.arange(1000, dtype=np.int64),
            "flags": np.ones(1000, dtype=np.bool_),
        }
    )
    made = light(full)
    assert _made(made) == {"large": 0.5}
    assert {t.name for t in made.graph.initializer} == {"large__shape", "small", "whole", "flags"}
    assert differences(full, made) == ()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_weights_keep_their_datatype(dtype: type[np.floating]) -> None:
    """Half and double weights stay half and double."""
    made = light(with_weights({"weight": np.full((20, 20), -0.25, dtype)}))
    value = made.graph.node[0].attribute[0].t
    assert numpy_helper.to_array(value).dtype == dtype
    assert _made(made) == {"weight": 0.25}


@pytest.mark.parametrize(("opset", "replaced"), [(19, False), (20, True)])
def test_bfloat16_is_replaced_where_the_operator_set_can(opset: int, *, replaced: bool) -> None:
    """ConstantOfShape knows BFLOAT16 from operator set 20; before, the weight is kept."""
    weight = helper.make_tensor("weight", TensorProto.BFLOAT16, [300], [0.5] * 300)
    full = with_weights({}, opset=opset)
    full.graph.initializer.append(weight)
    made = light(full)
    onnx.checker.check_model(made)
    assert ("weight" in _made(made)) is replaced
    assert differences(full, made) == ()


@pytest.mark.parametrize(
    "numbers",
    [
        np.zeros(300, np.float32),
        np.full(300, 1e-42, np.float32),
        np.full(300, -np.inf, np.float32),
        np.full(300, np.nan, np.float32),
    ],
)
def test_a_weight_without_a_normal_magnitude_gets_the_stand_in(numbers: np.ndarray) -> None:
    """Zeros, subnormal numbers and what is not finite become 0.01."""
    assert stand_in_value(numpy_helper.from_array(numbers)) == STAND_IN


def test_infinities_of_a_mask_do_not_spread() -> None:
    """Only finite numbers count for the magnitude."""
    mask = np.where(np.tri(20, dtype=np.bool_), np.float32(2), np.float32(-np.inf))
    assert stand_in_value(numpy_helper.from_array(mask)) == 2


@given(
    magnitude=st.floats(2.0**-100, 2.0**100, width=32),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
)
def test_any_shape_and_magnitude_survives(magnitude: float, sizes: list[int]) -> None:
    """Whatever its shape and scale, a weight is found with them in the light graph."""
    full = with_weights({"weight": np.full(sizes, -magnitude, np.float32)})
    made = light(full)
    assert differences(full, made) == ()
    if int(np.prod(sizes)) > 256:
        assert _made(made)["weight"] == pytest.approx(magnitude, rel=1e-6)
    else:
        assert _made(made) == {}


def test_weights_of_a_branch_are_replaced_inside_it() -> None:
    """A subgraph's weights give way to nodes of that subgraph."""
    full = with_a_branch()
    made = light(full)
    onnx.checker.check_model(made, full_check=True)
    (branch,) = (a.g for a in made.graph.node[-1].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["ConstantOfShape", "Add"]
    assert not any(tensor.name == "branch.weight" for tensor in branch.initializer)
    assert differences(full, made) == ()


def test_a_weight_that_was_also_an_input_is_none_any_more() -> None:
    """Before IR version 4 weights were inputs too; a node's output may not be."""
    full = with_weights({"weight": np.ones(300, np.float32)})
    full.graph.input.append(helper.make_tensor_value_info("weight", TensorProto.FLOAT, [300]))
    made = light(full)
    onnx.checker.check_model(made, full_check=True)
    assert [value.name for value in made.graph.input] == ["input"]


def test_a_model_without_an_operator_set_is_refused() -> None:
    """The tool says which fact is missing."""
    full = convolutional()
    del full.opset_import[:]
    with pytest.raises(ValueError, match="no version of the default ONNX operator set"):
        light(full)


def test_differences_name_what_changed() -> None:
    """Another operator, another shape of a weight and another wiring are each reported."""
    full = convolutional()
    other = light(full)
    relu = next(node for node in other.graph.node if node.op_type == "Relu")
    relu.op_type = "Sigmoid"
    shape = next(t for t in other.graph.initializer if t.name == "conv.weight__shape")
    shape.CopyFrom(numpy_helper.from_array(np.array([16, 3, 5, 5]), shape.name))
    other.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 11
    lines = differences(full, other)
    assert lines == (
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
