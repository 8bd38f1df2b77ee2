"""Models whose layers cannot be found or timed alone are refused by a clear sentence."""

import json
import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from inferometer_api.layers.split import compose_suite
from inferometer_api.layers.timings import LayerTimings
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile, read_graph
from inferometer_serving.layers import optimised_graph
from inferometer_serving.layers.__main__ import _parser
from inferometer_serving.layers.attempts import Attempt
from inferometer_serving.layers.measure import MeasureOptions, measure
from inferometer_serving.layers.optimised_graph import GraphSettings
from inferometer_serving.layers.reading import describe

FLOAT = TensorProto.FLOAT
X = helper.make_tensor_value_info("x", FLOAT, [1, 4])
Y = helper.make_tensor_value_info("y", FLOAT, [1, 4])


def _graph(
    folder: Path,
    *nodes: NodeProto,
    given: Sequence[ValueInfoProto] = (X,),
    opset: int = 19,
    weights: Sequence[TensorProto] = (),
) -> GraphFile:
    made = helper.make_graph(list(nodes), "g", list(given), [Y], list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=9), path)
    return read_graph(path, max_bytes=1 << 30)


def _timed(graph: GraphFile) -> LayerTimings:
    suite = compose_suite([describe(graph, GraphSettings())], 1)
    return measure(suite, [], [], MeasureOptions(rounds=3), lambda *_: None)


def _reasons(found: LayerTimings) -> set[str]:
    return {each.reason for each in found.failed}


def _loop(*, is_limited: bool) -> NodeProto:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("Identity", ["on"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [1, 4]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", FLOAT, [1, 4]),
        ],
    )
    limit = "limit" if is_limited else ""
    return helper.make_node("Loop", [limit, "true", "x"], ["y"], body=body)


TRUE = numpy_helper.from_array(np.array(True), "true")


def test_an_inference_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop without a limit is given up after a while, and the reason names the remedy."""
    monkeypatch.setattr(optimised_graph, "MOST_SECONDS", 0.5)
    graph = _graph(tmp_path, _loop(is_limited=False), weights=[TRUE])
    with pytest.raises(ModelRefusedError, match=r"not ended after 0.5 s.*give the loop a limit"):
        describe(graph, GraphSettings())


def test_a_loop_with_a_limit_is_one_layer(tmp_path: Path) -> None:
    """It has all that it reads, so that it is timed alone."""
    limit = numpy_helper.from_array(np.array(3), "limit")
    found = _timed(_graph(tmp_path, _loop(is_limited=True), weights=[TRUE, limit]))
    assert len(found.bricks) == 1
    assert not found.failed


def _branch(operator: str) -> GraphProto:
    return helper.make_graph(
        [helper.make_node(operator, ["x"], ["z"])],
        operator,
        [],
        [helper.make_tensor_value_info("z", FLOAT, [1, 4])],
    )


def test_a_branch_that_reads_the_graph_around_it_is_named(tmp_path: Path) -> None:
    """Alone it lacks that tensor; the layer that computes the condition is timed."""
    choice = helper.make_node(
        "If", ["c"], ["y"], then_branch=_branch("Sin"), else_branch=_branch("Exp")
    )
    condition = helper.make_node("IsNaN", ["s"], ["c"])
    total = helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)
    found = _timed(_graph(tmp_path, total, condition, choice))
    assert _reasons(found) == {
        "The graph within If (control flow) reads 'x' of the graph around it, which it lacks alone."
    }
    assert len(found.bricks) == 2


def test_sequences_and_small_floats_are_named(tmp_path: Path) -> None:
    """What no array can hold has a type with a name; the other layers are timed."""
    found = _timed(
        _graph(
            tmp_path,
            helper.make_node("Exp", ["x"], ["e"]),
            helper.make_node("SequenceConstruct", ["x", "e"], ["q"]),
            helper.make_node("ConcatFromSequence", ["q"], ["j"], axis=0),
            helper.make_node("Cast", ["j"], ["small"], to=TensorProto.FLOAT8E4M3FN),
            helper.make_node("Cast", ["small"], ["y"], to=FLOAT),
        )
    )
    assert _reasons(found) == {
        "One of its tensors is of type seq(tensor(float)).",
        "One of its tensors is of type float8_e4m3fn, which ONNX Runtime takes from no array.",
    }
    assert len(found.bricks) == 1


def test_a_custom_operator_and_a_newer_opset_are_refused_as_the_server_does(tmp_path: Path) -> None:
    """The sentence says what ONNX Runtime lacks, and what to do."""
    custom = helper.make_node("Magic", ["x"], ["y"], domain="acme")
    with pytest.raises(ModelRefusedError, match="custom operator of acme"):
        describe(_graph(tmp_path, custom), GraphSettings())
    newer = _graph(tmp_path, helper.make_node("Relu", ["x"], ["y"]), opset=99)
    with pytest.raises(ModelRefusedError, match="export the model for opset"):
        describe(newer, GraphSettings())


def test_an_axis_without_elements_is_not_open(tmp_path: Path) -> None:
    """An empty tensor has a shape: its layer is found, and no shape is requested."""
    empty = helper.make_tensor_value_info("x", FLOAT, [1, 0])
    graph = _graph(tmp_path, helper.make_node("Relu", ["x"], ["y"]), given=[empty])
    del graph.model.graph.output[0].type.tensor_type.shape.dim[:]
    found = describe(graph, GraphSettings())
    assert [each.operator for each in found.layers.values()] == ["Relu"]


def test_a_model_that_crashes_the_engine_costs_no_other_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next attempt leaves it out with the reason, and describes those after it."""
    paths = []
    for name in ("crashing", "good"):
        (tmp_path / name).mkdir()
        paths.append(str(_graph(tmp_path / name, helper.make_node("Neg", ["x"], ["y"])).path))
    options = _parser().parse_args(["describe", *paths])
    opened: list[str] = []
    crashed = {paths[0]: "It ended the engine's process (SIGSEGV)."}
    options.action(options, Attempt(crashed, opened.append))
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each.get("event") for each in events] == ["refused", "described", None]
    assert events[0]["reason"].endswith("cannot be found. It ended the engine's process (SIGSEGV).")
    assert [each["operator"] for each in events[2]["layers"].values()] == ["Neg"]
    assert opened == [*paths, ""]


def test_a_model_of_strings_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """No random input stands for text."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.STRING, [1, 4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "net", tensors[:1], tensors[1:]
    )
    path = tmp_path / "net.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    with pytest.raises(ModelRefusedError, match="One of its tensors is of type STRING"):
        describe(read_graph(path, max_bytes=1_000_000), GraphSettings())


def test_a_full_disk_is_no_fault_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimised graph does not fit on it: the sentence names the folder and what to do."""
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    graph = _graph(tmp_path, helper.make_node("MatMul", ["x", "w"], ["y"]), weights=[weights])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr("inferometer_serving.layers.optimised_graph.free_bytes", lambda: 100)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(ModelRefusedError) as refused:
            describe(graph, GraphSettings())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "model.onnx cannot be written. The disk of the temporary folder" in str(refused.value)
    assert "name another folder in TMPDIR" in str(refused.value)
