"""Sums and prefix sums of segments on matrix units, on a real GPU, against the NumPy oracle."""

import math
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest
from numpy.typing import NDArray

from inferometer_analysis import matrix_units as oracle
from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.gpu.device import GpuDevice, device_memory, read, stream, write
from inferometer_serving.gpu.reductions import layer_segments, open_reduction
from inferometer_serving.gpu.segmented import (
    KernelPlan,
    Operand,
    Operation,
    Segments,
    segmented_kernel,
)
from inferometer_serving.gpu.segmented_tuning import candidates, plan_for, seconds_per_launch

_GUARD = 64
"""Elements behind the output that must stay as they are."""
_POISON = np.float32(-12345.5)
_LARGEST_ERROR = 2.0**-20
"""Of a sum, by the sum of the magnitudes: what float32 sums leave that matrix units cut off."""
_LENGTHS = (1, 5, 16, 17, 24, 31, 32, 48, 64, 100, 128, 256, 260, 272, 512, 1000, 1024, 4096, 5001)
_LONG = (1 << 14, 40_000, (1 << 16) + 4, (1 << 17) + 3, 1 << 18)
Floats = NDArray[np.float32]


def _bits(values: Floats, operand: Operand) -> NDArray[np.uint16]:
    """Return values, which the operand holds exactly, as memory has them."""
    if operand == "float16":
        return values.astype(np.float16).view(np.uint16)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def _computed(
    gpu: GpuDevice, segments: Segments, values: Floats, plan: KernelPlan | None = None
) -> Floats:
    """Return what the GPU writes over poison; nothing behind it may change."""
    plan = plan or plan_for(segments, gpu.compute_capability)
    found = np.full(segments.outputs + _GUARD, _POISON)
    bits = _bits(values, segments.operand)
    with (
        device_memory(bits.nbytes) as source,
        device_memory(found.nbytes) as target,
        stream() as on,
        segmented_kernel(gpu, segments, plan) as kernel,
    ):
        write(source, bits)
        write(target, found)
        for _ in range(2):  # scratch memory serves each launch anew
            kernel.launch(source, target, on)
        read(target, found)
    assert np.array_equal(found[segments.outputs :], np.full(_GUARD, _POISON))
    return found[: segments.outputs]


def _exact(segments: Segments, values: Floats) -> NDArray[np.float64]:
    rows = values.astype(np.float64).reshape(segments.count, segments.length)
    is_sum = segments.operation == "Sum"
    exact: NDArray[np.float64] = rows.sum(axis=1) if is_sum else rows.cumsum(axis=1).reshape(-1)
    return exact


def _error(segments: Segments, values: Floats, found: Floats) -> float:
    """Return the largest error, by the sum of the magnitudes that went into the figure."""
    size = np.maximum(_exact(segments, np.abs(values)), 1e-30)
    return float((np.abs(found - _exact(segments, values)) / size).max())


def _random(segments: Segments) -> Floats:
    values = np.random.default_rng().normal(0.5, 1, segments.elements).astype(np.float32)
    return oracle.Operands(segments.operand).rounded(values)


def _oracle(segments: Segments, values: Floats) -> Floats:
    """Return the oracle's figures of segments of a multiple of 16."""
    operands = oracle.Operands(segments.operand)
    by_tile, by_row = (
        (oracle.reduce_256n, oracle.reduce_16n)
        if segments.operation == "Sum"
        else (oracle.scan_256n, oracle.scan_16n)
    )
    which = by_row if segments.length % 256 else by_tile
    return which(values, segments.length, operands)


def _oracle_error(segments: Segments) -> float:
    """Return what the oracle may be off by, which adds rows or tiles one after another in float32.

    That is more than six standard deviations of as many independent roundings.
    """
    steps = segments.length // (16 if segments.length % 256 else 256)
    return math.sqrt(steps) * 2.0**-23


@pytest.mark.parametrize("operand", ["float16", "bfloat16"])
@pytest.mark.parametrize("operation", ["Sum", "Scan"])
@pytest.mark.parametrize("length", [*_LENGTHS, *_LONG])
def test_segments_of_any_length_and_odd_count_are_what_float64_and_the_oracle_say(
    gpu: GpuDevice, operation: Operation, operand: Operand, length: int
) -> None:
    """With the tuned plan: fresh random data within rounding, small integers exactly."""
    count = max(3, 20_001 // length) | 1
    segments = Segments(operation, operand, length, count)
    values = _random(segments)
    found = _computed(gpu, segments, values)
    assert _error(segments, values, found) < _LARGEST_ERROR
    if length % 16 == 0:
        bound = (_LARGEST_ERROR + _oracle_error(segments)) * _exact(segments, np.abs(values))
        assert (np.abs(found - _oracle(segments, values)) < bound).all()
    whole = np.random.default_rng().integers(-8, 9, segments.elements).astype(np.float32)
    assert np.array_equal(_computed(gpu, segments, whole), _exact(segments, whole))


@pytest.mark.parametrize("operation", ["Sum", "Scan"])
@pytest.mark.parametrize("length", [16, 48, 256, 1000, 4096, 65_539])
def test_every_plan_that_tuning_may_choose_computes_the_same(
    gpu: GpuDevice, operation: Operation, length: int
) -> None:
    """Small integers, exactly; an odd number of segments that fills no group."""
    segments = Segments(operation, "float16", length, max(3, 9_001 // length) | 1)
    values = np.random.default_rng().integers(-8, 9, segments.elements).astype(np.float32)
    exact = _exact(segments, values)
    wrong = [
        plan
        for plan in candidates(operation, length)
        if not np.array_equal(_computed(gpu, segments, values, plan), exact)
    ]
    assert not wrong


@pytest.mark.parametrize("count", [1, 3, 300])
def test_parts_of_a_long_segment_find_the_sum_of_all_parts_before_them(
    gpu: GpuDevice, count: int
) -> None:
    """More parts than a warp looks back over at once, and more segments than work at a time."""
    segments = Segments("Scan", "float16", (1 << 22) // count // 8 * 8 + 1_304, count)
    values = np.random.default_rng().integers(-2, 3, segments.elements).astype(np.float32)
    for _ in range(3):
        found = _computed(gpu, segments, values, KernelPlan("Block", warps=2, depth=2))
        assert np.array_equal(found, _exact(segments, values))


_AS_ADDED: dict[str, Callable[[Floats], Floats]] = {
    "one infinity": lambda row: _with(row, {5: np.inf}),
    "both infinities": lambda row: _with(row, {5: np.inf, -2: -np.inf}),
    "NaN": lambda row: _with(row, {7: np.nan}),
    "large": lambda row: _with(row, dict.fromkeys(range(len(row)), 65504.0)),
}


def _with(row: Floats, at: dict[int, float]) -> Floats:
    changed = row.copy()
    for index, value in at.items():
        changed[index] = value
    return changed


@pytest.mark.parametrize("change", _AS_ADDED)
@pytest.mark.parametrize("length", [16, 32, 64, 256, 1000, 1024, 8192, 70_000])
def test_sums_of_what_is_not_finite_are_what_an_addition_in_order_gives(
    gpu: GpuDevice, length: int, change: str
) -> None:
    """And they stay within their segment, for every algorithm."""
    segments = Segments("Sum", "float16", length, 35)
    rows = _random(segments).reshape(35, length)
    rows[[0, 8, 17, 34]] = [_AS_ADDED[change](rows[i]) for i in (0, 8, 17, 34)]
    with np.errstate(invalid="ignore"):
        exact = rows.astype(np.float64).sum(axis=1)
    plans = {plan.algorithm: plan for plan in candidates("Sum", length)}
    for plan in plans.values():
        found = _computed(gpu, segments, rows.reshape(-1), plan)
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=0.1)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("length", [16, 32, 64, 256, 1000, 1024, 8192, 70_000])
def test_scans_of_what_is_not_finite_are_nan_at_most_in_the_row_before_it(
    gpu: GpuDevice, length: int, value: float
) -> None:
    """From the value on they are what an addition in order gives; other segments stay right."""
    segments = Segments("Scan", "float16", length, 35)
    rows = _random(segments).reshape(35, length)
    at = length * 2 // 3
    rows[[0, 8, 17, 34], at] = value
    exact = _exact(segments, rows.reshape(-1)).reshape(35, length)
    plans = {plan.algorithm: plan for plan in candidates("Scan", length)}
    for plan in plans.values():
        found = _computed(gpu, segments, rows.reshape(-1), plan).reshape(35, length)
        needed = np.ones(length, bool)
        needed[at - at % 16 : at] = False  # the rest of a row of 16
        np.testing.assert_allclose(found[:, needed], exact[:, needed], rtol=1e-4, atol=0.1)
        others = [i for i in range(35) if i not in (0, 8, 17, 34)]
        np.testing.assert_allclose(found[others], exact[others], rtol=1e-4, atol=0.1)


def test_sums_are_scaled_to_means(gpu: GpuDevice) -> None:
    """By one kernel, and by two."""
    for length in (64, 1 << 20):
        segments = Segments("Sum", "bfloat16", length, 3)
        values = np.random.default_rng().integers(-8, 9, segments.elements).astype(np.float32)
        found = np.zeros(3, np.float32)
        plan = plan_for(segments, gpu.compute_capability)
        with (
            device_memory(2 * segments.elements) as source,
            device_memory(found.nbytes) as target,
            stream() as on,
            segmented_kernel(gpu, segments, plan) as kernel,
        ):
            write(source, _bits(values, "bfloat16"))
            kernel.launch(source, target, on, scale=1 / length)
            read(target, found)
        np.testing.assert_allclose(found, values.reshape(3, length).mean(axis=1), atol=1e-6)


def test_a_layer_takes_the_time_that_its_bytes_need(gpu: GpuDevice) -> None:
    """At least: at ten times the bandwidth of any GPU of today."""
    source = LayerTensor(kind="Activation", datatype="FLOAT16", shape=[1 << 14, 1 << 10])
    axes = {"name": "axes", "ints": ["-1"]}
    layer = Layer(operator="ReduceMean", version=13, attributes=[axes], inputs=[source])
    with ExitStack() as resources:
        opened = open_reduction(gpu, layer, resources)
        seconds = seconds_per_launch(opened.launch, opened.stream)
    assert seconds > layer_segments(layer).moved_bytes / 80e12
