"""Memory of the host that a kernel reads and writes in place: mapped, page after page on demand.

As in Comm|Scope a grid of 256 x 256 threads accesses 4 bytes at a time.
"""

import ctypes
from collections.abc import Mapping
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice, GpuFunction, address_argument, compile_kernels
from inferometer_serving.node.gpu.clock import Work, gpu_clock
from inferometer_serving.node.gpu.copies import LOG2_SIZES, rate
from inferometer_serving.node.gpu.host_buffers import device_address, pinned_memory

ZERO_COPY_FIGURES = (
    "ZeroCopy_HostToGPU",
    "ZeroCopy_GPUToHost",
    "ZeroCopy_Duplex_HostGPU",
)
WORD_KERNELS = """
#define KERNELS(words_or_longs, type) \\
extern "C" __global__ void read_##words_or_longs(type* memory, unsigned long long count) { \\
    type sum = 0; \\
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x; \\
    for (unsigned long long at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) \\
        sum += memory[at]; \\
    if (sum == 0x5ca1ab1e) memory[0] = sum; \\
} \\
extern "C" __global__ void write_##words_or_longs(type* memory, unsigned long long count) { \\
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x; \\
    for (unsigned long long at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) \\
        memory[at] = 1; \\
}
KERNELS(words, int)
KERNELS(longs, unsigned long long)
"""
"""Loops over memory, 4 and 8 bytes at a time."""
_BLOCK = 256
_WORD_GRID, _LONG_GRID = 256, 2048


def zero_copies(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure kernels that read and write host memory of the NUMA node on which this runs."""
    largest = 1 << LOG2_SIZES[-1]
    found = []
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, WORD_KERNELS, ["read_words", "write_words"]) as kernels,
        pinned_memory(largest) as source,
        pinned_memory(largest) as target,
    ):
        for log2_bytes in LOG2_SIZES:
            size = 1 << log2_bytes
            reads = word_kernel(kernels["read_words"], device_address(source), size)
            writes = word_kernel(kernels["write_words"], device_address(target), size)
            both = partial(clock.seconds_together, [reads, writes])
            found += [
                rate("ZeroCopy_HostToGPU", size, partial(clock.seconds, reads), setting),
                rate("ZeroCopy_GPUToHost", size, partial(clock.seconds, writes), setting),
                rate("ZeroCopy_Duplex_HostGPU", size, both, setting, moved=2 * size),
            ]
    return found


def word_kernel(kernel: GpuFunction, address: int, size: int) -> Work:
    """Return the launch of a kernel over the 4-byte words of memory."""
    return _launch(kernel, address, size // 4, _WORD_GRID)


def long_kernel(kernel: GpuFunction, address: int, size: int) -> Work:
    """Return the launch of a kernel over the 8-byte words of memory."""
    return _launch(kernel, address, size // 8, _LONG_GRID)


def _launch(kernel: GpuFunction, address: int, count: int, grid: int) -> Work:
    def launch(on: Any) -> None:
        arguments = [address_argument(address), (count, ctypes.c_ulonglong)]
        kernel.launch((grid, 1, 1), (_BLOCK, 1, 1), arguments, on)

    return launch
