"""Timings of a model's layers and of whole models on a GPU, composed into one document.

Whole models are timed first, by the host's clock and without CUPTI, which slows launches down; then
what runs on the GPU, by CUPTI. Inputs and outputs stay on the GPU: transfers are part of no figure.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from statistics import quantiles
from typing import Any

from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.layers.graph import Layer
from inferometer_api.layers.timings import (
    KernelTiming,
    LayerFailure,
    LayerTimings,
    VariantTiming,
)
from inferometer_api.layers.variants import ModelVariant
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.gpu.activities import ActivityRecorder, record_activities
from inferometer_serving.gpu.device import CudaError, GpuDevice, GpuUnavailableError, open_gpu
from inferometer_serving.gpu.libraries import load_library
from inferometer_serving.gpu.reductions import ENGINE as MATRIX_UNITS
from inferometer_serving.gpu.reductions import open_reduction
from inferometer_serving.layers.brick_model import brick_model
from inferometer_serving.layers.gpu.algorithms import Algorithm, GpuKernels, synchronize
from inferometer_serving.layers.gpu.cudnn import Cudnn, CudnnSettings
from inferometer_serving.layers.gpu.device_tensors import on_device
from inferometer_serving.layers.gpu.machine import (
    Peaks,
    gpu_state,
    open_empty_kernel,
    probe_peaks,
)
from inferometer_serving.layers.gpu.onnx_cuda import (
    CudaChoices,
    DeviceSession,
    open_layer,
    open_whole,
)
from inferometer_serving.layers.gpu.problems import (
    Convolution,
    Normalization,
    Pooling,
    Product,
    has_kernels,
    is_half,
    problem_of,
)
from inferometer_serving.layers.gpu.product_algorithms import product_algorithms
from inferometer_serving.layers.measure import brick_bytes
from inferometer_serving.layers.optimised_graph import GraphSettings, load_cuda_libraries
from inferometer_serving.layers.timing import OUT_OF_TIME, Item, Report, time_items
from inferometer_serving.layers.whole_model import MOST_BYTES, largest_difference

_PRODUCTS = frozenset(
    {"Attention", "Conv", "ConvTranspose", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul"}
    | {"GRU", "Gemm", "LSTM", "MatMul", "MultiHeadAttention", "RNN"}
)
"""Operators that multiply matrices, whose precision can be chosen."""
_SESSION_BYTES = 64 << 20
"""What a session takes of the GPU's memory in addition to its tensors."""
_EMPTY = "a kernel that computes nothing"


@dataclass(frozen=True, slots=True)
class GpuVariant:
    """One way to run a whole model on the GPU."""

    name: str
    model: Path
    choices: CudaChoices
    precision: str
    """The effective one: FP32, TF32 or FP16."""


@dataclass(frozen=True, slots=True)
class GpuMeasureOptions:
    """How things are timed on the GPU."""

    graph: GraphSettings
    rounds: int = 7
    engines: tuple[str, ...] = ()
    """Engines whose kernels are timed for each layer."""
    allows_tf32: bool = True
    """Whether products of FP32 may be computed in TF32."""
    budget_seconds: float = inf
    peaks: Peaks = probe_peaks
    """How the peaks of the roofline are measured."""


@dataclass(slots=True)
class _Found:
    kernels: list[KernelTiming] = field(default_factory=list)
    measured: dict[str, VariantTiming] = field(default_factory=dict)
    busy_ns: dict[str, float] = field(default_factory=dict)
    expected: list[Any] = field(default_factory=list)


def effective_precision(layer: Layer, *, allows_tf32: bool) -> str:
    """Return what a layer computes in; empty if it multiplies no matrices."""
    if layer.operator not in _PRODUCTS:
        return ""
    names = {"FLOAT16": "FP16", "BFLOAT16": "BF16", "DOUBLE": "FP64"}
    single = "TF32" if allows_tf32 else "FP32"
    return names.get(layer.inputs[0].datatype, single)


def gpu_variant(variant: ModelVariant) -> GpuVariant:
    """Return a variant with the choices of its provider."""
    precision, option = variant.precision, variant.provider_option
    choices = CudaChoices(
        allows_tf32=precision != "FP32",
        uses_graph=option == "CudaGraph",
        channels_last=option == "ChannelsLast",
    )
    return GpuVariant(variant.name, variant.model, choices, precision)


def measure_on_gpu(
    suite: BrickSuite,
    variants: Sequence[GpuVariant],
    options: GpuMeasureOptions,
    report: Report,
) -> LayerTimings:
    """Return timings of the single layers of a suite, and of variants of one model.

    What an engine refuses is named with the reason. Raises ModelRefusedError if no variant can
    run, there is no GPU, or it fails.
    """
    began = time.monotonic()
    until = began + options.budget_seconds
    found = _Found()
    try:
        with open_gpu() as gpu, ExitStack() as resources:
            load_cuda_libraries()
            variant_items = [_variant_item(each, options, found) for each in variants]
            time_items(variant_items, report, until_seconds=until)
            if variant_items and all(each.failure for each in variant_items):
                raise ModelRefusedError(variant_items[0].failure)
            state = gpu_state(gpu, options.peaks if variants else None)
            recorder = resources.enter_context(record_activities())
            _add_busy(variant_items, variants, options, recorder, found)
            kernels = list(_kernel_items(gpu, suite, options, recorder, found))
            floor = _empty_item(gpu, resources, recorder, options, found)
            time_items([floor, *kernels], report, until_seconds=until)
    except (GpuUnavailableError, CudaError) as error:
        reason = str(error).rstrip(".")
        raise ModelRefusedError(f"The layers cannot be timed on a GPU: {reason}.") from error
    floor_ns = [each.nanoseconds for each in found.kernels if each.key == _EMPTY]
    items = [*variant_items, *kernels]
    return LayerTimings(
        machine=state,
        node_nanoseconds=round(floor_ns[0]) if floor_ns else 0,
        seconds=time.monotonic() - began,
        kernels=[each for each in found.kernels if each.key != _EMPTY],
        failed=[each for item in items if (each := _failure(item)) is not None],
        untimed=[each.name for each in items if each.failure == OUT_OF_TIME],
        variants=found.measured,
    )


def _failure(item: Item) -> LayerFailure | None:
    if item.failure in ("", OUT_OF_TIME):
        return None
    engine, _, key = item.name.partition(":")
    return LayerFailure(key=key, engine=engine, reason=item.failure)


def _variant_item(variant: GpuVariant, options: GpuMeasureOptions, found: _Found) -> Item:
    item = Item(
        name=variant.name,
        open=lambda: open_whole(
            read_graph(variant.model, max_bytes=MOST_BYTES), options.graph, variant.choices
        ),
        rounds_wanted=options.rounds,
        needs_all_rounds=True,
    )

    def keep(session: DeviceSession, _: int) -> None:
        outputs = session.results()
        found.expected = found.expected or outputs
        found.measured[variant.name] = VariantTiming(
            nanoseconds=item.middle_ns,
            precision=variant.precision,
            version=session.version,
            difference=largest_difference(found.expected, outputs),
            disturbed_rounds=item.disturbed_rounds,
        )

    item.finish = keep
    return item


def _add_busy(
    items: Sequence[Item],
    variants: Sequence[GpuVariant],
    options: GpuMeasureOptions,
    recorder: ActivityRecorder,
    found: _Found,
) -> None:
    """Add to each variant that can be recorded how long the GPU works for one inference."""
    for item, variant in zip(items, variants, strict=True):
        if item.failure or variant.choices.uses_graph:
            continue
        with suppress(Exception):  # it ran before; its time stays, without that of the GPU
            timing = found.measured[variant.name]
            durations_ns = _busy_ns(variant, options, recorder)
            lower, middle, upper = quantiles(durations_ns, n=4)
            found.measured[variant.name] = timing.model_copy(
                update={"busy_nanoseconds": middle, "busy_spread_nanoseconds": upper - lower}
            )


def _busy_ns(
    variant: GpuVariant, options: GpuMeasureOptions, recorder: ActivityRecorder
) -> list[float]:
    session = open_whole(
        read_graph(variant.model, max_bytes=MOST_BYTES), options.graph, variant.choices
    )
    model = Algorithm(variant.name, session.run)
    for _ in range(options.rounds + 1):
        recorder.take()
        model.launch()
        synchronize()
        model.add(recorder.take())
    return model.durations_ns[1:]


def _kernel_items(
    gpu: GpuDevice,
    suite: BrickSuite,
    options: GpuMeasureOptions,
    recorder: ActivityRecorder,
    found: _Found,
) -> Iterator[Item]:
    openers: dict[str, Callable[..., GpuKernels]] = {
        "onnxruntime": _open_onnx,
        "cudnn": _open_cudnn,
        "cublas": _open_cublas,
        MATRIX_UNITS: partial(open_matrix_units, gpu),
    }
    for key, brick in suite.bricks.items():
        layer = suite.layers[brick.layers[0]]
        for engine in options.engines:
            if engine != "onnxruntime" and not has_kernels(engine, layer):
                continue
            yield Item(
                name=f"{engine}:{key}",
                open=partial(openers[engine], suite, key, options, recorder),
                rounds_wanted=options.rounds,
                bytes=_SESSION_BYTES + brick_bytes(suite, brick),
                finish=partial(_keep_kernels, found, key),
            )


def _open_onnx(
    suite: BrickSuite, key: str, options: GpuMeasureOptions, recorder: ActivityRecorder
) -> GpuKernels:
    brick = suite.bricks[key]
    choices = CudaChoices(allows_tf32=options.allows_tf32)
    session = open_layer(brick_model(suite, brick), choices)
    precision = effective_precision(suite.layers[key], allows_tf32=options.allows_tf32)
    algorithms = [Algorithm("", session.run)]
    return GpuKernels("onnxruntime", precision, algorithms, recorder, ExitStack())


def _open_cudnn(
    suite: BrickSuite, key: str, options: GpuMeasureOptions, recorder: ActivityRecorder
) -> GpuKernels:
    layer = suite.layers[key]
    problem = problem_of(layer)
    library = load_library("cudnn")
    with ExitStack() as resources:
        algorithms: list[Algorithm] = []
        for channels_last in (False, True) if has_channels(layer) else (False,):
            operands = on_device(layer, resources, channels_last=channels_last)
            settings = CudnnSettings(is_half(layer), options.allows_tf32, channels_last)
            if problem is not None:
                algorithms += Cudnn(library, settings, resources).algorithms(problem, operands)
        precision = effective_precision(layer, allows_tf32=options.allows_tf32)
        return GpuKernels("cudnn", precision, algorithms, recorder, resources.pop_all())


def has_channels(layer: Layer) -> bool:
    """Return whether a layer's tensors can have their channels last, and this matters to it."""
    problem = problem_of(layer)
    is_of_images = isinstance(problem, Convolution | Normalization | Pooling)
    return is_of_images and len(layer.inputs[0].shape) == 4


def _open_cublas(
    suite: BrickSuite, key: str, options: GpuMeasureOptions, recorder: ActivityRecorder
) -> GpuKernels:
    layer = suite.layers[key]
    problem = problem_of(layer)
    if not isinstance(problem, Product):
        raise TypeError(f"{layer.operator} is no product of matrices.")
    with ExitStack() as resources:
        algorithms = product_algorithms(
            load_library("cublasLt"),
            problem,
            on_device(layer, resources),
            is_half=is_half(layer),
            allows_tf32=options.allows_tf32,
            resources=resources,
        )
        precision = effective_precision(layer, allows_tf32=options.allows_tf32)
        return GpuKernels("cublas", precision, algorithms, recorder, resources.pop_all())


def open_matrix_units(
    gpu: GpuDevice, suite: BrickSuite, key: str, _: GpuMeasureOptions, recorder: ActivityRecorder
) -> GpuKernels:
    """Return our kernel of a sum or a prefix sum. Raises as `open_reduction` does."""
    with ExitStack() as resources:
        opened = open_reduction(gpu, suite.layers[key], resources)
        algorithms = [Algorithm(opened.plan.algorithm, opened.launch)]
        return GpuKernels(MATRIX_UNITS, "", algorithms, recorder, resources.pop_all())


def _keep_kernels(found: _Found, key: str, kernels: GpuKernels, runs: int) -> None:
    found.kernels.append(kernels.timing(key, runs))


def _empty_item(
    gpu: GpuDevice,
    resources: ExitStack,
    recorder: ActivityRecorder,
    options: GpuMeasureOptions,
    found: _Found,
) -> Item:
    """Return a kernel that computes nothing: what lies near its duration is noise."""

    def open_kernel() -> GpuKernels:
        launch: Callable[[], None] = open_empty_kernel(gpu, resources)
        return GpuKernels("cuda", "", [Algorithm("", launch)], recorder, ExitStack())

    return Item(
        name=f"cuda:{_EMPTY}",
        open=open_kernel,
        rounds_wanted=options.rounds,
        needs_all_rounds=True,
        finish=partial(_keep_kernels, found, _EMPTY),
    )
