"""`inferometer profile`, `bound` and `advise` with real servers and both engines."""

import csv
import json
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median

import onnx
import pytest
from onnx import TensorProto, helper

from inferometer_api.results.reading import read_result
from inferometer_serving.profile.event_cost import event_cost
from support.inferometer_process import started
from support.requirements import cannot_run

MODEL = "zoo://classification/squeezenet1_1"
FEW = ("--set", "spec.validity.minQueries=20", "--set", "spec.telemetry.power=Disabled")


@pytest.fixture(autouse=True)
def _openvino() -> None:
    """Skip where OpenVINO is not installed."""
    if find_spec("openvino") is None:
        cannot_run("OpenVINO, of the extra `openvino`, is not installed.")


@pytest.mark.parametrize("runtime", ["OnnxRuntime", "OpenVino"])
def test_a_profile_has_every_layer(tmp_path: Path, runtime: str) -> None:
    """Each batch size has layers with durations; only OpenVINO names kernels, the other says so."""
    with started(
        tmp_path,
        *("profile", MODEL, "--runtime", runtime, "--batch-sizes", "1,2", "--seconds", "1"),
        *("--iterations", "10", "--csv", "analyses", "--output", "out", *FEW),
        *("--perfetto", "trace.json"),
    ) as process:
        ended = process.ended(within_seconds=600)
    assert ended.code in {0, 3}, ended.stderr  # the machine may be busy
    document = read_result((tmp_path / "out" / "result.json").read_bytes(), source="r").document
    (scenario,) = document.scenarios
    assert scenario.kind == "profile"
    for step, size in zip(scenario.steps, (1, 2), strict=True):
        profile = step.profile
        assert step.batch_size == size
        assert profile is not None
        assert len(profile.model_nanoseconds) == len(profile.profiled_nanoseconds) == 10
        assert profile.opening_iterations == [2] * 5
        assert sum("Conv" in layer.operator for layer in profile.layers) == 26
        assert all(layer.shape[0] == size for layer in profile.layers if layer.shape)
        total = sum(max(layer.durations_nanoseconds) for layer in profile.layers)
        assert total > 0
        has_kernels = runtime == "OpenVino"
        assert ("Kernel" in profile.levels) == has_kernels
        assert ("Kernel" in profile.unavailable) != has_kernels
        assert all(bool(layer.kernel) == has_kernels for layer in profile.layers)
    layers = tmp_path / "analyses/a2-layer-information-table.csv"
    rows = list(csv.DictReader(layers.read_text().splitlines()))
    assert len(rows) == sum(len(step.profile.layers) for step in scenario.steps if step.profile)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event["name"] for event in events if event["ph"] == "X"]
    assert slices.count("Inference") == 2
    assert len(slices) == len(rows) + 2
    assert list((tmp_path / "analyses").glob("a8-*")) == []  # of a GPU alone
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Layers of batch 2" in page
    assert ("Kernels of batch 2" in page) == (runtime == "OpenVino")


def test_an_event_costs_time_and_more_so_with_more_inputs(
    require_quiet: Callable[[], None],
) -> None:
    """A layer takes longer by its event than without a profiler, with more inputs all the more."""
    found = event_cost()
    require_quiet()
    assert found.event_ns > 0
    assert found.tensor_ns + found.axis_ns > 0


def test_short_layers_sum_to_their_inference(
    tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """300 layers that compute nothing take no longer in the profile than without a profiler."""
    names = [f"t{at}" for at in range(301)]
    nodes = [helper.make_node("Neg", [first], [then]) for first, then in pairwise(names)]
    ends = [
        helper.make_tensor_value_info(each, TensorProto.FLOAT, [1])
        for each in (names[0], names[-1])
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "chain.onnx")
    arguments = ("profile", "chain.onnx", "--seconds", "1", "--iterations", "30", "--output", "out")
    disabled = ("--set", "spec.server.onnxRuntime.graphOptimization=Disabled")
    with started(tmp_path, *arguments, *disabled, *FEW) as process:
        ended = process.ended(within_seconds=600)
    assert ended.code in {0, 3}, ended.stderr
    document = read_result((tmp_path / "out" / "result.json").read_bytes(), source="r").document
    profile = document.scenarios[0].steps[0].profile
    assert profile is not None
    assert len(profile.layers) == 300
    total = sum(median(layer.durations_nanoseconds) for layer in profile.layers)
    (note,) = (each for each in profile.notes if "within each layer" in each)
    assert "for each input and output" in note
    assert "This is taken off" in note
    require_quiet()
    assert total < 2 * median(profile.model_nanoseconds)


def test_a_bound_is_filled_once(tmp_path: Path) -> None:
    """--fill times every layer on both engines; the next bound finds them in the database."""
    common = ("bound", MODEL, "--rounds", "3", "--database", "layers.db", "--json")
    documents = []
    for arguments in (common, (*common, "--fill"), common):
        with started(tmp_path, *arguments) as process:
            ended = process.ended(within_seconds=600)
        assert ended.code == 0, ended.stderr
        documents.append(json.loads(ended.stdout))
    before, filled, after = documents
    assert before["coverage"] == 0
    assert len(before["missing"]) == before["layers"]
    assert filled["coverage"] == after["coverage"] == 1
    assert filled["missing"] == after["missing"] == []
    assert filled["failures"] == []
    timed = (*after["layersByEngine"].values(), *after["layersWithoutKernel"].values())
    assert sum(timed) == after["layers"]
    assert after["sequentialNanoseconds"] == filled["sequentialNanoseconds"]
    assert 0 < after["criticalPathNanoseconds"] <= after["sequentialNanoseconds"]
    assert after["rooflineNanoseconds"] > 0
    assert set(after["measured"]) == {"onnxruntime:FP32:1", "openvino:FP32:1"}


def test_scalars_are_timed_on_both_engines(tmp_path: Path) -> None:
    """A layer that reads a scalar runs alone on OpenVINO as well, which writes to scalars."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", values[:1], values[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "scalar.onnx")
    arguments = ("bound", "scalar.onnx", "--fill", "--rounds", "3", "--database", "layers.db")
    with started(tmp_path, *arguments, "--json") as process:
        ended = process.ended(within_seconds=600)
    assert ended.code == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["failures"] == []
    assert document["coverage"] == 1


def test_bricks_are_exported_and_timed_once(tmp_path: Path) -> None:
    """An exported file is timed like its model; what is known is printed and not timed again."""
    documents = []
    for arguments in (
        ("generate", MODEL),
        ("export", MODEL, "--output", "suite.json"),
        ("run", "suite.json", "--rounds", "3", "--database", "layers.db"),
        ("run", MODEL, "--database", "layers.db"),
        ("coverage", MODEL, "--database", "layers.db"),
    ):
        with started(tmp_path, "bricks", *arguments, "--json") as process:
            ended = process.ended(within_seconds=600)
        assert ended.code == 0, ended.stderr
        documents.append(json.loads(ended.stdout))
    generated, exported, timed, known, (covered,) = documents
    assert exported == {"file": "suite.json", "bricks": generated["unique"]}
    assert len(timed["bricks"]) == len(known["bricks"]) == generated["unique"]
    assert all(each["isNew"] for each in timed["bricks"].values())
    assert not any(each["isNew"] for each in known["bricks"].values())
    assert covered["layersKnown"] == covered["layers"]
    assert "squeezenet" not in (tmp_path / "suite.json").read_text()


def test_bricks_that_a_prediction_does_not_need_are_interpolated(tmp_path: Path) -> None:
    """After a sibling fewer bricks are timed, and every layer has a time, known or interpolated."""
    sibling = "zoo://classification/squeezenet1_0"
    common = ("--rounds", "3", "--database", "layers.db", "--json")
    documents = []
    for arguments in (
        ("run", sibling, *common),
        ("run", MODEL, "--tolerance", "10", "--reference", *common),
        ("predict", MODEL, "--database", "layers.db", "--json"),
    ):
        with started(tmp_path, "bricks", *arguments) as process:
            ended = process.ended(within_seconds=600)
        assert ended.code == 0, ended.stderr
        documents.append(json.loads(ended.stdout))
    whole, added, (predicted,) = documents
    (model,) = added["models"]
    needed = set(model["bricks"])
    new = {key for key, each in added["bricks"].items() if each["isNew"]}
    assert new < needed - set(whole["bricks"])
    assert model["layersKnown"] + model["layersInterpolated"] == model["layers"]
    assert model["layersInterpolated"] > 0
    assert model["ratio"] is not None
    assert predicted["uncertainty"] > 0
    assert predicted["missing"] == []


def test_advice_is_tried(tmp_path: Path) -> None:
    """Each piece of advice has a prediction; with --try each applied one an achieved gain."""
    with started(
        tmp_path,
        *("advise", MODEL, "--try", "--rounds", "3", "--database", "layers.db", "--json"),
    ) as process:
        ended = process.ended(within_seconds=600)
    assert ended.code == 0, ended.stderr
    advice = json.loads(ended.stdout)["advice"]
    assert {"Q1"} <= {each["question"] for each in advice}
    for each in advice:
        gain = each["predictedGain"]
        assert gain["value"] != 0
        assert gain["low"] <= gain["value"] <= gain["high"]
        assert not each["whyNoInterval"]
        assert (each["achievedGain"] is None) == bool(each["whyNotApplied"])
        is_small = "less than 3 %" in (each["whyNotApplied"] or "")
        assert bool(each["settings"]) == (is_small or not each["whyNotApplied"])
