"""Memory of a GPU that several processes have open, by CUDA's virtual memory management.

A process exports it as a file descriptor, which needs no common namespace of processes or IPC, and
the memory lives until the last process that has it open closes it or ends.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.broker.layout import WeightLayout, windows
from inferometer_serving.gpu.broker.memory import fill
from inferometer_serving.gpu.device import GpuDevice, call, open_gpu

_WINDOW_BYTES = 32 << 20
_Buffer = tuple[int, memoryview]
"""An address and what lies there."""


class GpuMemory:
    """Shared memory of one GPU. Any thread may call it."""

    def __init__(self, gpu: GpuDevice) -> None:
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        self._driver = driver
        self._context = call(driver.cuCtxGetCurrent)
        self._properties = _properties(gpu)
        self._buffer: _Buffer | None = None
        self._buffer_lock = threading.Lock()
        self._granularity = int(
            call(
                driver.cuMemGetAllocationGranularity,
                self._properties,
                driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            )
        )

    def allocated_bytes(self, size_bytes: int) -> int:
        """Return what CUDA allocates for this size."""
        return -(-size_bytes // self._granularity) * self._granularity

    def load(self, descriptor: int, layout: WeightLayout) -> "SharedBlock":
        """Allocate memory and fill it from a file. Raises OSError and CudaError."""
        driver = self._driver
        call(driver.cuCtxSetCurrent, self._context)
        size = self.allocated_bytes(layout.size_bytes)
        access = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        block = self._map(call(driver.cuMemCreate, size, self._properties, 0), size, access)
        try:
            with self._pinned_buffer() as (address, buffer):
                for window in windows(layout, _WINDOW_BYTES):
                    fill(buffer, window, descriptor)
                    call(driver.cuMemcpyHtoD, block.address + window.place, address, window.length)
            # What this memory held before may be of another model.
            rest = size - layout.size_bytes
            call(driver.cuMemsetD8, block.address + layout.size_bytes, 0, rest) if rest else None
            call(driver.cuCtxSynchronize)
        except BaseException:
            block.free()
            raise
        return block

    @contextmanager
    def _pinned_buffer(self) -> Iterator[_Buffer]:
        """Lend the buffer that is kept, or one of the caller's own while another load has it."""
        if not self._buffer_lock.acquire(blocking=False):
            address, buffer = _allocate_pinned(_WINDOW_BYTES)
            try:
                yield address, buffer
            finally:
                call(self._driver.cuMemFreeHost, address)
            return
        try:
            if self._buffer is None:
                self._buffer = _allocate_pinned(_WINDOW_BYTES)
            yield self._buffer
        finally:
            self._buffer_lock.release()

    def open(self, descriptor: int, size_bytes: int) -> "SharedBlock":
        """Open what another process exported, for reading only. Raises CudaError."""
        driver = self._driver
        call(driver.cuCtxSetCurrent, self._context)
        handle = call(
            driver.cuMemImportFromShareableHandle, descriptor, self._properties.requestedHandleTypes
        )
        access = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READ
        return self._map(handle, self.allocated_bytes(size_bytes), access)

    def _map(self, handle: Any, size: int, flags: Any) -> "SharedBlock":
        driver = self._driver
        access = driver.CUmemAccessDesc()
        access.location = self._properties.location
        access.flags = flags
        with ExitStack() as stack:
            stack.callback(call, driver.cuMemRelease, handle)
            address = call(driver.cuMemAddressReserve, size, 0, 0, 0)
            stack.callback(call, driver.cuMemAddressFree, address, size)
            call(driver.cuMemMap, address, size, 0, handle, 0)
            stack.callback(call, driver.cuMemUnmap, address, size)
            call(driver.cuMemSetAccess, address, size, [access], 1)
            stack.pop_all()
        return SharedBlock(self._context, handle, int(address), size)


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """Memory that is mapped in this process."""

    context: Any
    handle: Any
    address: int
    size_bytes: int

    def export(self) -> int:
        """Return a file descriptor by which another process opens the memory."""
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return int(call(driver.cuMemExportToShareableHandle, self.handle, kind, 0))

    def free(self) -> None:
        """Unmap it; the memory goes once no process has it open."""
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        call(driver.cuCtxSetCurrent, self.context)
        call(driver.cuMemUnmap, self.address, self.size_bytes)
        call(driver.cuMemAddressFree, self.address, self.size_bytes)
        call(driver.cuMemRelease, self.handle)

    def close(self) -> None:
        """Unmap it."""
        self.free()


@contextmanager
def open_gpu_memory(index: int = 0) -> Iterator[tuple[str, GpuMemory]]:
    """Yield the UUID of a GPU and its memory. Raises GpuUnavailableError and CudaError."""
    with open_gpu(index) as gpu:
        yield gpu_uuid(gpu), GpuMemory(gpu)


def gpu_uuid(gpu: GpuDevice) -> str:
    """Return the identity of a GPU, which is the same in every process and container."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return bytes(call(driver.cuDeviceGetUuid, gpu.device).bytes).hex()


def _properties(gpu: GpuDevice) -> Any:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = gpu.index
    properties.requestedHandleTypes = (
        driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    )
    return properties


def _allocate_pinned(size: int) -> _Buffer:
    """Allocate host memory that the GPU reads at its full rate."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    address = int(call(driver.cuMemHostAlloc, size, 0))
    return address, memoryview((ctypes.c_char * size).from_address(address)).cast("B")
