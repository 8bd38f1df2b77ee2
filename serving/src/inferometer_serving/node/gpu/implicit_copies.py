"""Transfers that loads and stores of all bytes cause, in managed memory and in pinned memory.

As in Comm|Scope a grid of 2048 x 256 threads accesses 8 bytes at a time, or all CPUs of the NUMA
node write. Managed memory starts on the other side; pinned memory was just written by the host.
"""

import ctypes
import os
from collections.abc import Mapping
from functools import partial

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice, compile_kernels
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.copies import rate
from inferometer_serving.node.gpu.host_buffers import device_address, pinned_memory
from inferometer_serving.node.gpu.managed_memory import (
    HOST,
    LOG2_MANAGED_SIZES,
    MANAGED_KERNELS,
    ManagedMoves,
    managed_memory,
    require_managed_memory,
)
from inferometer_serving.node.gpu.zero_copy import WORD_KERNELS, long_kernel

IMPLICIT_MANAGED_FIGURES = (
    *("implicit_managed_GPURdHost", "implicit_managed_GPUWrHost", "implicit_managed_HostWrGPU"),
)
IMPLICIT_MAPPED_FIGURES = ("implicit_mapped_GPURdHost", "implicit_mapped_GPUWrHost")
_LOOPS = {"GPURdHost": "read_longs", "GPUWrHost": "write_longs"}
_LARGEST = 1 << LOG2_MANAGED_SIZES[-1]


def implicit_managed(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure loads and stores in managed memory that is on the other side."""
    require_managed_memory(gpu)
    threads = len(os.sched_getaffinity(0))
    found = []
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, MANAGED_KERNELS, ["touch"]) as kernels,
        compile_kernels(gpu, WORD_KERNELS, [*_LOOPS.values()]) as loops,
        managed_memory(_LARGEST) as memory,
    ):
        node = int(str(setting["node"]))
        moves = ManagedMoves(gpu.index, node, clock, kernels["touch"], (memory,))
        for log2_bytes in LOG2_MANAGED_SIZES:
            size = 1 << log2_bytes
            for name, kernel in _LOOPS.items():
                work = long_kernel(loops[kernel], memory, size)
                seconds = partial(moves.demand_to_gpu, size, HOST, work)
                found.append(rate(f"implicit_managed_{name}", size, seconds, setting))
            seconds = partial(moves.demand_to_host, threads, size, 1)
            at = {**setting, "threads": threads}
            found.append(rate("implicit_managed_HostWrGPU", size, seconds, at))
    return found


def implicit_mapped(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure loads and stores in pinned memory of the NUMA node on which this runs."""
    found = []
    with (
        gpu_clock(gpu) as clock,
        compile_kernels(gpu, WORD_KERNELS, [*_LOOPS.values()]) as loops,
        pinned_memory(_LARGEST) as memory,
    ):
        for log2_bytes in LOG2_MANAGED_SIZES:
            size = 1 << log2_bytes
            for name, kernel in _LOOPS.items():
                work = long_kernel(loops[kernel], device_address(memory), size)
                seconds = partial(_after_writes, clock, work, memory, size)
                found.append(rate(f"implicit_mapped_{name}", size, seconds, setting))
    return found


def _after_writes(clock: GpuClock, work: Work, memory: int, size: int) -> float:
    ctypes.memset(memory, 1, size)
    return clock.seconds(work)
