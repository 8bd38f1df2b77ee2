"""Managed memory that moves between host and GPU: on demand, by prefetch, and page after page.

Before each repeat the memory is prefetched to where it starts from. Demand writes one byte of each
page of 4 KiB: on the GPU a warp for each page, on the host one thread or all.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier
from typing import Any

import numpy as np
import numpy.typing as npt

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import (
    GpuDevice,
    GpuFunction,
    address_argument,
    call,
    compile_kernels,
)
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.copies import rate
from inferometer_serving.node.samples import NotMeasurableError, seconds_of

MANAGED_FIGURES = (
    *("UM_Demand_HostToGPU", "UM_Demand_GPUToHost", "UM_Demand_GPUToHostMt"),
    *("UM_Prefetch_HostToGPU", "UM_Prefetch_GPUToHost"),
    *("Demand_Duplex_HostGPU", "Prefetch_Duplex_HostGPU"),
    *("UM_Latency_HostToGPU", "UM_Latency_GPUToHost"),
)
LOG2_MANAGED_SIZES = (12, 16, 20, 24, 27)
MANAGED_KERNELS = """
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
CHAIN_BYTES = (_STEPS + 1) * _STRIDE_WORDS * 8
HOST = -1


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


def require_managed_memory(gpu: GpuDevice) -> None:
    """Raise NotMeasurableError if managed memory cannot move page by page."""
    if not gpu.attribute("CONCURRENT_MANAGED_ACCESS"):
        raise NotMeasurableError("the GPU and the host cannot use managed memory at the same time")


def managed_transfers(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure managed memory between the GPU and the NUMA node on which this runs."""
    require_managed_memory(gpu)
    largest = 1 << LOG2_MANAGED_SIZES[-1]
    found: list[NodeFigure] = []
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, MANAGED_KERNELS, ["touch", "traverse"]) as kernels,
    ):
        node = int(str(setting["node"]))
        with managed_memory(largest) as memory, managed_memory(largest) as other:
            moves = ManagedMoves(gpu.index, node, clock, kernels["touch"], (memory, other))
            for log2_bytes in LOG2_MANAGED_SIZES:
                found += _of_size(moves, 1 << log2_bytes, setting)
        with managed_memory(CHAIN_BYTES) as memory:
            chain = PageChain(memory, node, clock)
            on_gpu = partial(chain.seconds_on_gpu, kernels["traverse"], HOST)
            on_host = partial(chain.seconds_on_host, gpu.index)
            found += [
                step_figure("UM_Latency_HostToGPU", on_gpu, setting),
                step_figure("UM_Latency_GPUToHost", on_host, setting),
            ]
    return found


class ManagedMoves:
    """What moves managed memory, each preceded by a prefetch to where it starts from."""

    def __init__(
        self, gpu: int, node: int, clock: GpuClock, touch: GpuFunction, memory: tuple[int, ...]
    ) -> None:
        self.gpu, self.node, self.clock, self.touch = gpu, node, clock, touch
        self.memory = memory

    def demand_to_gpu(self, size: int, source: int = HOST, work: Work | None = None) -> float:
        """Let the GPU touch each page, or do `work` with the first memory."""
        self.place(size, source)
        return self.clock.seconds(work or self.touches(self.memory[0], size))

    def demand_to_host(self, threads: int, size: int, step: int = mmap.PAGESIZE) -> float:
        """Let the host write a byte of each `step`."""
        self.place(size, self.gpu)
        pages = host_bytes(self.memory[0], size)[::step]
        if threads == 1:
            return seconds_of(partial(_write_ones, pages))
        with ThreadPoolExecutor(threads) as pool:
            ready = Barrier(threads)
            list(pool.map(lambda _: ready.wait(), range(threads)))
            parts = np.array_split(pages, threads)
            return seconds_of(lambda: list(pool.map(_write_ones, parts)))

    def demand_both_ways(self, size: int) -> float:
        """Let the GPU touch what is on the host, and the host what is on the GPU."""
        self.place(size, HOST, self.gpu)
        on = self.clock.streams[0]
        touches = self.touches(self.memory[0], size)
        pages = host_bytes(self.memory[1], size)[:: mmap.PAGESIZE]

        def run() -> None:
            touches(on)
            _write_ones(pages)
            _synchronize(on)

        return seconds_of(run)

    def prefetch(self, size: int, source: int, destination: int) -> float:
        """Move the first memory ahead of its use."""
        self.place(size, source)
        return self.clock.seconds(self.prefetches(self.memory[0], size, destination))

    def prefetch_both_ways(self, size: int) -> float:
        """Move the first memory to the GPU, and the second one to the host."""
        self.place(size, HOST, self.gpu)
        return self.clock.seconds_together(
            [
                self.prefetches(self.memory[0], size, self.gpu),
                self.prefetches(self.memory[1], size, HOST),
            ]
        )

    def place(self, size: int, *locations: int) -> None:
        """Move each memory to where it starts from."""
        on = self.clock.streams[0]
        for address, location in zip(self.memory, locations, strict=False):
            # A page is nowhere until it is touched.
            self.touches(address, size)(on)
            self.prefetches(address, size, location)(on)
        _synchronize(on)

    def touches(self, address: int, size: int) -> Work:
        """Return the writes of the GPU to each page."""
        return page_touches(self.touch, address, size)

    def prefetches(self, address: int, size: int, location: int) -> Work:
        """Return the move of memory to a GPU or the host."""
        return lambda on: prefetch(address, size, location, self.node, on)


def page_touches(touch: GpuFunction, address: int, size: int) -> Work:
    """Return the launch of a kernel that writes a byte of each page."""

    def launch(on: Any) -> None:
        arguments = [address_argument(address), (size, ctypes.c_ulonglong)]
        touch.launch((_GRID, 1, 1), (_GRID, 1, 1), arguments, on)

    return launch


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


def _of_size(moves: ManagedMoves, size: int, setting: Mapping[str, object]) -> Iterator[NodeFigure]:
    threads = len(os.sched_getaffinity(0))
    one_way: dict[str, Callable[[], float]] = {
        "UM_Demand_HostToGPU": partial(moves.demand_to_gpu, size),
        "UM_Demand_GPUToHost": partial(moves.demand_to_host, 1, size),
        "UM_Prefetch_HostToGPU": partial(moves.prefetch, size, HOST, moves.gpu),
        "UM_Prefetch_GPUToHost": partial(moves.prefetch, size, moves.gpu, HOST),
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


class PageChain:
    """Managed memory whose pages are visited one after another, each found by the one before."""

    def __init__(self, memory: int, node: int, clock: GpuClock) -> None:
        self._memory, self._node, self._clock = memory, node, clock
        self._words = host_bytes(memory, CHAIN_BYTES).view(np.uint64)

    def seconds_on_gpu(self, traverse: GpuFunction, source: int) -> float:
        """Visit pages that are on the host or another GPU, by a thread of the clock's GPU."""
        self._place(source)
        arguments = [address_argument(self._memory), (_STEPS, ctypes.c_int)]
        one = (1, 1, 1)
        return self._clock.seconds(lambda on: traverse.launch(one, one, arguments, on))

    def seconds_on_host(self, source: int) -> float:
        """Visit pages that are on a GPU, by this thread."""
        self._place(source)
        return seconds_of(partial(_follow, self._words.data.cast("B").cast("Q")))

    def _place(self, location: int) -> None:
        on = self._clock.streams[0]
        self._words[::_STRIDE_WORDS] = np.arange(1, _STEPS + 2) * _STRIDE_WORDS
        prefetch(self._memory, CHAIN_BYTES, location, self._node, on)
        _synchronize(on)


def step_figure(
    name: str, seconds: Callable[[], float], setting: Mapping[str, object]
) -> NodeFigure:
    """Return the time of a step of a chain, of which `seconds` measures all."""
    seconds()
    samples = [seconds() * 1e9 / _STEPS for _ in range(_LATENCY_REPEATS)]
    return figure(name, "ns", samples, {**setting, "steps": _STEPS})


def _follow(words: memoryview) -> None:
    at = 0
    for _ in range(_STEPS):
        at = words[at]


def host_bytes(address: int, size: int) -> npt.NDArray[np.uint8]:
    """Return memory as the host sees it."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _write_ones(values: npt.NDArray[np.uint8]) -> None:
    values[...] = 1


def _synchronize(on: Any) -> None:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuStreamSynchronize, on)
