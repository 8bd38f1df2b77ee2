"""Analyses A8 to A15 of XSP: GPU kernels, alone and by name, layer and model, and rooflines."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """One execution of a kernel, with the counters of its profiler; None: not known."""

    name: str
    latency_ns: float
    flops: float | None
    read_bytes: float | None
    written_bytes: float | None
    occupancy: float | None = 0.0
    """From 0 to 1: achieved, or the theoretical bound of it."""
    layer: int | None = None
    """The index of its layer."""
    has_tensor_cores: bool = False


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel, or several together: A8, A10, A11, A15. None: not known of one of them."""

    count: int
    latency_ns: float
    flops: float | None
    read_bytes: float | None
    written_bytes: float | None
    occupancy: float | None
    """The mean, weighted by latency."""
    latency_share: float
    """Of the model's latency."""
    has_tensor_cores: bool = False
    """Whether one of them uses tensor cores."""

    @property
    def intensity(self) -> float | None:
        """Flops per byte; infinite without memory accesses."""
        if self.flops is None or self.read_bytes is None or self.written_bytes is None:
            return None
        moved = self.read_bytes + self.written_bytes
        return self.flops / moved if moved else float("inf")

    @property
    def flops_per_second(self) -> float | None:
        """The achieved arithmetic throughput."""
        if self.flops is None:
            return None
        return self.flops * 1e9 / self.latency_ns if self.latency_ns else 0.0

    def is_memory_bound(self, processor: Processor) -> bool | None:
        """Return whether its intensity is below the processor's ideal one."""
        intensity = self.intensity
        return None if intensity is None else intensity < processor.ideal_intensity

    def roofline_share(self, processor: Processor) -> float | None:
        """Return its throughput as a share of what the roofline allows at its intensity."""
        intensity, throughput = self.intensity, self.flops_per_second
        if intensity is None or throughput is None:
            return None
        attainable = min(processor.flops_per_second, intensity * processor.bytes_per_second)
        return throughput / attainable if attainable else 0.0


def _joined(kernels: Iterable[Kernel], model_latency_ns: float) -> KernelRow:
    group = list(kernels)
    latency = sum(each.latency_ns for each in group)
    weighted = _sum(
        None if each.occupancy is None else each.occupancy * each.latency_ns for each in group
    )
    return KernelRow(
        count=len(group),
        latency_ns=latency,
        flops=_sum(each.flops for each in group),
        read_bytes=_sum(each.read_bytes for each in group),
        written_bytes=_sum(each.written_bytes for each in group),
        occupancy=None if weighted is None else weighted / latency if latency else 0.0,
        latency_share=latency / model_latency_ns if model_latency_ns else 0.0,
        has_tensor_cores=any(each.has_tensor_cores for each in group),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is not known."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


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


def kernel_roofline(
    kernels: Sequence[Kernel],
) -> list[tuple[Kernel, float | None, float | None]]:
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


Metrics = tuple[float | None, float | None, float | None]


def with_work(
    rows: Mapping[int | None, KernelRow], work: Mapping[int, tuple[float, float, float]]
) -> dict[int | None, KernelRow]:
    """Return the rows of layers with the layers' own work instead of their kernels' counters.

    The work of a layer is its flops, the bytes that it reads and those that it writes; a layer
    that is not in it has none that is known.
    """
    found = {}
    for index, row in rows.items():
        flops, read, written = work.get(-1 if index is None else index, (None, None, None))
        found[index] = replace(row, flops=flops, read_bytes=read, written_bytes=written)
    return found


def metrics_by_layer(kernels: Sequence[Kernel]) -> dict[int | None, Metrics]:
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


def layer_roofline(
    kernels: Sequence[Kernel],
) -> dict[int | None, tuple[float | None, float | None]]:
    """Return A14: the intensity and the flops per second of each layer's kernels together."""
    rows = kernels_by_layer(kernels, 0.0)
    return {name: (row.intensity, row.flops_per_second) for name, row in rows.items()}


def kernels_of_model(kernels: Sequence[Kernel], model_latency_ns: float) -> KernelRow:
    """Return A15: all kernels of the model together."""
    return _joined(kernels, model_latency_ns)
