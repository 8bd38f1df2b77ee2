"""Managed memory that moves between host and GPU: on demand, by prefetch, and page after page.

Before each repeat the memory is prefetched to where it starts from. Demand writes one byte of each
page of 4 KiB: on the GPU a warp for each page, on the host one thread or all.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier
from typing import Any

import numpy as np
import numpy.typing as npt

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import GpuDevice, GpuFunction, address_argument, call, compiled
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.copies import rate
from inferometer_serving.node.samples import NotMeasurableError, seconds_of

MANAGED_FIGURES = (
    *("UM_Demand_HostToGPU", "UM_Demand_GPUToHost", "UM_Demand_GPUToHostMt"),
    *("UM_Prefetch_HostToGPU", "UM_Prefetch_GPUToHost"),
    *("Demand_Duplex_HostGPU", "Prefetch_Duplex_HostGPU"),
    *("UM_Latency_HostToGPU", "UM_Latency_GPUToHost"),
)
_LOG2_SIZES = (12, 16, 20, 24, 27)
_KERNELS = """
extern "C" __global__ void touch(char* bytes, unsigned long long size) {
    unsigned long long thread = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x / 32 * PAGE;
    if (thread % 32 == 0)
        for (unsigned long long at = thread / 32 * PAGE; at < size; at += step) bytes[at] = 1;
}
extern "C" __global__ void traverse(unsigned long long* words, int steps) {
    unsigned long long next = 0;
    for (int step = 0; step < steps; step++) next = words[next];
    words[next] = 1;
}
""".replace("PAGE", str(mmap.PAGESIZE))
_GRID = 256
_STRIDE_WORDS, _STEPS, _LATENCY_REPEATS = 1 << 17, 64, 7
"""Of the pointer chase: 1 MiB from one page to the next, as in Comm|Scope."""
_HOST = -1


@contextmanager
def managed_memory(size: int) -> Iterator[int]:
    """Allocate memory that host and GPU share; yield its address. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    attach = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    address = int(call(driver.cuMemAllocManaged, size, attach))
    try:
        yield address
    finally:
        call(driver.cuMemFree, address)


def managed_transfers(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure managed memory between the GPU and the NUMA node on which this runs."""
    if not gpu.attribute("CONCURRENT_MANAGED_ACCESS"):
        raise NotMeasurableError("the GPU and the host cannot use managed memory at the same time")
    largest = 1 << _LOG2_SIZES[-1]
    found: list[NodeFigure] = []
    with gpu_clock(gpu) as clock, compiled(gpu, _KERNELS, ["touch", "traverse"]) as kernels:
        node = int(str(setting["node"]))
        with managed_memory(largest) as memory, managed_memory(largest) as other:
            moves = _Moves(gpu.index, node, clock, kernels["touch"], (memory, other))
            for log2_bytes in _LOG2_SIZES:
                found += _of_size(moves, 1 << log2_bytes, setting)
        found += _latencies(gpu, node, clock, kernels["traverse"], setting)
    return found


def managed_between(
    source: GpuDevice, target: GpuDevice, setting: Mapping[str, object]
) -> list[NodeFigure]:
    """Measure managed memory that moves to the GPU whose context is current from another."""
    largest = 1 << _LOG2_SIZES[-1]
    found = []
    with (
        gpu_clock(target) as clock,
        compiled(target, _KERNELS, ["touch"]) as kernels,
        managed_memory(largest) as memory,
    ):
        moves = _Moves(target.index, 0, clock, kernels["touch"], (memory, memory))
        for log2_bytes in _LOG2_SIZES:
            size = 1 << log2_bytes
            demand = partial(moves.demand_to_gpu, size, source.index)
            ahead = partial(moves.prefetch, size, source.index, target.index)
            found += [
                rate("UM_Demand_GPUToGPU", size, demand, setting),
                rate("UM_Prefetch_GPUToGPU", size, ahead, setting),
            ]
    return found


class _Moves:
    """What moves managed memory, each preceded by a prefetch to where it starts from."""

    def __init__(
        self, gpu: int, node: int, clock: GpuClock, touch: GpuFunction, memory: tuple[int, int]
    ) -> None:
        self.gpu, self.node, self.clock, self.touch = gpu, node, clock, touch
        self.memory = memory

    def demand_to_gpu(self, size: int, source: int = _HOST) -> float:
        self._place(size, source)
        return self.clock.seconds(self._touches(self.memory[0], size))

    def demand_to_host(self, threads: int, size: int) -> float:
        self._place(size, self.gpu)
        pages = _host_bytes(self.memory[0], size)[:: mmap.PAGESIZE]
        if threads == 1:
            return seconds_of(partial(_write_ones, pages))
        with ThreadPoolExecutor(threads) as pool:
            ready = Barrier(threads)
            list(pool.map(lambda _: ready.wait(), range(threads)))
            parts = np.array_split(pages, threads)
            return seconds_of(lambda: list(pool.map(_write_ones, parts)))

    def demand_both_ways(self, size: int) -> float:
        """Let the GPU touch what is on the host, and the host what is on the GPU."""
        self._place(size, _HOST, self.gpu)
        on = self.clock.streams[0]
        touches = self._touches(self.memory[0], size)
        pages = _host_bytes(self.memory[1], size)[:: mmap.PAGESIZE]

        def run() -> None:
            touches(on)
            _write_ones(pages)
            _synchronize(on)

        return seconds_of(run)

    def prefetch(self, size: int, source: int, destination: int) -> float:
        self._place(size, source)
        return self.clock.seconds(self._prefetches(self.memory[0], size, destination))

    def prefetch_both_ways(self, size: int) -> float:
        self._place(size, _HOST, self.gpu)
        return self.clock.seconds_together(
            [
                self._prefetches(self.memory[0], size, self.gpu),
                self._prefetches(self.memory[1], size, _HOST),
            ]
        )

    def _place(self, size: int, *locations: int) -> None:
        on = self.clock.streams[0]
        for address, location in zip(self.memory, locations, strict=False):
            # A page is nowhere until it is touched.
            self._touches(address, size)(on)
            self._prefetches(address, size, location)(on)
        _synchronize(on)

    def _touches(self, address: int, size: int) -> Work:
        def launch(on: Any) -> None:
            arguments = [address_argument(address), (size, ctypes.c_ulonglong)]
            self.touch.launch((_GRID, 1, 1), (_GRID, 1, 1), arguments, on)

        return launch

    def _prefetches(self, address: int, size: int, location: int) -> Work:
        return lambda on: prefetch(address, size, location, self.node, on)


def prefetch(address: int, size: int, gpu: int, node: int, on: Any) -> None:
    """Move managed memory to a GPU or, if that is below 0, to a NUMA node. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    kinds = driver.CUmemLocationType
    where = driver.CUmemLocation()
    if gpu >= 0:
        where.type, where.id = kinds.CU_MEM_LOCATION_TYPE_DEVICE, gpu
    else:
        where.type, where.id = kinds.CU_MEM_LOCATION_TYPE_HOST_NUMA, node
    call(driver.cuMemPrefetchAsync, address, size, where, 0, on)


def _of_size(moves: _Moves, size: int, setting: Mapping[str, object]) -> Iterator[NodeFigure]:
    threads = len(os.sched_getaffinity(0))
    one_way: dict[str, Callable[[], float]] = {
        "UM_Demand_HostToGPU": partial(moves.demand_to_gpu, size),
        "UM_Demand_GPUToHost": partial(moves.demand_to_host, 1, size),
        "UM_Prefetch_HostToGPU": partial(moves.prefetch, size, _HOST, moves.gpu),
        "UM_Prefetch_GPUToHost": partial(moves.prefetch, size, moves.gpu, _HOST),
    }
    for name, seconds in one_way.items():
        yield rate(name, size, seconds, setting)
    by_all = partial(moves.demand_to_host, threads, size)
    yield rate("UM_Demand_GPUToHostMt", size, by_all, {**setting, "threads": threads})
    both_ways: dict[str, Callable[[], float]] = {
        "Demand_Duplex_HostGPU": partial(moves.demand_both_ways, size),
        "Prefetch_Duplex_HostGPU": partial(moves.prefetch_both_ways, size),
    }
    for name, seconds in both_ways.items():
        yield rate(name, size, seconds, setting, moved=2 * size)


def _latencies(
    gpu: GpuDevice, node: int, clock: GpuClock, traverse: GpuFunction, setting: Mapping[str, object]
) -> Sequence[NodeFigure]:
    """Measure how long a step takes that needs a page of the other side, one after another."""
    size = (_STEPS + 1) * _STRIDE_WORDS * 8
    on = clock.streams[0]
    with managed_memory(size) as memory:
        words = _host_bytes(memory, size).view(np.uint64)

        def place(location: int) -> None:
            words[::_STRIDE_WORDS] = np.arange(1, _STEPS + 2) * _STRIDE_WORDS
            prefetch(memory, size, location, node, on)
            _synchronize(on)

        def on_gpu() -> float:
            place(_HOST)
            arguments = [address_argument(memory), (_STEPS, ctypes.c_int)]
            return clock.seconds(
                lambda each: traverse.launch((1, 1, 1), (1, 1, 1), arguments, each)
            )

        def on_host() -> float:
            place(gpu.index)
            view = words.data.cast("B").cast("Q")
            return seconds_of(partial(_follow, view))

        return [
            _step_figure("UM_Latency_HostToGPU", on_gpu, setting),
            _step_figure("UM_Latency_GPUToHost", on_host, setting),
        ]


def _step_figure(
    name: str, seconds: Callable[[], float], setting: Mapping[str, object]
) -> NodeFigure:
    seconds()
    samples = [seconds() * 1e9 / _STEPS for _ in range(_LATENCY_REPEATS)]
    return figure(name, "ns", samples, {**setting, "steps": _STEPS})


def _follow(words: memoryview) -> None:
    at = 0
    for _ in range(_STEPS):
        at = words[at]


def _host_bytes(address: int, size: int) -> npt.NDArray[np.uint8]:
    """Return memory as the host sees it."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _write_ones(values: npt.NDArray[np.uint8]) -> None:
    values[...] = 1


def _synchronize(on: Any) -> None:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuStreamSynchronize, on)
