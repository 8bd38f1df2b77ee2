"""Calibration keeps the activations of a graph in a sane range, however deep it is."""

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from inferometer_models.calibration import Calibration, calibrate
from inferometer_models.light import light
from support.full_graphs import convolutional, graph_of

SAMPLES = np.random.default_rng(3).random((4, 3, 8, 8), dtype=np.float32)
TOKENS = np.random.default_rng(3).random((4, 16, 32), dtype=np.float32)


def _calibrated(full: ModelProto, samples: np.ndarray) -> Calibration:
    return calibrate(light(full, "tiny.onnx.data"), samples)


def test_a_deep_network_neither_overflows_nor_fades() -> None:
    """After 60 convolutions, each followed by a rectifier, the deviation still is about 1."""
    weights: dict[str, np.ndarray] = {}
    nodes: list[NodeProto] = []
    last = "input"
    for layer in range(60):
        channels = 3 if layer == 0 else 8
        weights[f"w{layer}"] = np.full((8, channels, 3, 3), 5, np.float32)
        nodes += [
            helper.make_node("Conv", [last, f"w{layer}"], [f"conv{layer}"], pads=[1] * 4),
            helper.make_node("Relu", [f"conv{layer}"], [f"relu{layer}"]),
        ]
        last = f"relu{layer}"
    nodes.append(helper.make_node("Identity", [last], ["output"]))
    full = graph_of(nodes, weights, ["batch", 3, 8, 8], ["batch", 8, 8, 8])
    found = _calibrated(full, SAMPLES)
    assert found.outliers == {}
    assert len(found.deviations) == 121
    convolutions = [found.deviations[f"conv{layer}"] for layer in range(60)]
    assert convolutions == pytest.approx([1] * 60, rel=0.01)


def test_parameters_and_operations_are_counted() -> None:
    """A convolution of 16 3x3x3 kernels at 64 places and a product of 1024x10, with biases."""
    found = _calibrated(convolutional(), SAMPLES)
    assert found.parameters == 16 * 27 + 16 + 1024 * 10 + 10
    assert found.macs == 64 * 16 * 27 + 1024 * 10
    assert [draw.count for draw in found.draws] == [432, 16, 10240, 10]


def test_statistics_of_a_normalisation_are_those_of_its_input() -> None:
    """Mean and variance fit what reaches the node, so that it normalises, and are no parameters."""
    weights = {name: np.ones(3, np.float32) for name in ("gain", "bias", "mean", "variance")}
    nodes = [
        helper.make_node("BatchNormalization", ["input", *weights], ["normal"]),
        helper.make_node("Relu", ["normal"], ["output"]),
    ]
    full = graph_of(nodes, weights, ["batch", 3, 8, 8], ["batch", 3, 8, 8])
    found = _calibrated(full, 50 + 10 * SAMPLES)
    assert found.deviations["normal"] == pytest.approx(1, rel=0.15)
    assert found.parameters == 6
    assert found.draws[2].centre == pytest.approx(55, rel=0.01)
    assert found.draws[3].centre == pytest.approx((50 + 10 * SAMPLES).var(), rel=0.01)


@pytest.mark.parametrize("factor", [0.01, 1, 100])
def test_attention_is_neither_even_nor_a_single_token(factor: float) -> None:
    """Queries and keys are scaled so that the logits of a row have the deviation 2."""
    weights: dict[str, np.ndarray | np.float32] = {"factor": np.float32(factor)}
    weights |= {name: np.zeros((32, 32), np.float32) for name in ("query", "key", "value")}
    nodes = [
        helper.make_node("MatMul", ["input", "query"], ["q"]),
        helper.make_node("MatMul", ["input", "key"], ["k"]),
        helper.make_node("MatMul", ["input", "value"], ["v"]),
        helper.make_node("Transpose", ["k"], ["k_t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k_t"], ["products"]),
        helper.make_node("Mul", ["products", "factor"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["attention"]),
        helper.make_node("MatMul", ["attention", "v"], ["output"]),
    ]
    full = graph_of(nodes, weights, ["batch", 16, 32], ["batch", 16, 32])
    found = _calibrated(full, TOKENS)
    assert 1.7 < found.deviations["logits"] < 3
    assert 0.08 < found.deviations["attention"] < 0.2  # even: 0; one token: 0.24


def test_what_cannot_be_kept_in_range_is_named() -> None:
    """A tensor beyond the limits, or not finite, is an outlier of its name."""
    nodes = [
        helper.make_node("Mul", ["input", "thousand"], ["large"]),
        helper.make_node("Sub", ["input", "input"], ["nothing"]),
        helper.make_node("Div", ["input", "nothing"], ["infinite"]),
        helper.make_node("Add", ["large", "infinite"], ["output"]),
    ]
    weights = {"thousand": np.float32(1000)}
    full = graph_of(nodes, weights, ["batch", 3, 8, 8], ["batch", 3, 8, 8])
    with np.errstate(invalid="ignore"):
        found = _calibrated(full, SAMPLES)
    assert set(found.outliers) == {"large", "nothing", "infinite", "output"}
    assert np.isnan(found.outliers["infinite"])


def test_the_same_graph_gets_the_same_weights() -> None:
    """Calibrating again changes nothing."""
    assert _calibrated(convolutional(), SAMPLES) == _calibrated(convolutional(), SAMPLES)


def test_what_the_shape_alone_decides_is_no_activation() -> None:
    """Positions that a graph computes from the shape of its input are not judged."""
    nodes = [
        helper.make_node("Shape", ["input"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["sizes"], ["largest"], keepdims=0),
        helper.make_node("Div", ["input", "largest"], ["output"]),
    ]
    full = graph_of(nodes, {}, ["batch", 3, 8, 8], ["batch", 3, 8, 8])
    assert set(_calibrated(full, SAMPLES).deviations) == {"output"}
