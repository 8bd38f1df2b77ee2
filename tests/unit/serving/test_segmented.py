"""Segments, their plans and their kernels' source, without a GPU."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.gpu import reductions
from inferometer_serving.gpu.device import GpuDevice, GpuUnavailableError
from inferometer_serving.gpu.reductions import layer_segments, segments_of
from inferometer_serving.gpu.segmented import (
    KernelPlan,
    Operation,
    SegmentedKernel,
    Segments,
    SegmentsRefusedError,
    kernel_names,
    kernel_source,
    segmented_kernel,
)
from inferometer_serving.gpu.segmented_tuning import (
    LENGTHS,
    candidates,
    main,
    plan_for,
    table_of,
)

_GPU = GpuDevice(0, "a GPU", (7, 5), 1, 1, 1, None)


def test_bytes_are_the_input_once_and_the_output_once() -> None:
    """A sum writes a float32 for each segment, a scan one for each element."""
    assert Segments("Sum", "float16", 64, 10).moved_bytes == 2 * 640 + 4 * 10
    assert Segments("Scan", "bfloat16", 64, 10).moved_bytes == 2 * 640 + 4 * 640


@pytest.mark.parametrize(("length", "count"), [(0, 1), (1, 0), ((1 << 31) + 1, 1)])
def test_segments_that_hold_nothing_or_too_much_are_refused(length: int, count: int) -> None:
    """Kernels count within a segment in 32 bits."""
    with pytest.raises(SegmentsRefusedError, match="at least 1"):
        Segments("Sum", "float16", length, count)


@pytest.mark.parametrize(
    ("plan", "segments", "reason"),
    [
        (KernelPlan("Tile"), Segments("Sum", "float16", 16, 1), "no algorithm Tile"),
        (KernelPlan("Tile"), Segments("Scan", "float16", 48, 1), "do not fill tiles"),
        (KernelPlan("Warp", coarsening=2), Segments("Scan", "float16", 256, 1), "by depth alone"),
        (KernelPlan("Block", warps=17), Segments("Sum", "float16", 256, 1), "1 to 16 warps"),
        (KernelPlan("Quad", depth=0), Segments("Sum", "float16", 256, 1), "at least once"),
    ],
)
def test_a_plan_that_no_kernel_has_is_refused_with_the_reason(
    plan: KernelPlan, segments: Segments, reason: str
) -> None:
    """Before anything is compiled."""
    with pytest.raises(SegmentsRefusedError, match=reason):
        kernel_source(segments, plan)


@pytest.mark.parametrize("operation", ["Sum", "Scan"])
@pytest.mark.parametrize("length", [1, 7, 16, 48, 255, 256, 1000, 5000, 1 << 22, 1 << 25])
def test_every_length_has_a_plan_that_can_be_used(operation: Operation, length: int) -> None:
    """Also on a GPU that was never measured, and where the table's plan does not fit."""
    segments = Segments(operation, "float16", length, 3)
    for capability in ((9, 0), (8, 6)):
        plan = plan_for(segments, capability)
        assert not plan.refusal(segments)
        assert plan == plan_for(segments, (9, 0))
        source, options = kernel_source(segments, plan)
        assert f"--define-macro=LENGTH={length}ull" in options
        assert all(f" {name}(" in source for name in kernel_names(segments, plan))


@pytest.mark.parametrize("operation", ["Sum", "Scan"])
def test_tuning_tries_the_plan_that_was_the_fastest_before(operation: Operation) -> None:
    """So that tuning can be repeated."""
    for length in LENGTHS:
        plan = plan_for(Segments(operation, "float16", length, 3), (9, 0))
        assert plan in list(candidates(operation, length))


def test_the_table_has_the_fastest_plan_and_its_rate() -> None:
    """The first of each length."""
    found = table_of(_GPU, {("Sum", 16): [(1e-3, KernelPlan("Quad")), (2e-3, KernelPlan("Warp"))]})
    assert found["plans"]["Sum"]["16"]["algorithm"] == "Quad"
    assert found["bytesPerSecond"]["Sum"]["16"] == 1000 * ((1 << 30) + 4 * (1 << 25))


def test_a_gpu_without_these_products_is_named() -> None:
    """Before its compiler refuses the instruction."""
    segments = Segments("Sum", "float16", 16, 1)
    with (
        pytest.raises(GpuUnavailableError, match=r"compute capability 7\.5"),
        segmented_kernel(_GPU, segments, KernelPlan("Quad")),
    ):
        pass


@pytest.mark.parametrize(
    ("operator", "shape", "axes", "length", "count"),
    [
        ("ReduceMean", (8, 128, 768), (-1,), 768, 1024),
        ("ReduceSum", (8, 64, 7, 7), (2, 3), 49, 512),
        ("ReduceSum", (4, 5), (0, 1), 20, 1),
        ("ReduceMean", (4, 5, 1), (1,), 5, 4),
        ("CumSum", (6, 50), (1,), 50, 6),
    ],
)
def test_innermost_axes_are_segments(
    operator: str, shape: tuple[int, ...], axes: tuple[int, ...], length: int, count: int
) -> None:
    """An axis of 1 after them changes nothing."""
    found = segments_of(operator, "FLOAT16", shape, axes)
    assert (found.length, found.count) == (length, count)
    assert found.operation == ("Scan" if operator == "CumSum" else "Sum")


@pytest.mark.parametrize(
    ("operator", "datatype", "shape", "axes", "reason"),
    [
        ("ReduceSum", "FLOAT16", (4, 5), (0,), "not the innermost"),
        ("ReduceSum", "FLOAT", (4, 5), (1,), "the input is FLOAT"),
        ("ReduceMax", "FLOAT16", (4, 5), (1,), "no sum"),
        ("ReduceSum", "FLOAT16", (4, 5), (2,), "rank 2"),
        ("ReduceSum", "FLOAT16", (0, 5), (1,), "nothing to sum"),
        ("CumSum", "FLOAT16", (4, 5), (0, 1), "one axis"),
    ],
)
def test_a_reduction_that_is_none_of_segments_is_refused_with_the_reason(
    operator: str, datatype: str, shape: tuple[int, ...], axes: tuple[int, ...], reason: str
) -> None:
    """No time is better than that of another computation."""
    with pytest.raises(SegmentsRefusedError, match=reason):
        segments_of(operator, datatype, shape, axes)


def _layer(operator: str, attributes: list[dict[str, object]], *more: LayerTensor) -> Layer:
    source = LayerTensor(kind="Activation", datatype="FLOAT16", shape=[2, 3, 32])
    return Layer(operator=operator, version=18, attributes=attributes, inputs=[source, *more])


def _integers(values: list[int] | None) -> LayerTensor:
    return LayerTensor(kind="Weight", datatype="INT64", shape=[1], values=values)


def test_axes_of_a_layer_are_an_attribute_or_an_input() -> None:
    """By the version of the operator; none are all."""
    attribute = _layer("ReduceMean", [{"name": "axes", "ints": ["-1"]}])
    assert layer_segments(attribute).length == 32
    assert layer_segments(_layer("ReduceSum", [], _integers([1, 2]))).length == 96
    assert layer_segments(_layer("ReduceSum", [])).count == 1
    assert layer_segments(_layer("CumSum", [], _integers([2]))).operation == "Scan"


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (_layer("ReduceSum", [], _integers(None)), "only when the model runs"),
        (_layer("ReduceSum", [{"name": "noop_with_empty_axes", "i": "1"}]), "No axis"),
        (_layer("CumSum", [{"name": "reverse", "i": "1"}], _integers([2])), "forwards"),
        (_layer("CumSum", [{"name": "exclusive", "i": "1"}], _integers([2])), "inclusively"),
        (Layer(operator="ReduceSum", version=18), "no input"),
    ],
)
def test_a_layer_that_the_kernels_do_not_compute_is_refused(layer: Layer, reason: str) -> None:
    """The reason names what differs."""
    with pytest.raises(SegmentsRefusedError, match=reason):
        layer_segments(layer)


def test_a_layer_has_its_own_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean is a sum that its kernel scales."""
    seen: list[object] = []

    @contextmanager
    def kernel(_: GpuDevice, segments: Segments, plan: KernelPlan) -> Iterator[SegmentedKernel]:
        seen.append((segments, plan))
        yield SegmentedKernel(segments, plan, {})

    memory = iter([(0x10, 2 * 192), (0x20, 4 * 6)])

    @contextmanager
    def allocated(size: int) -> Iterator[int]:
        address, expected = next(memory)
        assert size == expected
        yield address

    for name in ("random_values", "device_memory"):
        monkeypatch.setattr(reductions, name, allocated)
    monkeypatch.setattr(reductions, "stream", lambda: nullcontext("a stream"))
    monkeypatch.setattr(reductions, "segmented_kernel", kernel)
    layer = _layer("ReduceMean", [{"name": "axes", "ints": ["-1"]}])
    with ExitStack() as resources:
        opened = reductions.open_reduction(_GPU, layer, resources)
    segments = Segments("Sum", "float16", 32, 6)
    assert seen == [(segments, plan_for(segments, (7, 5)))]
    assert isinstance(opened.launch, partial)
    assert opened.launch.args == (0x10, 0x20, "a stream", 1 / 32)


def test_without_a_gpu_the_tuning_says_so_and_leaves_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with 2."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    file = tmp_path / "plans.json"
    file.write_text("[]")
    assert main(file) == 2
    expected = "The kernels cannot be tuned: cuda-bindings is not installed.\n"
    assert capsys.readouterr().err == expected
    assert file.read_text() == "[]"
