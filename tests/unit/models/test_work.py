"""Parameters and multiplications of graphs whose numbers are known."""

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from inferometer_models.calibration import calibrate
from inferometer_models.light import light


def _model(node: NodeProto, weight: tuple[int, ...], rank: int) -> ModelProto:
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", *[None] * rank])]
    outputs = [helper.make_empty_tensor_value_info("output")]
    weights = [
        numpy_helper.from_array(np.ones(weight, np.float32), "weight"),
        numpy_helper.from_array(np.array([1, 2], np.int64), "integers"),
    ]
    graph = helper.make_graph([node], "g", inputs, outputs, initializer=weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("node", "weight", "sample", "expected"),
    [
        # 6 filters of 4 channels and 3x3, in 2 groups, on an output of 10x10
        (
            helper.make_node("Conv", ["input", "weight"], ["output"], group=2),
            (6, 4, 3, 3),
            (1, 8, 12, 12),
            6 * 10 * 10 * 4 * 9,
        ),
        # each of 8x5x5 numbers meets 4 filters of 2x2
        (
            helper.make_node("ConvTranspose", ["input", "weight"], ["output"]),
            (8, 4, 2, 2),
            (1, 8, 5, 5),
            8 * 5 * 5 * 4 * 4,
        ),
        (helper.make_node("MatMul", ["input", "weight"], ["output"]), (7, 5), (1, 3, 7), 3 * 7 * 5),
        (helper.make_node("Gemm", ["input", "weight"], ["output"]), (30, 20), (1, 30), 30 * 20),
    ],
    ids=["Conv", "ConvTranspose", "MatMul", "Gemm"],
)
def test_work_is_counted_by_the_usual_formulas(
    node: NodeProto, weight: tuple[int, ...], sample: tuple[int, ...], expected: int
) -> None:
    """Convolutions and matrix products count for each sample, however many there are."""
    model = light(_model(node, weight, len(sample) - 1), "tiny.onnx.data")
    for count in (1, 3):
        batch = np.random.default_rng(1).random((count, *sample[1:]), dtype=np.float32)
        found = calibrate(model, batch)
        assert found.macs == expected
        assert found.parameters == np.prod(weight)
