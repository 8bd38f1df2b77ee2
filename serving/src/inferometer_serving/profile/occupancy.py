"""What a GPU's multiprocessors can hold: theoretical occupancy of a kernel, and peak rates."""

from dataclasses import dataclass
from typing import Any

_LANES = 32
"""Threads of a warp."""
_PARTITIONS = 4
"""Each multiprocessor has four schedulers, with a quarter of the registers each."""
_REGISTER_UNIT = 256
_SHARED_UNIT = 128
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
    """What one multiprocessor has for the blocks that it holds at a time."""

    threads: int
    registers: int
    blocks: int
    reserved_shared_bytes: int
    """What the system takes of the shared memory of each block."""

    def occupancy(
        self, block_threads: int, registers: int, shared_bytes: int, shared_capacity_bytes: int
    ) -> float:
        """Return the share of its warps that blocks of a kernel can fill, from 0 to 1.

        The capacity is the shared memory with which the kernel ran. It bounds the achieved
        occupancy from above (CUDA's occupancy calculator).
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
    """A GPU and its theoretical rates at its highest clocks; None: not known of its kind."""

    name: str
    multiprocessors: int
    fp32_flops_per_second: int | None
    tf32_flops_per_second: int | None
    """By tensor cores, dense."""
    bytes_per_second: int

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
    """Return the rates that follow from the clocks and widths of a GPU.

    A multiply-accumulate is two operations; memory moves data twice in each of its cycles.
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
