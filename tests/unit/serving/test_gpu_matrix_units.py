"""Sums on matrix units as an engine of a GPU, without one."""

from contextlib import ExitStack
from unittest.mock import MagicMock

import pytest

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.gpu.activities import ActivityRecorder, GpuActivity
from inferometer_serving.gpu.device import GpuDevice
from inferometer_serving.gpu.reductions import OpenedReduction
from inferometer_serving.gpu.segmented import KernelPlan
from inferometer_serving.layers.gpu import algorithms as algorithms_module
from inferometer_serving.layers.gpu import measure as measure_module
from inferometer_serving.layers.gpu.measure import GpuMeasureOptions, open_matrix_units
from inferometer_serving.layers.gpu.problems import has_kernels
from inferometer_serving.layers.optimised_graph import GraphSettings
from support.recorded_kernels import execution


def _mean(shape: list[int], axis: int) -> Layer:
    source, target = (
        LayerTensor(kind="Activation", datatype="FLOAT16", shape=each) for each in (shape, [])
    )
    attribute = {"name": "axes", "ints": [str(axis)]}
    return Layer(
        operator="ReduceMean",
        version=13,
        attributes=[attribute],
        inputs=[source],
        outputs=[target],
    )


def test_sums_over_the_innermost_axes_have_kernels_on_matrix_units() -> None:
    """Others have none, and no other library has any for sums."""
    assert has_kernels("matrix-units", _mean([2, 3, 64], 2))
    assert not has_kernels("matrix-units", _mean([2, 3, 64], 1))
    assert not has_kernels("cublas", _mean([2, 3, 64], 2))


def test_a_sum_on_matrix_units_is_an_algorithm_with_the_name_of_its_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timing joins bounds of every precision, as that of other layers without products."""
    monkeypatch.setattr(algorithms_module, "synchronize", lambda: None)
    recorder = ActivityRecorder(MagicMock())
    ran: list[GpuActivity] = []

    def taken() -> list[GpuActivity]:
        found = list(ran)
        ran.clear()
        return found

    monkeypatch.setattr(recorder, "take", taken)
    layer = _mean([2, 3, 64], 2)

    def opened(_: object, of: Layer, __: ExitStack) -> OpenedReduction:
        assert of is layer
        return OpenedReduction(
            KernelPlan("Quad"), None, lambda: ran.append(execution("reduce_segments", 100, 107))
        )

    monkeypatch.setattr(measure_module, "open_reduction", opened)
    suite = BrickSuite(
        engine="ONNX Runtime",
        engine_version="1",
        granularity=1,
        layers={"key": layer},
        bricks={"key": Brick(layers=["key"])},
    )
    gpu = GpuDevice(0, "a GPU", (9, 0), 1, 1, 1, None)
    options = GpuMeasureOptions(GraphSettings())
    kernels = open_matrix_units(gpu, suite, "key", options, recorder)
    kernels.run()
    found = kernels.timing("key", 1)
    assert (found.engine, found.precision, found.algorithm) == ("matrix-units", "", "Quad")
    assert found.nanoseconds == 7.0
