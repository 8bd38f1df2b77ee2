"""What a server measures of layers at a client's request, and what it says of hard models."""

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.layers.variants import ModelVariant
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.layers import in_pod
from inferometer_serving.layers.attempts import Attempt
from inferometer_serving.layers.in_pod import measure_in_pod
from inferometer_serving.layers.in_pod_request import Kind, LayersRequest
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.layers.reading import describe
from inferometer_serving.layers.rewriting import rewrite
from inferometer_serving.layers.whole_model import open_variant
from support.layer_graphs import MACHINE

FLOAT = TensorProto.FLOAT


def _save(path: Path, nodes: list[onnx.NodeProto], **weights: tuple[int, ...]) -> Path:
    generator = np.random.default_rng(0)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 8, 6, 6])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [
            numpy_helper.from_array(generator.normal(size=shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path
    )
    return path


@pytest.fixture(name="net")
def _net(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    return _save(tmp_path / "net.onnx", nodes, w=(8, 8, 3, 3))


def test_kernels_come_with_the_plain_graph_and_the_whole_model(net: Path) -> None:
    """A bound needs the layers, their timings, and the latency that it bounds."""
    found = measure_in_pod(
        ModelVariant(net), LayersRequest("Kernels"), GraphSettings(), lambda *_: None
    )
    (graph,) = found.graphs
    assert graph.layout == "Plain"
    assert {each.key for each in found.kernels} == set(graph.layers)
    assert "onnxruntime:FP32:1" in found.variants
    assert (
        measure_in_pod(
            ModelVariant(net), LayersRequest("Model"), GraphSettings(), lambda *_: None
        ).kernels
        == []
    )


def test_advice_needs_other_variants_and_rewritten_models(net: Path) -> None:
    """The served one is named, and what cannot be rewritten has a reason."""
    request = LayersRequest("Kernels", advise=True)
    served = ModelVariant(net, graph_optimization="Disabled")
    found = measure_in_pod(served, request, GraphSettings(), lambda *_: None)
    names = set(found.variants)
    assert found.present == "onnxruntime:Default:1:Disabled"
    assert found.present in names
    assert {"onnxruntime:Default:1", "onnxruntime:Default:1:Extended"} <= names
    assert {f"{found.present}:FixedShapes", "onnxruntime:Default:1:INT8"} <= names
    assert {len(each.nanoseconds) for each in found.variants.values()} == {15}
    reasons = {each.key: each.reason for each in found.failed}
    assert "No pattern of operators" in reasons["onnxruntime:Default:1:Fused"]
    assert {each.key for each in found.kernels} == set(found.graphs[0].layers)


def test_a_model_that_memory_cannot_hold_is_not_rewritten(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that the kernel kills for its memory would take the measurement with it."""
    monkeypatch.setattr(in_pod, "available_bytes", lambda: 100)
    request = LayersRequest("Model", advise=True)
    found = measure_in_pod(ModelVariant(net), request, GraphSettings(), lambda *_: None)
    assert not any(name.endswith("INT8") for name in found.variants)
    refused = {each.key: each.reason for each in found.failed}
    assert "100 are available" in refused["onnxruntime:Default:1:INT8"]
    assert found.kernels == []


def test_advice_without_time_names_what_is_missing(net: Path) -> None:
    """A budget that has ended already is no refusal: the rest of the result stays."""
    request = LayersRequest("Kernels", budget_seconds=1, advise=True)
    ended = Attempt(began_seconds=time.monotonic() - 10)
    found = measure_in_pod(ModelVariant(net), request, GraphSettings(), lambda *_: None, ended)
    refused = {each.key: each.reason for each in found.failed}
    assert "Raise budgetSeconds" in refused["onnxruntime:Default:1:INT8"]
    assert found.variants == {}
    assert "onnxruntime:Default:1" in found.untimed


def test_a_model_without_products_is_not_quantised(tmp_path: Path) -> None:
    """The file would be the model itself, and a gain of it noise."""
    path = _save(tmp_path / "neg.onnx", [helper.make_node("Neg", ["x"], ["y"])])
    with pytest.raises(ModelRefusedError, match="no operator that ONNX Runtime computes in INT8"):
        rewrite(read_graph(path, max_bytes=1 << 30), "INT8", tmp_path / "q.onnx", GraphSettings())
    assert not (tmp_path / "q.onnx").exists()


def test_a_large_model_is_not_rewritten_next_to_a_server(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would fill the pod's folder for temporary ones, and the pod would be evicted."""
    monkeypatch.setattr(in_pod, "_MOST_REWRITTEN_BYTES", 10)
    request = LayersRequest("Model", advise=True)
    found = measure_in_pod(ModelVariant(net), request, GraphSettings(), lambda *_: None)
    refused = {each.key: each.reason for each in found.failed}
    assert "`inferometer advise` rewrites it" in refused["onnxruntime:Default:1:INT8"]


@pytest.mark.parametrize("kind", ["Kernels", "Calls"])
def test_a_model_has_the_name_that_it_is_served_as(net: Path, kind: Kind) -> None:
    """Its file is called the same in every pod, and pages would take all models for one."""
    request = LayersRequest(kind, model_name="my-net")
    found = measure_in_pod(ModelVariant(net), request, GraphSettings(), lambda *_: None)
    assert [each.model for each in found.graphs] == ["my-net"]
    assert set(found.models) == ({"my-net"} if kind == "Calls" else set())


@pytest.mark.parametrize(("threads", "layers"), [(1, [1, 1]), (2, [2])])
def test_several_threads_time_chains_of_layers(
    net: Path, monkeypatch: pytest.MonkeyPatch, threads: int, layers: list[int]
) -> None:
    """Single layers predict badly then. Two layers are two bricks, or one chain."""
    timed: list[Brick] = []

    def keep(suite: BrickSuite, *_: object) -> LayerTimings:
        timed.extend(suite.bricks.values())
        return LayerTimings(machine=MACHINE, seconds=0)

    monkeypatch.setattr(in_pod, "measure", keep)
    settings = GraphSettings(threads=threads)
    measure_in_pod(ModelVariant(net), LayersRequest("Calls"), settings, lambda *_: None)
    assert [len(each.layers) for each in timed] == layers


def test_bricks_name_a_model_that_the_zoo_lacks(net: Path) -> None:
    """The others are timed."""
    request = LayersRequest("Calls", ("zoo://task/no_such_model",))
    found = measure_in_pod(ModelVariant(net), request, GraphSettings(), lambda *_: None)
    (graph,) = found.graphs
    assert set(found.bricks) == set(graph.layers)
    (failure,) = found.failed
    assert failure.key == "zoo://task/no_such_model"
    assert "is not in the model zoo" in failure.reason


def test_a_quantised_model_computes_nearly_the_same(net: Path, tmp_path: Path) -> None:
    """INT8 changes values a little; a model without patterns is not fused, and says so."""
    output = tmp_path / "int8.onnx"
    rewrite(read_graph(net, max_bytes=1 << 30), "INT8", output, GraphSettings())
    before, after = (
        open_variant(ModelVariant(path), GraphSettings()).run()[0].astype(np.float64)
        for path in (net, output)
    )
    assert np.abs(before - after).max() < 0.2 * before.std()
    assert (before != after).any()
    with pytest.raises(ModelRefusedError, match="No pattern of operators was found"):
        rewrite(read_graph(net, max_bytes=1 << 30), "Fused", tmp_path / "f.onnx", GraphSettings())
    assert not (tmp_path / "f.onnx").exists()


def test_a_model_with_fixed_shapes_computes_the_same(net: Path, tmp_path: Path) -> None:
    """The batch size takes the place of the open axis; a model without one is not written again."""
    output, again = tmp_path / "fixed.onnx", tmp_path / "again.onnx"
    rewrite(read_graph(net, max_bytes=1 << 30), "FixedShapes", output, GraphSettings(batch_size=3))
    (fixed,) = onnx.load(output).graph.input
    assert [axis.dim_value for axis in fixed.type.tensor_type.shape.dim] == [3, 8, 6, 6]
    before, after = (
        open_variant(ModelVariant(path), GraphSettings(batch_size=3)).run()[0]
        for path in (net, output)
    )
    np.testing.assert_array_equal(before, after)
    with pytest.raises(ModelRefusedError, match="fixed shapes already"):
        rewrite(read_graph(output, max_bytes=1 << 30), "FixedShapes", again, GraphSettings())
    assert not again.exists()


def test_control_flow_and_sequences_are_named_and_the_rest_is_timed(tmp_path: Path) -> None:
    """A layer that cannot run alone has a reason; its neighbours have timings."""
    body = helper.make_graph(
        [helper.make_node("Neg", ["z"], ["n"])],
        "body",
        [],
        [helper.make_tensor_value_info("n", FLOAT, None)],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "w"], ["c"]),
        helper.make_node("Squeeze", ["c"], ["d"]),
        helper.make_node("If", ["d"], ["i"], then_branch=body, else_branch=body),
        helper.make_node("SplitToSequence", ["i"], ["q"], axis=1),
        helper.make_node("ConcatFromSequence", ["q"], ["y"], axis=1),
    ]
    path = _save(tmp_path / "flow.onnx", nodes, w=(1,))
    graph = describe(read_graph(path, max_bytes=1 << 30), GraphSettings())
    operators = {graph.layers[use.layer].operator for use in graph.uses}
    assert {"If", "SplitToSequence"} <= operators
    found = measure_in_pod(
        ModelVariant(path), LayersRequest("Calls"), GraphSettings(), lambda *_: None
    )
    failed = {graph.layers[each.key].operator for each in found.failed}
    assert "SplitToSequence" in failed
    assert "Relu" in {graph.layers[key].operator for key in found.bricks}


def test_a_custom_operator_is_refused_by_its_name(tmp_path: Path) -> None:
    """No layer of such a model is guessed."""
    node = helper.make_node("Secret", ["x"], ["y"], domain="com.example")
    path = _save(tmp_path / "custom.onnx", [node])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, path)
    with pytest.raises(ModelRefusedError, match="Secret"):
        describe(read_graph(path, max_bytes=1 << 30), GraphSettings())


def test_an_input_that_is_a_sequence_is_refused_by_its_name(tmp_path: Path) -> None:
    """Only tensors can be made up."""
    node = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    path = _save(tmp_path / "sequence.onnx", [node])
    model = onnx.load(path)
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    model.graph.input[0].type.CopyFrom(sequence)
    onnx.save(model, path)
    with pytest.raises(ModelRefusedError, match=r"The input 'x' .* is no tensor but a sequence"):
        describe(read_graph(path, max_bytes=1 << 30), GraphSettings())


def test_an_input_without_a_shape_takes_the_given_one(tmp_path: Path) -> None:
    """Its layers depend on it, so that it is requested by name."""
    path = _save(tmp_path / "shapeless.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    graph = read_graph(path, max_bytes=1 << 30)
    with pytest.raises(ModelRefusedError, match=r"'x' .* has no shape.* --warm-up-shape x="):
        describe(graph, GraphSettings())
    (layer,) = describe(graph, GraphSettings(shapes={"x": [2, 3]})).layers.values()
    assert layer.outputs[0].shape == [2, 3]
