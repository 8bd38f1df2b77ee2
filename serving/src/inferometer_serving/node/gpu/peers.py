"""Transfers from one GPU to another, with and without direct access to the other's memory."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.gpu.device import GpuDevice, call, compiled, device_memory, open_gpu
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.copies import rate, within_gpus
from inferometer_serving.node.gpu.managed_memory import managed_between
from inferometer_serving.node.gpu.zero_copy import WORD_KERNELS, word_kernel
from inferometer_serving.node.samples import NotMeasurableError

PEER_FIGURES = (
    *("cudaMemcpyAsync_GPUToGPUPeer", "cudaMemcpyAsync_Duplex_GPUGPUPeer"),
    *("cudaMemcpyPeerAsync_GPUToGPUPeer", "cudaMemcpyPeerAsync_Duplex_GPUGPUPeer"),
    "ZeroCopy_GPUToGPU",
)
"""With direct access."""
STAGED_FIGURES = (
    *("cudaMemcpyPeerAsync_GPUToGPU", "cudaMemcpyPeerAsync_Duplex_GPUGPU"),
    *("UM_Demand_GPUToGPU", "UM_Prefetch_GPUToGPU"),
)
"""Without."""
_LOG2_SIZES = (12, 16, 20, 24, 27)
"""Larger copies from peer to peer do not run alone: the driver splits them."""


def staged_transfers(source: int, target: int, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure transfers that the driver takes through the host, or moves as managed memory."""
    with open_gpu(target) as reader, open_gpu(source) as gpu:
        found = list(_peer_copies(gpu, reader, "", setting))
    with open_gpu(source) as gpu, open_gpu(target) as reader:
        return found + managed_between(gpu, reader, setting)


def direct_transfers(source: int, target: int, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure transfers over the link between the GPUs."""
    found: list[NodeFigure] = []
    with open_gpu(target) as reader, open_gpu(source) as gpu, _peer_access(gpu, reader):
        found += _peer_copies(gpu, reader, "Peer", setting)
    with open_gpu(source) as gpu, open_gpu(target) as reader, _peer_access(reader, gpu):
        found += _remote_reads(gpu, reader, setting)
    return found


def _peer_copies(
    gpu: GpuDevice, other: GpuDevice, suffix: str, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    """Copy from the GPU whose context is current to another, and both ways."""
    largest = 1 << _LOG2_SIZES[-1]
    with ExitStack() as stack:
        clock = stack.enter_context(gpu_clock(gpu))
        own, own_back = (stack.enter_context(device_memory(largest)) for _ in range(2))
        remote, remote_back = (stack.enter_context(_memory_of(other, largest)) for _ in range(2))
        contexts = tuple(stack.enter_context(_context(each)) for each in (gpu, other))
        for log2_bytes in _LOG2_SIZES:
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


def _remote_reads(
    owner: GpuDevice, reader: GpuDevice, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    """Let a kernel of the reader, whose context is current, read the owner's memory."""
    largest = 1 << _LOG2_SIZES[-1]
    with (
        gpu_clock(reader) as clock,
        compiled(reader, WORD_KERNELS, ["read_words"]) as kernels,
        _memory_of(owner, largest) as memory,
    ):
        for log2_bytes in _LOG2_SIZES:
            reads = word_kernel(kernels["read_words"], memory, 1 << log2_bytes)
            seconds = partial(clock.seconds, reads)
            yield rate("ZeroCopy_GPUToGPU", 1 << log2_bytes, seconds, setting)


def _peer_copy(destination: int, source: int, contexts: tuple[Any, ...], size: int) -> Work:
    """Return a copy; `contexts` are those of destination and source."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    to, of = contexts
    return lambda on: call(driver.cuMemcpyPeerAsync, destination, to, source, of, size, on)


@contextmanager
def _context(gpu: GpuDevice) -> Iterator[Any]:
    """Yield the primary context of a GPU, without making it current."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    context = call(driver.cuDevicePrimaryCtxRetain, gpu.device)
    try:
        yield context
    finally:
        call(driver.cuDevicePrimaryCtxRelease, gpu.device)


@contextmanager
def _memory_of(gpu: GpuDevice, size: int) -> Iterator[int]:
    """Allocate memory of a GPU whose context need not be current."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    with ExitStack() as stack:
        call(driver.cuCtxPushCurrent, stack.enter_context(_context(gpu)))
        try:
            address = stack.enter_context(device_memory(size))
        finally:
            call(driver.cuCtxPopCurrent)
        yield address


@contextmanager
def _peer_access(gpu: GpuDevice, other: GpuDevice) -> Iterator[None]:
    """Let the GPU whose context is current access another's memory.

    Raises NotMeasurableError if their link has no such access.
    """
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    if not call(driver.cuDeviceCanAccessPeer, gpu.device, other.device):
        raise NotMeasurableError(
            f"GPU {gpu.index} has no direct access to the memory of GPU {other.index}"
        )
    with _context(other) as context:
        call(driver.cuCtxEnablePeerAccess, context, 0)
        try:
            yield
        finally:
            call(driver.cuCtxDisablePeerAccess, context)
