"""The theoretical occupancy of a kernel, and the theoretical peak rates of a GPU."""

from dataclasses import dataclass
from typing import Any

_LANES = 32
"""Threads of a warp."""
_PARTITIONS = 4
"""Schedulers of a multiprocessor. Each has a quarter of its registers."""
_REGISTER_UNIT = 256
"""Each warp gets a multiple of this number of registers."""
_SHARED_UNIT = 128
"""Each block gets a multiple of this number of bytes of shared memory."""
_FP32_LANES = {
    (7, 0): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
}
"""FP32 units of a multiprocessor by compute capability (CUDA C++ programming guide)."""
_TF32_MACS = {(8, 0): 512, (9, 0): 1024}
"""TF32 multiply-accumulates of a multiprocessor's tensor cores per cycle (A100: 156 TFLOP/s at
1,410 MHz; H100: 494 TFLOP/s at 1,830 MHz)."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Limits of one multiprocessor for the blocks that it runs at the same time."""

    threads: int
    registers: int
    blocks: int
    reserved_shared_bytes: int
    """Shared memory that CUDA reserves for itself in each block."""

    def occupancy(
        self, block_threads: int, registers: int, shared_bytes: int, shared_capacity_bytes: int
    ) -> float:
        """Return the share of its warps that the blocks of a kernel can fill, from 0 to 1.

        The result is the theoretical occupancy of CUDA's occupancy calculator, an upper bound of
        the achieved one. `registers` is the number for each thread, and `shared_bytes` the shared
        memory of each block. `shared_capacity_bytes` is the shared memory that the multiprocessor
        had for all blocks while the kernel ran; 0 sets no limit.
        """
        block_warps = -(-block_threads // _LANES)
        warps = self.threads // _LANES
        blocks = min(self.blocks, warps // block_warps)
        if registers:
            each = _rounded_up(registers * _LANES, _REGISTER_UNIT)
            by_registers = _PARTITIONS * (self.registers // _PARTITIONS // each)
            blocks = min(blocks, by_registers // block_warps)
        shared = _rounded_up(shared_bytes + self.reserved_shared_bytes, _SHARED_UNIT)
        if shared_capacity_bytes and shared:
            blocks = min(blocks, shared_capacity_bytes // shared)
        return blocks * block_warps / warps


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True, slots=True)
class GpuPeaks:
    """A GPU and its theoretical peak rates; None if the rate of its architecture is not known."""

    name: str
    multiprocessors: int
    fp32_flops_per_second: int | None
    """A multiply-accumulate counts as two operations."""
    tf32_flops_per_second: int | None
    """The same on tensor cores, without sparsity."""
    bytes_per_second: int
    """Of its memory, reads and writes together."""

    def to_json(self) -> dict[str, Any]:
        """Return the member `gpu` of the profile's document."""
        members: dict[str, Any] = {
            "name": self.name,
            "multiprocessors": self.multiprocessors,
            "bytesPerSecond": self.bytes_per_second,
        }
        if self.fp32_flops_per_second is not None:
            members["fp32FlopsPerSecond"] = self.fp32_flops_per_second
        if self.tf32_flops_per_second is not None:
            members["tf32FlopsPerSecond"] = self.tf32_flops_per_second
        return members


def peaks(
    name: str,
    *,
    capability: tuple[int, int],
    multiprocessors: int,
    clock_khz: int,
    memory_clock_khz: int,
    bus_bits: int,
) -> GpuPeaks:
    """Return the peak rates of a GPU at its highest clocks, `clock_khz` and `memory_clock_khz`.

    `bus_bits` is the width of the memory bus. Memory moves data twice in each of its cycles.
    """
    cycles_per_second = clock_khz * 1000 * multiprocessors

    def rate(per_cycle: int | None) -> int | None:
        return None if per_cycle is None else 2 * per_cycle * cycles_per_second

    return GpuPeaks(
        name=name,
        multiprocessors=multiprocessors,
        fp32_flops_per_second=rate(_FP32_LANES.get(capability)),
        tf32_flops_per_second=rate(_TF32_MACS.get(capability)),
        bytes_per_second=2 * memory_clock_khz * 1000 * bus_bits // 8,
    )
