"""Copies between host and GPU by cudaMemcpyAsync, one way and both ways, and within a GPU.

Pageable copies block the caller and are timed by the clock on the wall, others by events.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import GpuDevice, call, device_memory
from inferometer_serving.node.gpu.cache_flush import Flush, compile_flush
from inferometer_serving.node.gpu.clock import GpuClock, Work, gpu_clock
from inferometer_serving.node.gpu.host_buffers import (
    pageable_memory,
    pinned_memory,
    write_combining_memory,
)
from inferometer_serving.node.samples import seconds_of

LOG2_SIZES = (12, 16, 20, 24, 28)
LOG2_LOCAL_SIZES = (12, 16, 20, 24, 28, 30)
_SMALL_REPEATS, _LARGE_REPEATS, _LOG2_SMALL = 15, 7, 20
"""Small transfers scatter more, and take less time."""
_LOG2_FLUSHED_SIZES = (12, 16, 20, 24)
_LOG2_OVERLAPPED, _OVERLAPPED = 24, 4
"""Copies one after another in each direction, of large sizes: the tail, in which one direction has
the link for itself, is then short."""
_OPENERS: Mapping[str, Callable[[int], AbstractContextManager[int]]] = MappingProxyType(
    {"Host": pageable_memory, "Pinned": pinned_memory, "WC": write_combining_memory}
)
"""The kinds of host memory, by Comm|Scope's names."""
FLUSHED_FIGURES = ("cudaMemcpyAsync_PinnedToGPU", "cudaMemcpyAsync_GPUToPinned")
COPY_FIGURES = (
    *(f"cudaMemcpyAsync_{kind}ToGPU" for kind in _OPENERS),
    *(f"cudaMemcpyAsync_GPUTo{kind}" for kind in _OPENERS),
    "cudaMemcpyAsync_HostToPinned",
    "cudaMemcpyAsync_Duplex_Host",
    "cudaMemcpyAsync_Duplex_Pinned",
)


def host_copies(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure copies between the GPU and memory of the NUMA node on which this runs."""
    sizes = _sizes(LOG2_SIZES)
    largest = sizes[-1]
    found: list[NodeFigure] = []
    for kind in _OPENERS:
        found += copies_of_kind(gpu, kind, sizes, setting)
    with (
        gpu_clock(gpu) as clock,
        pageable_memory(largest) as host,
        pinned_memory(largest) as pinned,
    ):
        for size in sizes:
            seconds = partial(_host_copy_seconds, clock, pinned, host, size)
            found.append(_rate("HostToPinned", size, seconds, setting))
    return found


def copies_of_kind(
    gpu: GpuDevice, kind: str, sizes: Sequence[int], setting: Mapping[str, object]
) -> list[NodeFigure]:
    """Measure copies between the GPU and one kind of host memory; the last size is the largest."""
    largest, opener = sizes[-1], _OPENERS[kind]
    with (
        gpu_clock(gpu) as clock,
        opener(largest) as host,
        opener(largest) as host_back,
        device_memory(largest) as device,
        device_memory(largest) as device_back,
    ):
        found: list[NodeFigure] = []
        for size in sizes:
            to_gpu = _to_gpu(device, host, size)
            to_host = _to_host(host_back, device_back, size)
            found += _both_ways(kind, size, (to_gpu, to_host), clock, setting)
    return found


def _both_ways(
    kind: str, size: int, works: tuple[Work, Work], clock: GpuClock, setting: Mapping[str, object]
) -> Iterator[NodeFigure]:
    timed = partial(_wall_seconds, clock) if kind == "Host" else partial(clock.seconds_together)
    yield _rate(f"{kind}ToGPU", size, partial(timed, works[:1]), setting)
    yield _rate(f"GPUTo{kind}", size, partial(timed, works[1:]), setting)
    if f"cudaMemcpyAsync_Duplex_{kind}" in COPY_FIGURES:
        times = _OVERLAPPED if kind != "Host" and size >= 1 << _LOG2_OVERLAPPED else 1
        both = [_repeated(each, times) for each in works]
        moved = 2 * size * times
        yield _rate(f"Duplex_{kind}", size, partial(timed, both), setting, moved=moved)


def flushed_copies(gpu: GpuDevice, setting: Mapping[str, object]) -> list[NodeFigure]:
    """Measure copies of pinned memory of which no CPU has a copy in its caches."""
    flush = compile_flush()
    sizes = _sizes(_LOG2_FLUSHED_SIZES)
    at = {**setting, "cache": "flushed"}
    found = []
    with (
        gpu_clock(gpu) as clock,
        pinned_memory(sizes[-1]) as host,
        device_memory(sizes[-1]) as device,
    ):
        for size in sizes:
            for name, work in (
                ("PinnedToGPU", _to_gpu(device, host, size)),
                ("GPUToPinned", _to_host(host, device, size)),
            ):
                seconds = partial(_flushed_seconds, flush, clock, work, (host, size))
                found.append(_rate(name, size, seconds, at))
    return found


def _flushed_seconds(flush: Flush, clock: GpuClock, work: Work, memory: tuple[int, int]) -> float:
    address, size = memory
    ctypes.memset(address, 1, size)
    flush(address, address + size)
    return clock.seconds(work)


def _repeated(work: Work, times: int) -> Work:
    return lambda on: [work(on) for _ in range(times)]


def local_copies(
    gpu: GpuDevice, setting: Mapping[str, object], log2_sizes: Sequence[int] = LOG2_LOCAL_SIZES
) -> list[NodeFigure]:
    """Measure copies from memory of the GPU to memory of the same GPU."""
    sizes = [each for each in _sizes(log2_sizes) if 8 * each <= gpu.memory_bytes]
    largest = sizes[-1]
    with (
        gpu_clock(gpu) as clock,
        device_memory(largest) as source,
        device_memory(largest) as destination,
    ):
        copies = {size: within_gpus(destination, source, size) for size in sizes}
        return [
            _rate("GPUToGPU", size, partial(clock.seconds, work), setting)
            for size, work in copies.items()
        ]


def _rate(
    name: str,
    size: int,
    seconds: Callable[[], float],
    setting: Mapping[str, object],
    moved: int | None = None,
) -> NodeFigure:
    return rate(f"cudaMemcpyAsync_{name}", size, seconds, setting, moved)


def rate(
    name: str,
    size: int,
    seconds: Callable[[], float],
    setting: Mapping[str, object],
    moved: int | None = None,
) -> NodeFigure:
    """Return the bytes per second of an operation, which runs once before it counts.

    `moved` is how many bytes it moves, unless that is its size.
    """
    seconds()
    samples = [(moved or size) / seconds() for _ in range(repeats(size))]
    return figure(name, "bytes/s", samples, {**setting, "bytes": size})


def repeats(size: int) -> int:
    """Return how often a transfer of a size is measured."""
    return _SMALL_REPEATS if size <= 1 << _LOG2_SMALL else _LARGE_REPEATS


def _sizes(log2_sizes: Sequence[int]) -> list[int]:
    return [1 << each for each in log2_sizes]


def _to_gpu(destination: int, source: int, size: int) -> Work:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return lambda on: call(driver.cuMemcpyHtoDAsync, destination, source, size, on)


def _to_host(destination: int, source: int, size: int) -> Work:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return lambda on: call(driver.cuMemcpyDtoHAsync, destination, source, size, on)


def within_gpus(destination: int, source: int, size: int) -> Work:
    """Return a copy from one address of GPUs to another."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return lambda on: call(driver.cuMemcpyDtoDAsync, destination, source, size, on)


def _host_copy_seconds(clock: GpuClock, destination: int, source: int, size: int) -> float:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return _wall_seconds(
        clock, [lambda on: call(driver.cuMemcpyAsync, destination, source, size, on)]
    )


def _wall_seconds(clock: GpuClock, works: Sequence[Work]) -> float:
    """Return the time until all works, each in its stream, have ended."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    def run() -> None:
        for work, on in zip(works, clock.streams, strict=False):
            work(on)
        for _, on in zip(works, clock.streams, strict=False):
            call(driver.cuStreamSynchronize, on)

    return seconds_of(run)
