"""Memory of the host that a kernel reads and writes in place: mapped, page after page on demand.

As in Comm|Scope a grid of 256 x 256 threads accesses 4 bytes at a time.
"""

import ctypes
from collections.abc import Mapping
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice, GpuFunction, address_argument, compiled
from inferometer_serving.node.gpu.clock import Work, gpu_clock
from inferometer_serving.node.gpu.copies import LOG2_SIZES, rate
from inferometer_serving.node.gpu.host_buffers import device_address, pinned_memory

ZERO_COPY_FIGURES = (
    "ZeroCopy_HostToGPU",
    "ZeroCopy_GPUToHost",
    "ZeroCopy_Duplex_HostGPU",
)
WORD_KERNELS = """
extern "C" __global__ void read_words(int* words, unsigned long long count) {
    int sum = 0;
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        sum += words[at];
    if (sum == 0x5ca1ab1e) words[0] = sum;
}
extern "C" __global__ void write_words(int* words, unsigned long long count) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        words[at] = 1;
}
"""
_GRID = 256


def zero_copies(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure kernels that read and write host memory of the NUMA node on which this runs."""
    largest = 1 << LOG2_SIZES[-1]
    found = []
    with (
        gpu_clock(gpu) as clock,
        compiled(gpu, WORD_KERNELS, ["read_words", "write_words"]) as kernels,
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

    def launch(on: Any) -> None:
        arguments = [address_argument(address), (size // 4, ctypes.c_ulonglong)]
        kernel.launch((_GRID, 1, 1), (_GRID, 1, 1), arguments, on)

    return launch
