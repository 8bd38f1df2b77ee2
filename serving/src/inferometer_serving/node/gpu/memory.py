"""A GPU's own memory: its bandwidth by the loops of STREAM, and the latency of dependent loads.

Loops count the bytes that they read and write. Latency is that of one thread that follows pointers,
through memory of the GPU by working-set size, and through memory of the host.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import (
    GpuDevice,
    GpuFunction,
    address_argument,
    compile_kernels,
    device_memory,
    write,
)
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.copies import rate
from inferometer_serving.node.gpu.host_buffers import device_address, pinned_memory

MEMORY_FIGURES = (
    *("gpu/stream/read", "gpu/stream/write", "gpu/stream/copy", "gpu/stream/triad"),
    "gpu/latency/device",
)
HOST_LATENCY_FIGURES = ("gpu/latency/host",)
_LARGEST_ARRAY = 1 << 30
_KERNELS = """
#define ARRAYS const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c
#define LOOP unsigned long long step = (unsigned long long)gridDim.x * blockDim.x; \\
    _Pragma("unroll 4") \\
    for (unsigned long long at = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; \\
         at < count; at += step)
extern "C" __global__ void read(ARRAYS, unsigned long long count) {
    float sum = 0;
    LOOP { float4 value = a[at]; sum += value.x + value.y + value.z + value.w; }
    if (sum == 0.123f) c[0].x = sum;
}
extern "C" __global__ void write(ARRAYS, unsigned long long count) {
    LOOP c[at] = make_float4(1, 2, 3, 4);
}
extern "C" __global__ void copy(ARRAYS, unsigned long long count) {
    LOOP c[at] = a[at];
}
extern "C" __global__ void triad(ARRAYS, unsigned long long count) {
    LOOP {
        float4 x = a[at], y = b[at];
        c[at] = make_float4(x.x + 3 * y.x, x.y + 3 * y.y, x.z + 3 * y.z, x.w + 3 * y.w);
    }
}
extern "C" __global__ void chase(void** start, int loads, int target) {
    if (blockIdx.x != target) return;
    void** at = start;
    for (int load = 0; load < loads; load++) at = (void**)*at;
    if (at == 0) __trap();
}
"""
_MOVED = {"read": 1, "write": 1, "copy": 2, "triad": 3}
"""Arrays that each loop reads and writes."""
_BLOCK, _BLOCKS_OF_PROCESSOR = 256, 8
_LOG2_SETS = (14, 18, 22, 24, 28)
"""Working sets that a first-level cache holds, the second-level cache, and the memory."""
_LINE_BYTES = 128
_LOADS, _LATENCY_REPEATS = 1 << 14, 5
_HOST_BYTES, _HOST_LOADS = 2 << 20, 1 << 10
_SEED = 42


def device_loops(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure the loops over arrays of 1 GiB, or less on a small GPU, and the latency ladder."""
    size = min(_LARGEST_ARRAY, 1 << (gpu.memory_bytes // 16).bit_length())
    found = []
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, _KERNELS, [*_MOVED, "chase"]) as kernels,
        device_memory(size) as first,
        device_memory(size) as second,
        device_memory(size) as target,
    ):
        ones = np.ones(size // 4, np.float32)
        write(first, ones)
        write(second, ones)
        for name, arrays in _MOVED.items():
            loop = _loop(gpu, kernels[name], (first, second, target), size)
            found.append(
                rate(
                    f"gpu/stream/{name}",
                    size,
                    partial(clock.seconds, loop),
                    setting,
                    moved=arrays * size,
                )
            )
        sweep = partial(clock.seconds, _loop(gpu, kernels["write"], (first, second, target), size))
        chase = partial(_chase, kernels["chase"], gpu)
        for log2_bytes in _LOG2_SETS:
            working_set = min(1 << log2_bytes, size)
            # A load of a large set does not meet what an earlier one, or the copy, left in a cache.
            before = sweep if working_set > gpu.l2_cache_bytes else None
            at = {**setting, "bytes": working_set}
            found.append(_step_of_ladder(clock, chase, first, before, at))
    return found


def _step_of_ladder(
    clock: GpuClock,
    chase: Callable[[int, int, int], Work],
    memory: int,
    before: Callable[[], object] | None,
    setting: Mapping[str, object],
) -> NodeFigure:
    order = cycle_order(int(str(setting["bytes"])))
    write(memory, pointer_cycle(memory, order))
    starts = (int(memory + line * _LINE_BYTES) for line in order[::_LOADS])
    chases = cycle(chase(start, _LOADS, 0) for start in starts)
    if before is None:
        clock.seconds(chase(memory, len(order), 0))
    seconds = partial(_next_seconds, clock, chases, before)
    return _latency("gpu/latency/device", seconds, _LOADS, setting)


def host_latency(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure loads from 2 MiB of pinned memory of the host, as the mean over all processors."""
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, _KERNELS, ["chase"]) as kernels,
        pinned_memory(_HOST_BYTES) as host,
    ):
        seen = device_address(host)
        chain = pointer_cycle(seen, cycle_order(_HOST_BYTES))
        ctypes.memmove(host, chain.ctypes.data, chain.nbytes)

        def seconds() -> float:
            launches = [
                _chase(kernels["chase"], gpu, seen, _HOST_LOADS, target)
                for target in range(gpu.multiprocessors)
            ]
            return clock.seconds(lambda on: [launch(on) for launch in launches])

        loads = _HOST_LOADS * gpu.multiprocessors
        at = {**setting, "bytes": _HOST_BYTES}
        return [_latency("gpu/latency/host", seconds, loads, at)]


def _next_seconds(
    clock: GpuClock, works: Iterator[Work], before: Callable[[], object] | None
) -> float:
    if before is not None:
        before()
    return clock.seconds(next(works))


def cycle_order(size: int) -> npt.NDArray[np.int64]:
    """Return the lines of 128 bytes of memory in a random order that begins with the first."""
    order = np.random.default_rng(_SEED).permutation(size // _LINE_BYTES)
    return np.roll(order, -int(np.flatnonzero(order == 0)[0]))


def pointer_cycle(base: int, order: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return memory whose lines each begin with the address of the next one in an order.

    The addresses are those that it has when it begins at `base`; the last line leads to the first.
    """
    words = _LINE_BYTES // 8
    chain = np.zeros(len(order) * words, np.uint64)
    chain[order * words] = (base + np.roll(order, -1) * _LINE_BYTES).astype(np.uint64)
    return chain


def _latency(
    name: str, seconds: Callable[[], float], loads: int, setting: Mapping[str, object]
) -> NodeFigure:
    seconds()
    samples = [seconds() * 1e9 / loads for _ in range(_LATENCY_REPEATS)]
    return figure(name, "ns", samples, setting)


def _loop(gpu: GpuDevice, kernel: GpuFunction, arrays: tuple[int, int, int], size: int) -> Work:
    grid = (_BLOCKS_OF_PROCESSOR * gpu.multiprocessors, 1, 1)

    def launch(on: Any) -> None:
        arguments = [*map(address_argument, arrays), (size // 16, ctypes.c_ulonglong)]
        kernel.launch(grid, (_BLOCK, 1, 1), arguments, on)

    return launch


def _chase(kernel: GpuFunction, gpu: GpuDevice, start: int, loads: int, target: int) -> Work:
    def launch(on: Any) -> None:
        arguments = [address_argument(start), (loads, ctypes.c_int), (target, ctypes.c_int)]
        kernel.launch((gpu.multiprocessors, 1, 1), (1, 1, 1), arguments, on)

    return launch
