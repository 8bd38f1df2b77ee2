"""The layers of a model are found in the graph that ONNX Runtime runs, and can be run alone."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferometer_analysis.bricks.split import compose_suite
from inferometer_api.layers.graph import LayerGraph
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.layers.optimised import optimise
from inferometer_serving.layers.reading import read_layers
from inferometer_serving.layers.runnable import open_brick
from inferometer_serving.layers.timing import TimingOptions, time_bricks

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


def _layers(path: Path, batch_size: int = 1) -> LayerGraph:
    graph = read_graph(path, max_bytes=1 << 30)
    return read_layers(
        graph, optimise(graph, batch_size=batch_size, threads=1), batch_size=batch_size
    )


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


def test_weights_do_not_matter_and_shapes_do(tmp_path: Path, net: Path) -> None:
    """Another seed gives the same layers, other channels or another batch size give others."""
    found = set(_layers(net).layers)
    assert set(_layers(_write(tmp_path / "seed.onnx", seed=1)).layers) == found
    wider = _layers(_write(tmp_path / "wide.onnx", channels=16))
    assert "Conv" not in {wider.layers[key].operator for key in found & set(wider.layers)}
    assert "Conv" not in {
        each.operator for key, each in _layers(net, batch_size=2).layers.items() if key in found
    }


@pytest.mark.parametrize("granularity", [1, 3])
def test_every_brick_runs_alone(net: Path, granularity: int) -> None:
    """A brick has all that ONNX Runtime needs to run it."""
    suite = compose_suite([_layers(net)], granularity)
    for brick in suite.bricks.values():
        open_brick(suite, brick, threads=1).run()


def test_a_brick_computes_what_its_layer_computes(net: Path) -> None:
    """The shapes of its outputs are those that the layer has in the model."""
    graph = _layers(net)
    suite = compose_suite([graph], 1)
    for key, brick in suite.bricks.items():
        runnable = open_brick(suite, brick, threads=1)
        runnable.run()
        shapes = [list(each.shape()) for each in runnable.binding.get_outputs()]
        assert shapes == [each.shape for each in graph.layers[key].outputs]


def test_an_open_axis_is_refused_with_advice(tmp_path: Path) -> None:
    """Only the batch axis may be open, since the work of a layer depends on its shapes."""
    path = _write(tmp_path / "open.onnx", open_width=True)
    with pytest.raises(ModelRefusedError, match=r"Axis 3 of the input 'x' .* fixed shape"):
        _layers(path)


def test_timing_gives_a_time_to_every_brick_and_names_those_that_fail(net: Path) -> None:
    """A brick that ONNX Runtime refuses is named with its reason; the others are timed."""
    suite = compose_suite([_layers(net)], 1)
    broken, *_ = suite.bricks
    layer = suite.layers[broken].model_copy(update={"operator": "NoSuchOperator"})
    suite = suite.model_copy(update={"layers": suite.layers | {broken: layer}})
    done: list[tuple[int, int]] = []
    graph = read_graph(net, max_bytes=1 << 30)
    found = time_bricks(
        suite, [graph], TimingOptions(1, 1, 3, "a CPU"), lambda *each: done.append(each)
    )
    assert set(found.bricks) == set(suite.bricks) - {broken}
    assert "NoSuchOperator" in found.failed[broken]
    assert found.models["net"].rounds >= 10
    assert all(each.nanoseconds > 0 and each.rounds == 3 for each in found.bricks.values())
    assert done[-1][1] == len(suite.bricks) + 1
