"""Transfers from one GPU to another, with and without direct access to the other's memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import (
    GpuDevice,
    GpuFunction,
    call,
    compile_kernels,
    device_memory,
    open_gpu,
)
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.contexts import memory_of, peer_access, primary_context
from inferometer_serving.node.gpu.copies import rate, within_gpus
from inferometer_serving.node.gpu.managed_peers import MANAGED_PEER_FIGURES, managed_between
from inferometer_serving.node.gpu.zero_copy import WORD_KERNELS, long_kernel, word_kernel

PEER_FIGURES = (
    *("cudaMemcpyAsync_GPUToGPUPeer", "cudaMemcpyAsync_Duplex_GPUGPUPeer"),
    *("cudaMemcpyPeerAsync_GPUToGPUPeer", "cudaMemcpyPeerAsync_Duplex_GPUGPUPeer"),
    *("ZeroCopy_GPUToGPU", "ZeroCopy_GPUToGPU_Write", "implicit_mapped_GPUWrGPU"),
)
"""With direct access."""
STAGED_FIGURES = (
    *("cudaMemcpyPeerAsync_GPUToGPU", "cudaMemcpyPeerAsync_Duplex_GPUGPU"),
    *MANAGED_PEER_FIGURES,
)
"""Without."""
LOG2_PEER_SIZES = (12, 16, 20, 24, 27)
"""Larger copies from peer to peer do not run alone: the driver splits them."""
_Launch = Callable[[GpuFunction, int, int], Work]
_READS: Mapping[str, tuple[str, _Launch]] = {"ZeroCopy_GPUToGPU": ("read_words", word_kernel)}
_WRITES: Mapping[str, tuple[str, _Launch]] = {
    "ZeroCopy_GPUToGPU_Write": ("write_words", word_kernel),
    "implicit_mapped_GPUWrGPU": ("write_longs", long_kernel),
}


def staged_transfers(source: int, target: int, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure transfers that the driver takes through the host, or moves as managed memory."""
    with open_gpu(target) as reader, open_gpu(source) as gpu:
        found = list(_peer_copies(gpu, reader, "", setting))
    with open_gpu(source) as gpu, open_gpu(target) as reader:
        found += managed_between(gpu, reader, setting)
    return found


def direct_transfers(source: int, target: int, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure transfers over the link between the GPUs."""
    found: list[NodeFigure] = []
    with open_gpu(target) as reader, open_gpu(source) as gpu, peer_access(gpu, reader):
        found += _peer_copies(gpu, reader, "Peer", setting)
        found += _remote_accesses(gpu, reader, _WRITES, setting)
    with open_gpu(source) as gpu, open_gpu(target) as reader, peer_access(reader, gpu):
        found += _remote_accesses(reader, gpu, _READS, setting)
    return found


def _peer_copies(
    gpu: GpuDevice, other: GpuDevice, suffix: str, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    """Copy from the GPU whose context is current to another, and both ways."""
    largest = 1 << LOG2_PEER_SIZES[-1]
    with ExitStack() as stack:
        clock = stack.enter_context(gpu_clock(gpu))
        own, own_back = (stack.enter_context(device_memory(largest)) for _ in range(2))
        remote, remote_back = (stack.enter_context(memory_of(other, largest)) for _ in range(2))
        contexts = tuple(stack.enter_context(primary_context(each)) for each in (gpu, other))
        for log2_bytes in LOG2_PEER_SIZES:
            size = 1 << log2_bytes
            by_peer = (
                _peer_copy(remote, own, contexts[::-1], size),
                _peer_copy(own_back, remote_back, contexts, size),
            )
            yield from _one_and_both(
                f"cudaMemcpyPeerAsync_{{}}{suffix}", clock, by_peer, size, setting
            )
            if suffix:
                unified = (within_gpus(remote, own, size), within_gpus(own_back, remote_back, size))
                yield from _one_and_both(
                    f"cudaMemcpyAsync_{{}}{suffix}", clock, unified, size, setting
                )


def _one_and_both(
    name: str, clock: GpuClock, works: tuple[Work, Work], size: int, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    one, both = partial(clock.seconds, works[0]), partial(clock.seconds_together, works)
    yield rate(name.format("GPUToGPU"), size, one, setting)
    yield rate(name.format("Duplex_GPUGPU"), size, both, setting, moved=2 * size)


def _remote_accesses(
    worker: GpuDevice,
    owner: GpuDevice,
    kernels: Mapping[str, tuple[str, _Launch]],
    setting: Mapping[str, object],
) -> Iterator[NodeFigure]:
    """Let kernels of the worker, whose context is current, access the owner's memory."""
    largest = 1 << LOG2_PEER_SIZES[-1]
    names = [kernel for kernel, _ in kernels.values()]
    with (
        gpu_clock(worker) as clock,
        compile_kernels(worker, WORD_KERNELS, names) as functions,
        memory_of(owner, largest) as memory,
    ):
        for log2_bytes in LOG2_PEER_SIZES:
            size = 1 << log2_bytes
            for name, (kernel, launch) in kernels.items():
                seconds = partial(clock.seconds, launch(functions[kernel], memory, size))
                yield rate(name, size, seconds, setting)


def _peer_copy(destination: int, source: int, contexts: tuple[Any, ...], size: int) -> Work:
    """Return a copy; `contexts` are those of destination and source."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    to, of = contexts
    return lambda on: call(driver.cuMemcpyPeerAsync, destination, to, source, of, size, on)
