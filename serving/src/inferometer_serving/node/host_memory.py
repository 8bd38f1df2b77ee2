"""Copies between NUMA nodes, and page faults."""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.node.machine import available_bytes, numa_cpus, running_on
from inferometer_serving.node.samples import (
    NodeProbe,
    NotMeasurableError,
    seconds_of,
    seconds_per_repeat,
)

_LOG2_SIZES = (12, 16, 20, 24, 28)
_REPEATS = 5
_FAULT_BYTES = 64 << 20

Bytes = npt.NDArray[np.uint8]


def memory_probes() -> Iterator[NodeProbe]:
    """Yield a probe for each pair of NUMA nodes, and those of page faults."""
    nodes = numa_cpus()
    for source, cpus in nodes.items():
        for target in nodes:
            probe = partial(_copies, source, target, cpus, nodes[target])
            yield NodeProbe(f"memcpy ({source} to {target})", probe)
    yield NodeProbe("pageFault", _faults)


def _copies(
    source: int, target: int, own: frozenset[int], others: frozenset[int]
) -> list[NodeFigure]:
    """Copy from memory of one NUMA node to that of another, on a CPU of the first."""
    found = []
    for log2_bytes in _LOG2_SIZES:
        size = 1 << log2_bytes
        if 4 * size > available_bytes():
            break
        setting = {"source": source, "destination": target, "bytes": size}
        found.append(figure("memcpy", "bytes/s", copy_rates(size, own, others), setting))
    return found


def copy_rates(size_bytes: int, own: frozenset[int], others: frozenset[int]) -> list[float]:
    """Return bytes per second of copies, on a CPU of the first set, to memory of the second."""
    with running_on(frozenset({min(own)})):
        origin = _memory(size_bytes, 2)
    # As in a C program, the destination is below the origin: above it, the C library copies large
    # arrays up to 5 % faster or slower.
    with running_on(frozenset({min(others)})):
        destination = _memory(size_bytes, 1)
    copy = partial(copy_repeatedly, destination, origin)
    with running_on(frozenset({min(own)})):
        return [size_bytes / seconds_per_repeat(copy) for _ in range(_REPEATS)]


def _memory(size_bytes: int, value: int) -> Bytes:
    """Return fresh pages, which this CPU touches first, in huge pages where they may be."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, np.uint8)
    array[:] = value
    return array


def copy_repeatedly(destination: Bytes, origin: Bytes, times: int) -> None:
    """Copy so many times, with a call of the C library each, from a loop of NumPy's.

    An interpreted loop takes longer than a copy of 4 KiB. For NumPy these are copies of one array
    of as many elements, each as large as the memory and at the same place.
    """
    np.copyto(_same_place(destination, times), _same_place(origin, times))


def _same_place(memory: Bytes, times: int) -> "npt.NDArray[np.void]":
    return as_strided(memory.view(f"V{memory.nbytes}"), shape=(times,), strides=(0,))


def _faults() -> list[NodeFigure]:
    """Touch one byte of each page of fresh memory, in small pages."""
    if available_bytes() < 2 * _FAULT_BYTES:
        raise NotMeasurableError(f"{_FAULT_BYTES >> 20} MiB do not fit in the free memory")
    samples = [_fault_ns() for _ in range(_REPEATS)]
    return [figure("pageFault", "ns", samples, {"pageBytes": mmap.PAGESIZE})]


def _fault_ns() -> float:
    with mmap.mmap(-1, _FAULT_BYTES) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        return seconds_of(partial(_touch, memory)) * 1e9 / (_FAULT_BYTES // mmap.PAGESIZE)


def _touch(memory: mmap.mmap) -> None:
    """Write one byte of each page."""
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
