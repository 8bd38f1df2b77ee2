"""Kernels and managed memory of two GPUs that take from, or write to, each other at once."""

from collections.abc import Iterator, Mapping
from functools import partial

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice, compile_kernels, device_memory, open_gpu
from inferometer_serving.node.gpu.clock import pair_clock
from inferometer_serving.node.gpu.contexts import (
    memory_of,
    opened_in,
    peer_access,
    primary_context,
)
from inferometer_serving.node.gpu.copies import rate
from inferometer_serving.node.gpu.managed_peers import managed_both_ways
from inferometer_serving.node.gpu.peers import LOG2_PEER_SIZES
from inferometer_serving.node.gpu.zero_copy import WORD_KERNELS, word_kernel

_KERNELS = {
    "ZeroCopy_Duplex_GPUGPU_Read": "read_words",
    "ZeroCopy_Duplex_GPUGPU_Write": "write_words",
}
DIRECT_DUPLEX_FIGURES = tuple(_KERNELS)


def staged_both_ways(first: int, second: int, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure managed memory that two GPUs take from each other."""
    with open_gpu(second) as other, open_gpu(first) as gpu:
        return list(managed_both_ways(gpu, other, setting))


def direct_both_ways(first: int, second: int, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure kernels of two GPUs that access each other's memory."""
    with (
        open_gpu(second) as other,
        open_gpu(first) as gpu,
        peer_access(gpu, other),
        primary_context(other) as context,
        opened_in(context, peer_access(other, gpu)),
    ):
        return list(_zero_copies(gpu, other, setting))


def _zero_copies(
    gpu: GpuDevice, other: GpuDevice, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    """Let the GPU whose context is current access another's memory, and that one its own."""
    largest, names = 1 << LOG2_PEER_SIZES[-1], [*_KERNELS.values()]
    with (
        pair_clock(gpu, other) as pair,
        compile_kernels(gpu, WORD_KERNELS, names) as kernels,
        opened_in(pair.context, compile_kernels(other, WORD_KERNELS, names)) as other_kernels,
        device_memory(largest) as own,
        memory_of(other, largest) as remote,
    ):
        for log2_bytes in LOG2_PEER_SIZES:
            size = 1 << log2_bytes
            for name, kernel in _KERNELS.items():
                seconds = partial(
                    pair.seconds_together,
                    word_kernel(kernels[kernel], remote, size),
                    word_kernel(other_kernels[kernel], own, size),
                )
                yield rate(name, size, seconds, setting, moved=2 * size)
