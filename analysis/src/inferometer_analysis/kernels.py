"""Analyses A8 to A15 of XSP: GPU kernels, alone and by name, layer and model, and rooflines."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

MEBIBYTE = 1 << 20
"""What XSP's kernel tables print as MB."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Processor:
    """The peaks that a roofline is drawn from."""

    flops_per_second: float
    bytes_per_second: float

    @property
    def ideal_intensity(self) -> float:
        """The flops per byte above which the arithmetic limits, and not the memory."""
        return self.flops_per_second / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class Kernel:
    """One execution of a kernel, with the counters of its profiler."""

    name: str
    latency_ns: float
    flops: float
    read_bytes: float
    written_bytes: float
    occupancy: float = 0.0
    """Achieved occupancy, from 0 to 1."""
    layer: int | None = None
    """The index of its layer."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel, or several together: A8, A10, A11, A15."""

    count: int
    latency_ns: float
    flops: float
    read_bytes: float
    written_bytes: float
    occupancy: float
    """The mean, weighted by latency."""
    latency_share: float
    """Of the model's latency."""

    @property
    def intensity(self) -> float:
        """Flops per byte; infinite without memory accesses."""
        moved = self.read_bytes + self.written_bytes
        return self.flops / moved if moved else float("inf")

    @property
    def flops_per_second(self) -> float:
        """The achieved arithmetic throughput."""
        return self.flops * 1e9 / self.latency_ns if self.latency_ns else 0.0

    def is_memory_bound(self, processor: Processor) -> bool:
        """Return whether its intensity is below the processor's ideal one."""
        return self.intensity < processor.ideal_intensity

    def roofline_share(self, processor: Processor) -> float:
        """Return its throughput as a share of what the roofline allows at its intensity."""
        bandwidth_bound = self.intensity * processor.bytes_per_second
        return self.flops_per_second / min(processor.flops_per_second, bandwidth_bound)


def _joined(kernels: Iterable[Kernel], model_latency_ns: float) -> KernelRow:
    group = list(kernels)
    latency = sum(each.latency_ns for each in group)
    weighted = sum(each.occupancy * each.latency_ns for each in group)
    return KernelRow(
        count=len(group),
        latency_ns=latency,
        flops=sum(each.flops for each in group),
        read_bytes=sum(each.read_bytes for each in group),
        written_bytes=sum(each.written_bytes for each in group),
        occupancy=weighted / latency if latency else 0.0,
        latency_share=latency / model_latency_ns if model_latency_ns else 0.0,
    )


def _grouped(
    kernels: Iterable[Kernel], key: Callable[[Kernel], K], model_latency_ns: float
) -> dict[K, KernelRow]:
    groups: dict[K, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(key(kernel), []).append(kernel)
    rows = {name: _joined(group, model_latency_ns) for name, group in groups.items()}
    return dict(sorted(rows.items(), key=lambda item: -item[1].latency_ns))


def kernel_information(
    kernels: Sequence[Kernel], model_latency_ns: float
) -> list[tuple[Kernel, KernelRow]]:
    """Return A8: each kernel with its figures, the most time-consuming first."""
    ordered = sorted(kernels, key=lambda kernel: -kernel.latency_ns)
    return [(kernel, _joined([kernel], model_latency_ns)) for kernel in ordered]


def kernel_roofline(kernels: Sequence[Kernel]) -> list[tuple[Kernel, float, float]]:
    """Return A9: each kernel with its intensity (flops per byte) and its flops per second."""
    rows = ((kernel, _joined([kernel], 0.0)) for kernel in kernels)
    return [(kernel, row.intensity, row.flops_per_second) for kernel, row in rows]


def kernels_by_name(kernels: Sequence[Kernel], model_latency_ns: float) -> dict[str, KernelRow]:
    """Return A10: the kernels of each name together."""
    return _grouped(kernels, lambda kernel: kernel.name, model_latency_ns)


def kernels_by_layer(
    kernels: Sequence[Kernel], model_latency_ns: float
) -> dict[int | None, KernelRow]:
    """Return A11: the kernels of each layer together; None has those without a layer."""
    return _grouped(kernels, lambda kernel: kernel.layer, model_latency_ns)


def metrics_by_layer(kernels: Sequence[Kernel]) -> dict[int | None, tuple[float, float, float]]:
    """Return A12: flops, bytes read and bytes written of each layer."""
    rows = kernels_by_layer(kernels, 0.0)
    return {name: (row.flops, row.read_bytes, row.written_bytes) for name, row in rows.items()}


def gpu_and_other_latency(
    layer_latency_ns: Mapping[int, float], kernels: Sequence[Kernel]
) -> dict[int, tuple[float, float]]:
    """Return A13: of each layer the latency of its kernels, and the rest, in ns.

    The rest is negative if kernels of one layer overlap.
    """
    rows = kernels_by_layer(kernels, 0.0)
    found = {}
    for index, latency in layer_latency_ns.items():
        row = rows.get(index)
        on_gpu = 0.0 if row is None else row.latency_ns
        found[index] = (on_gpu, latency - on_gpu)
    return found


def layer_roofline(kernels: Sequence[Kernel]) -> dict[int | None, tuple[float, float]]:
    """Return A14: the intensity and the flops per second of each layer's kernels together."""
    rows = kernels_by_layer(kernels, 0.0)
    return {name: (row.intensity, row.flops_per_second) for name, row in rows.items()}


def kernels_of_model(kernels: Sequence[Kernel], model_latency_ns: float) -> KernelRow:
    """Return A15: all kernels of the model together."""
    return _joined(kernels, model_latency_ns)
