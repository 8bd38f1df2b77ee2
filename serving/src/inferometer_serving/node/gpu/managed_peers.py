"""Managed memory that moves between GPUs: on demand, by prefetch, and page after page."""

from collections.abc import Iterator, Mapping
from functools import partial

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice, compile_kernels
from inferometer_serving.node.gpu.clock import Work, gpu_clock, pair_clock
from inferometer_serving.node.gpu.contexts import opened_in
from inferometer_serving.node.gpu.copies import rate
from inferometer_serving.node.gpu.managed_memory import (
    CHAIN_BYTES,
    LOG2_MANAGED_SIZES,
    MANAGED_KERNELS,
    ManagedMoves,
    PageChain,
    managed_memory,
    page_touches,
    step_figure,
)
from inferometer_serving.node.gpu.zero_copy import WORD_KERNELS, long_kernel

MANAGED_PEER_FIGURES = (
    *("UM_Demand_GPUToGPU", "UM_Prefetch_GPUToGPU", "implicit_managed_GPUWrGPU"),
    "UM_Latency_GPUToGPU",
)
MANAGED_DUPLEX_FIGURES = ("Demand_Duplex_GPUGPU", "Prefetch_Duplex_GPUGPU")
_LARGEST = 1 << LOG2_MANAGED_SIZES[-1]


def managed_between(
    source: GpuDevice, target: GpuDevice, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    """Measure managed memory that moves to the GPU whose context is current from another."""
    node = int(str(setting["node"]))
    with (
        gpu_clock(target) as clock,
        compile_kernels(target, MANAGED_KERNELS, ["touch", "traverse"]) as kernels,
        compile_kernels(target, WORD_KERNELS, ["write_longs"]) as writes,
    ):
        with managed_memory(_LARGEST) as memory:
            moves = ManagedMoves(target.index, node, clock, kernels["touch"], (memory,))
            for log2_bytes in LOG2_MANAGED_SIZES:
                size = 1 << log2_bytes
                write = long_kernel(writes["write_longs"], memory, size)
                demand = partial(moves.demand_to_gpu, size, source.index)
                ahead = partial(moves.prefetch, size, source.index, target.index)
                writing = partial(moves.demand_to_gpu, size, source.index, write)
                yield rate("UM_Demand_GPUToGPU", size, demand, setting)
                yield rate("UM_Prefetch_GPUToGPU", size, ahead, setting)
                yield rate("implicit_managed_GPUWrGPU", size, writing, setting)
        with managed_memory(CHAIN_BYTES) as memory:
            chain = PageChain(memory, node, clock)
            seconds = partial(chain.seconds_on_gpu, kernels["traverse"], source.index)
            yield step_figure("UM_Latency_GPUToGPU", seconds, setting)


def managed_both_ways(
    gpu: GpuDevice, other: GpuDevice, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    """Measure managed memory that two GPUs take from each other at once.

    The context of the first one is current.
    """
    with (
        pair_clock(gpu, other) as pair,
        compile_kernels(gpu, MANAGED_KERNELS, ["touch"]) as kernels,
        opened_in(
            pair.context, compile_kernels(other, MANAGED_KERNELS, ["touch"])
        ) as other_kernels,
        managed_memory(_LARGEST) as memory,
        managed_memory(_LARGEST) as back,
    ):
        node, touch = int(str(setting["node"])), kernels["touch"]
        moves = ManagedMoves(gpu.index, node, pair.clock, touch, (memory, back))

        def exchange(size: int, work: Work, other_work: Work) -> float:
            moves.place(size, other.index, gpu.index)
            return pair.seconds_together(work, other_work)

        for log2_bytes in LOG2_MANAGED_SIZES:
            size = 1 << log2_bytes
            demand = partial(
                exchange,
                size,
                moves.touches(memory, size),
                page_touches(other_kernels["touch"], back, size),
            )
            ahead = partial(
                exchange,
                size,
                moves.prefetches(memory, size, gpu.index),
                moves.prefetches(back, size, other.index),
            )
            yield rate("Demand_Duplex_GPUGPU", size, demand, setting, moved=2 * size)
            yield rate("Prefetch_Duplex_GPUGPU", size, ahead, setting, moved=2 * size)
