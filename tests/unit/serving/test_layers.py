"""The layers of a model are found in the graph that ONNX Runtime runs, and can be run alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferometer_api.layers.graph import LayerGraph, Layout
from inferometer_api.layers.split import compose_suite
from inferometer_api.layers.variants import ModelVariant
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.layers.brick_model import brick_model, open_brick
from inferometer_serving.layers.kernels import OnnxKernels
from inferometer_serving.layers.measure import MeasureOptions, measure
from inferometer_serving.layers.optimised_graph import (
    GraphSettings,
    inferred_fractions,
    optimise,
    session_options,
)
from inferometer_serving.layers.reading import describe
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.node.machine import CpuTimes
from inferometer_serving.options import EngineName

Arrays = Mapping[str, "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]


def _write(path: Path, *, seed: int = 0, channels: int = 8, open_width: bool = False) -> Path:
    """Write a net: two equal convolutions with Relu, pooling, a reshape and a product."""
    generator = np.random.default_rng(seed)
    weights = {
        "w1": generator.normal(size=(channels, channels, 3, 3)),
        "w2": generator.normal(size=(channels, channels, 3, 3)),
        "w3": generator.normal(size=(channels, 5)),
    }
    initializers = [
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()
    ]
    initializers.append(numpy_helper.from_array(np.array([-1, channels], np.int64), "shape"))
    pads = [1, 1, 1, 1]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=pads),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=pads),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Reshape", ["e", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["y"]),
    ]
    axes: list[int | str | None] = ["batch", channels, 6, "width" if open_width else 6]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, axes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, path)
    return path


def _layers(path: Path, batch_size: int = 1, layout: Layout = "Blocked") -> LayerGraph:
    settings = GraphSettings(batch_size, layout=layout, shapes={"x": [1, 8, 6, 6]})
    return describe(read_graph(path, max_bytes=1 << 30), settings)


@pytest.fixture(name="net")
def _net(tmp_path: Path) -> Path:
    return _write(tmp_path / "net.onnx")


def test_layers_are_those_that_the_engine_runs(net: Path) -> None:
    """ONNX Runtime joins Conv and Relu, and the two equal ones are one layer."""
    graph = _layers(net)
    operators = [graph.layers[use.layer].operator for use in graph.uses]
    assert operators.count("Conv") == 2
    assert "Relu" not in operators
    convolutions = {use.layer for use in graph.uses if graph.layers[use.layer].operator == "Conv"}
    assert len(convolutions) == 1


def test_shapes_that_are_inferred_are_those_of_an_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph of 100,000 nodes takes a minute if each of its tensors is an output of a session."""
    nodes = [
        helper.make_node("Sin", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("Shape", ["b"], ["sizes"]),
        helper.make_node("ArgMax", ["b"], ["places"], axis=0),
        helper.make_node("NonZero", ["b"], ["unknown"]),
        helper.make_node("Cast", ["unknown"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "found"]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]),
            helper.make_tensor_value_info("places", TensorProto.INT64, [1, "batch"]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    read = read_graph(tmp_path / "net.onnx", max_bytes=1 << 20)
    found = optimise(read, GraphSettings(batch_size=3))
    assert {name: each.shape for name, each in inferred_fractions(found.model).items()} == {
        "a": [3, 5],
        "b": [5, 3],
    }
    monkeypatch.setattr(
        "inferometer_serving.layers.optimised_graph.inferred_fractions", lambda _: {}
    )
    assert found.tensors == optimise(read, GraphSettings(batch_size=3)).tensors


def test_weights_do_not_matter_and_shapes_do(tmp_path: Path, net: Path) -> None:
    """Another seed gives the same layers, other channels or another batch size give others."""
    found = set(_layers(net).layers)
    assert set(_layers(_write(tmp_path / "seed.onnx", seed=1)).layers) == found
    wider = _layers(_write(tmp_path / "wide.onnx", channels=16))
    assert "Conv" not in {wider.layers[key].operator for key in found & set(wider.layers)}
    assert "Conv" not in {
        each.operator for key, each in _layers(net, batch_size=2).layers.items() if key in found
    }


def _masked(path: Path, masked: float) -> LayerGraph:
    """Return the layers of a net that masks every other element before a Softmax."""
    mask = np.where(np.arange(64) % 2, masked, 0).astype(np.float32)
    weights = {"mask": mask, "w": np.ones((64, 5), np.float32)}
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, path)
    return describe(read_graph(path, max_bytes=1 << 20), GraphSettings())


def test_a_layer_meets_denormal_numbers_alone_as_in_its_model(tmp_path: Path) -> None:
    """A CPU computes them slowly: the brick gets some, and its key differs from that without.

    A mask of -85 leaves e^-85 / 32, which is denormal, of every other weight of an attention; one
    of -1000 leaves nothing. Kernels for AVX2 leave nothing below e^-87 either.
    """
    masked, zeroed = _masked(tmp_path / "masked.onnx", -85), _masked(tmp_path / "zero.onnx", -1000)
    suite = compose_suite([masked], 1)
    inputs: dict[str, Any] = {}
    for key, brick in suite.bricks.items():
        inputs[masked.layers[key].operator] = brick_model(suite, brick).inputs["n0i0"]
        open_brick(suite, brick, session_options(1)).run()
    smallest = np.finfo(np.float32).tiny
    assert np.mean(inputs["Softmax"] < -80) == pytest.approx(0.5, abs=0.1)
    assert np.mean((inputs["MatMul"] > 0) & (inputs["MatMul"] < smallest)) == pytest.approx(
        0.5, abs=0.1
    )
    assert inputs["Add"].min() >= 0.5
    assert {masked.layers[key].operator for key in set(masked.layers) - set(zeroed.layers)} == {
        "Softmax",
        "MatMul",
    }
    other = _masked(tmp_path / "other.onnx", -86)
    assert set(other.layers) == set(masked.layers)


def test_a_resize_keeps_its_scales(tmp_path: Path) -> None:
    """The shape of its result depends on them: alone it enlarges as in its model."""
    graph = helper.make_graph(
        [
            helper.make_node("Resize", ["x", "", "twice"], ["a"], mode="nearest"),
            helper.make_node("Resize", ["a", "", "thrice"], ["y"], mode="nearest"),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 24, 24])],
        [
            numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), name)
            for name, scale in (("twice", 2), ("thrice", 3))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    layers = describe(read_graph(tmp_path / "net.onnx", max_bytes=1 << 20), GraphSettings())
    suite = compose_suite([layers], 1)
    assert len(suite.bricks) == 2
    for key, brick in suite.bricks.items():
        runnable = open_brick(suite, brick, session_options(1))
        runnable.run()
        (found,) = runnable.binding.copy_outputs_to_cpu()
        assert list(found.shape) == suite.layers[key].outputs[0].shape


@pytest.mark.parametrize("granularity", [1, 3])
def test_every_brick_runs_alone(net: Path, granularity: int) -> None:
    """A brick has all that ONNX Runtime needs to run it."""
    suite = compose_suite([_layers(net)], granularity)
    for brick in suite.bricks.values():
        open_brick(suite, brick, session_options(1)).run()


def test_a_brick_computes_what_its_layer_computes(net: Path) -> None:
    """The shapes of its outputs are those that the layer has in the model."""
    graph = _layers(net)
    suite = compose_suite([graph], 1)
    for key, brick in suite.bricks.items():
        runnable = open_brick(suite, brick, session_options(1))
        runnable.run()
        shapes = [list(each.shape()) for each in runnable.binding.get_outputs()]
        assert shapes == [each.shape for each in graph.layers[key].outputs]


def test_an_open_axis_needs_a_shape(tmp_path: Path) -> None:
    """The work of a layer depends on its shapes: only the batch axis may be open without one."""
    path = _write(tmp_path / "open.onnx", open_width=True)
    graph = read_graph(path, max_bytes=1 << 30)
    with pytest.raises(ModelRefusedError, match=r"Axis 3 of the input 'x' .* --warm-up-shape x="):
        describe(graph, GraphSettings())
    assert set(_layers(path).layers) == set(_layers(_write(tmp_path / "net.onnx")).layers)


def test_timing_gives_a_time_to_every_brick_and_names_those_that_fail(net: Path) -> None:
    """A brick that ONNX Runtime refuses is named with its reason; the others are timed."""
    suite = compose_suite([_layers(net)], 1)
    broken, *_ = suite.bricks
    layer = suite.layers[broken].model_copy(update={"operator": "NoSuchOperator"})
    suite = suite.model_copy(update={"layers": suite.layers | {broken: layer}})
    done: list[tuple[int, int]] = []
    graph = read_graph(net, max_bytes=1 << 30)
    found = measure(suite, [graph], [], MeasureOptions(rounds=3), lambda *each: done.append(each))
    assert set(found.bricks) == set(suite.bricks) - {broken}
    (failure,) = found.failed
    assert (failure.key, failure.engine) == (broken, "onnxruntime")
    assert "NoSuchOperator" in failure.reason
    assert found.models["net"].rounds >= 10
    assert all(each.nanoseconds > 0 and each.rounds == 3 for each in found.bricks.values())
    assert found.run_nanoseconds > 0
    assert found.reference_nanoseconds > 0
    assert done[-1][1] == len(suite.bricks) + 4


def test_timings_say_how_much_other_processes_worked_meanwhile(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million busy ticks, nearly three hours, a few bricks took next to none."""
    times = iter([CpuTimes(0, 0, 0), CpuTimes(2_000_000, 1_000_000, 0)])
    monkeypatch.setattr("inferometer_serving.layers.measure.cpu_times", lambda: next(times))
    suite = compose_suite([_layers(net)], 1)
    found = measure(suite, [], [], MeasureOptions(rounds=3), lambda *_: None)
    assert found.other_cpu_share == pytest.approx(0.5, abs=0.01)


def test_kernels_and_variants_are_timed_in_the_same_rounds(net: Path) -> None:
    """Each layer of the plain layout has a time by the engine's profiler, and so has the model."""
    plain = _layers(net, layout="Plain")
    assert all(layer.domain != "com.microsoft.nchwc" for layer in plain.layers.values())
    options = MeasureOptions(rounds=3, engines=(EngineName.ONNX_RUNTIME,))
    variants = [ModelVariant(net), ModelVariant(net, graph_optimization="Basic")]
    found = measure(compose_suite([plain], 1), [], variants, options, lambda *_: None)
    assert {each.key for each in found.kernels} == set(plain.layers)
    assert all((each.spread_nanoseconds or 0) > 0 for each in found.kernels)
    assert 0 < (found.reference_spread or 0) < 10
    assert not found.failed
    assert not found.bricks
    assert {name: len(each.nanoseconds) for name, each in found.variants.items()} == {
        "onnxruntime:Default:1": 3,
        "onnxruntime:Default:1:Basic": 3,
    }
    assert found.variants["onnxruntime:Default:1:Basic"].difference < 1e-3
    assert found.machine.flops_per_second > 0
    assert found.machine.copy_bytes_per_second > 0


def test_a_budget_that_ends_leaves_the_rest_untimed_and_named(net: Path) -> None:
    """What was not reached is no failure, so that a later run times it."""
    graph = _layers(net)
    options = MeasureOptions(rounds=3, budget_seconds=0)
    found = measure(compose_suite([graph], 1), [], [], options, lambda *_: None)
    assert not found.bricks
    assert not found.failed
    assert set(graph.layers) <= set(found.untimed)


def test_a_layer_that_may_run_in_parts_is_timed_both_ways(tmp_path: Path) -> None:
    """The kernel of a fused normalisation is the faster of the whole operator and of its parts."""
    shapes = {"x": [1, 16, 64], "s": [1, 16, 64], "g": [64]}
    node = helper.make_node(
        "SkipLayerNormalization", list(shapes), ["y"], domain="com.microsoft", epsilon=1e-5
    )
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in "xs"]
    weight = numpy_helper.from_array(np.ones(64, np.float32), "g")
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["x"])]
    graph = helper.make_graph([node], "net", values, out, [weight])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "n.onnx")
    described = _layers(tmp_path / "n.onnx", layout="Plain")
    suite = compose_suite([described], 1)
    (brick,) = suite.bricks.values()
    kernels = OnnxKernels(brick_model(suite, brick), EngineSettings(threads=1))
    for _ in range(4):
        kernels.run()
    files = sorted(file.name for file in Path(kernels.folder).iterdir())
    assert [name.partition("_")[0] for name in files] == ["parts", "whole"]
    assert kernels.kernel_ns(3) >= 0
