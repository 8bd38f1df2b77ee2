"""Memory of the host for transfers: on the pages of one NUMA node, touched, at the start of a page.

Which NUMA node has it follows from the CPUs on which it is touched first.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from inferometer_serving.gpu.device import call


@contextmanager
def pageable_memory(size: int) -> Iterator[int]:
    """Yield the address of ordinary memory."""
    memory = np.full(size + mmap.PAGESIZE, 1, np.uint8)
    yield memory.ctypes.data + -memory.ctypes.data % mmap.PAGESIZE


@contextmanager
def pinned_memory(size: int) -> Iterator[int]:
    """Yield the address of memory whose pages stay in place, on host and GPU alike.

    Raises CudaError.
    """
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP
    with pageable_memory(size) as address:
        call(driver.cuMemHostRegister, address, size, flags)
        try:
            yield address
        finally:
            call(driver.cuMemHostUnregister, address)


@contextmanager
def write_combining_memory(size: int) -> Iterator[int]:
    """Yield the address of pinned memory that the CPU writes past its caches. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    address = int(call(driver.cuMemHostAlloc, size, driver.CU_MEMHOSTALLOC_WRITECOMBINED))
    try:
        yield address
    finally:
        call(driver.cuMemFreeHost, address)


def device_address(address: int) -> int:
    """Return the address at which the GPU sees pinned memory. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return int(call(driver.cuMemHostGetDevicePointer, address, 0))
