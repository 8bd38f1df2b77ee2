"""The kernels of a GPU in a profile, as rows of XSP's analyses A8 to A15.

CUPTI's activities have no counters. So flops and bytes are computed from the layers' tensors: of
a layer, and of a kernel that is the only one of its layer. Those of other kernels are not known.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from inferometer_analysis.kernels import (
    Kernel,
    KernelRow,
    Processor,
    gpu_and_other_latency,
    kernel_information,
    kernels_by_layer,
    kernels_by_name,
    kernels_of_model,
    with_work,
)
from inferometer_analysis.layer_work import element_bytes, flops_of
from inferometer_analysis.samples import trimmed_mean
from inferometer_api.results.result import (
    GpuProfile,
    KernelProfile,
    LayerProfile,
    StepProfile,
)

_SINGLE = "float"
NO_LAYER = "no layer: copies of inputs and outputs"

Work = tuple[float, float, float]
"""Flops, bytes read, bytes written."""


@dataclass(frozen=True, slots=True)
class LayerKernels:
    """A11 to A14: the kernels of one layer together."""

    layer: LayerProfile | None
    """None: launched by no layer, such as the copies of the model's inputs and outputs."""
    row: KernelRow
    other_ns: float | None
    """The layer's latency without that of its kernels."""
    processor: Processor | None

    @property
    def bound(self) -> str:
        """What limits it by the roofline; empty if that is not known."""
        return bound_of(self.row, self.processor)


def gpu_kernels(profile: StepProfile) -> list[Kernel]:
    """Return the kernels, copies and fills of a GPU as the analyses take them."""
    counts: dict[int, int] = {}
    for each in profile.kernels:
        if each.layer is not None:
            counts[each.layer] = counts.get(each.layer, 0) + 1
    alone = {index: work for index, work in layer_work(profile).items() if counts.get(index) == 1}
    return [_kernel(each, alone) for each in profile.kernels]


def _kernel(each: KernelProfile, alone: Mapping[int, Work]) -> Kernel:
    flops: float | None
    read: float | None
    written: float | None
    flops, read, written = (None, None, None)
    if each.kind != "Kernel":
        moved = float(each.moved_bytes or 0)
        flops = 0.0
        read = moved if each.name.startswith(("Memcpy D", "Memcpy P")) else 0.0
        written = 0.0 if each.name.endswith("DtoH") else moved
    elif each.layer is not None and each.layer in alone:
        flops, read, written = alone[each.layer]
    return Kernel(
        name=each.name,
        latency_ns=trimmed_mean(each.durations_nanoseconds),
        flops=flops,
        read_bytes=read,
        written_bytes=written,
        occupancy=each.theoretical_occupancy if each.kind == "Kernel" else 0.0,
        layer=each.layer,
        has_tensor_cores=bool(each.tensor_cores),
    )


def layer_work(profile: StepProfile) -> dict[int, Work]:
    """Return the work of each layer by its index, if it follows from the shapes of its tensors."""
    found = {}
    for layer in profile.layers:
        output = layer.outputs[0].shape if layer.outputs else []
        flops = flops_of(layer.operator, [each.shape for each in layer.inputs], output)
        read, written = (
            [element_bytes(each.datatype, each.shape) for each in tensors]
            for tensors in (layer.inputs, layer.outputs)
        )
        if flops is None or None in read or None in written or not layer.outputs:
            continue
        found[layer.index] = (
            float(flops),
            float(sum(each or 0 for each in read)),
            float(sum(each or 0 for each in written)),
        )
    return found


def processor_of(gpu: GpuProfile | None, on_tensor_cores: Collection[str]) -> Processor | None:
    """Return the peaks of a roofline; None: not known.

    `on_tensor_cores` are the datatypes whose products run on tensor cores: of FP32 as TF32. The
    peak of other datatypes there is not known.
    """
    if gpu is None or not set(on_tensor_cores) <= {_SINGLE}:
        return None
    flops = gpu.tf32_flops_per_second if on_tensor_cores else gpu.fp32_flops_per_second
    if not flops or not gpu.bytes_per_second:  # a virtual GPU may hide its clocks
        return None
    return Processor(float(flops), float(gpu.bytes_per_second))


def _on_tensor_cores(profile: StepProfile) -> dict[int | None, str]:
    """Return the datatype of each layer with kernels on tensor cores; empty if not known."""
    datatypes = {each.index: each.inputs[0].datatype for each in profile.layers if each.inputs}
    return {
        each.layer: "" if each.layer is None else _plain(datatypes.get(each.layer, ""))
        for each in profile.kernels
        if each.tensor_cores
    }


def _plain(datatype: str) -> str:
    return datatype.removeprefix("tensor(").removesuffix(")").lower()


def bound_of(row: KernelRow, processor: Processor | None) -> str:
    """Return "memory" or "compute", by the roofline; empty if that is not known."""
    is_memory_bound = None if processor is None else row.is_memory_bound(processor)
    return {None: "", True: "memory", False: "compute"}[is_memory_bound]


def gpu_rows_by_name(profile: StepProfile) -> dict[str, KernelRow]:
    """Return A10: the kernels of each name together, the most time-consuming first."""
    return kernels_by_name(gpu_kernels(profile), _model_ns(profile))


def gpu_rows_by_layer(profile: StepProfile) -> list[LayerKernels]:
    """Return A11 to A14: the kernels of each layer, the most time-consuming first."""
    kernels = gpu_kernels(profile)
    rows = with_work(kernels_by_layer(kernels, _model_ns(profile)), layer_work(profile))
    layers = {each.index: each for each in profile.layers}
    latencies = {
        each.index: trimmed_mean(each.durations_nanoseconds)
        for each in profile.layers
        if each.durations_nanoseconds
    }
    others = gpu_and_other_latency(latencies, kernels)
    types = _on_tensor_cores(profile)
    return [
        LayerKernels(
            layer=None if index is None else layers.get(index),
            row=row,
            other_ns=others[index][1] if index in others else None,
            processor=processor_of(profile.gpu, [types[index]] if index in types else []),
        )
        for index, row in rows.items()
    ]


def gpu_row_of_model(profile: StepProfile) -> KernelRow:
    """Return A15: all activities of the GPU, with the work of all layers that have kernels."""
    row = kernels_of_model(gpu_kernels(profile), _model_ns(profile))
    work, launching = layer_work(profile), {each.layer for each in profile.kernels} - {None}
    known = [work[each] for each in launching if each in work]
    if len(known) < len(launching):
        return with_work({0: row}, {})[0]
    flops, read, written = (
        (sum(column) for column in zip(*known, strict=True)) if known else (0, 0, 0)
    )
    return with_work({0: row}, {0: (flops, read, written)})[0]


def _model_ns(profile: StepProfile) -> float:
    return median(profile.model_nanoseconds) if profile.model_nanoseconds else 0.0


def gpu_sentences(profile: StepProfile) -> Iterator[str]:
    """Yield what the kernels of a GPU show in sentences."""
    if not profile.kernels:
        return
    row = gpu_row_of_model(profile)
    launches = sum(each.launch_nanoseconds for each in profile.kernels)
    yield (
        f"The GPU works {row.latency_ns / 1e6:.3f} ms of an inference in {row.count} kernels and "
        f"copies: {100 * row.latency_share:.1f} % of the inference. The calls that launch them "
        f"take {launches / 1e6:.3f} ms while they are recorded."
    )
    tensor = [each for each in gpu_kernels(profile) if each.has_tensor_cores]
    share = sum(each.latency_ns for each in tensor) / row.latency_ns if row.latency_ns else 0.0
    yield f"Kernels with tensor cores in their names take {100 * share:.1f} % of the GPU's time."
    throughput, intensity = row.flops_per_second, row.intensity
    if throughput is None or intensity is None:
        yield "The model's flops are not known: its layers include some without a formula."
        return
    bound = bound_of(row, processor_of(profile.gpu, set(_on_tensor_cores(profile).values())))
    yield (
        f"By the layers' tensors the GPU computes {throughput / 1e12:.2f} TFLOP/s at "
        f"{intensity:.1f} flop/byte" + (f", bound by {bound}." if bound else ".")
    )


def kernel_values(profile: StepProfile) -> Iterator[dict[str, Any]]:
    """Yield A8: each kernel with named values, the longest first."""
    for kernel, row in gpu_kernel_rows(profile):
        yield _values(kernel, row, profile)


def kernel_rooflines(profile: StepProfile) -> Iterator[dict[str, Any]]:
    """Yield A9: each kernel with its intensity and throughput, the longest first."""
    for kernel, row in gpu_kernel_rows(profile):
        yield {
            "index": kernel.index,
            "name": kernel.name,
            "flopsPerByte": row.intensity,
            "flopsPerSecond": row.flops_per_second,
            "bound": kernel_bound(kernel, row, profile),
        }


def gpu_kernel_rows(profile: StepProfile) -> Iterator[tuple[KernelProfile, KernelRow]]:
    """Yield A8: each kernel with its figures, the most time-consuming first."""
    kernels = gpu_kernels(profile)
    profiles = {id(kernel): each for kernel, each in zip(kernels, profile.kernels, strict=True)}
    for kernel, row in kernel_information(kernels, _model_ns(profile)):
        yield profiles[id(kernel)], row


def kernel_bound(kernel: KernelProfile, row: KernelRow, profile: StepProfile) -> str:
    """Return what limits a kernel by the roofline; empty if that is not known."""
    types = _on_tensor_cores(profile)
    processor = processor_of(profile.gpu, [types[kernel.layer]] if kernel.tensor_cores else [])
    return bound_of(row, processor)


def _values(kernel: KernelProfile, row: KernelRow, profile: StepProfile) -> dict[str, Any]:
    layer = next((each for each in profile.layers if each.index == kernel.layer), None)
    return {
        "index": kernel.index,
        "kind": kernel.kind,
        "name": kernel.name,
        "layer": kernel.layer,
        "layerName": "" if layer is None else layer.name,
        "nanoseconds": round(row.latency_ns),
        "share": round(row.latency_share, 6),
        "stream": kernel.stream,
        "grid": "x".join(map(str, kernel.grid)),
        "block": "x".join(map(str, kernel.block)),
        "registersPerThread": kernel.registers_per_thread,
        "sharedBytes": kernel.shared_bytes,
        "theoreticalOccupancy": kernel.theoretical_occupancy,
        "tensorCores": kernel.tensor_cores,
        "computedFlops": row.flops,
        "computedReadBytes": row.read_bytes,
        "computedWrittenBytes": row.written_bytes,
        "bound": kernel_bound(kernel, row, profile),
    }
