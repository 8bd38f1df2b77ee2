"""Contexts of several GPUs: what is opened in one of them, and access to another's memory."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

from inferometer_serving.gpu.device import GpuDevice, call, device_memory
from inferometer_serving.node.samples import NotMeasurableError

_T = TypeVar("_T")


@contextmanager
def primary_context(gpu: GpuDevice) -> Iterator[Any]:
    """Yield the primary context of a GPU, without making it current."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    context = call(driver.cuDevicePrimaryCtxRetain, gpu.device)
    try:
        yield context
    finally:
        call(driver.cuDevicePrimaryCtxRelease, gpu.device)


@contextmanager
def current(context: Any) -> Iterator[None]:
    """Make a context current, and afterwards the one that was."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuCtxPushCurrent, context)
    try:
        yield
    finally:
        call(driver.cuCtxPopCurrent)


@contextmanager
def opened_in(context: Any, resource: AbstractContextManager[_T]) -> Iterator[_T]:
    """Open and close a resource while a context is current; another may be in between."""
    stack = ExitStack()
    with current(context):
        found = stack.enter_context(resource)
    try:
        yield found
    finally:
        with current(context):
            stack.close()


@contextmanager
def memory_of(gpu: GpuDevice, size: int) -> Iterator[int]:
    """Allocate memory of a GPU whose context need not be current."""
    with primary_context(gpu) as context, opened_in(context, device_memory(size)) as address:
        yield address


@contextmanager
def peer_access(gpu: GpuDevice, other: GpuDevice) -> Iterator[None]:
    """Let the GPU whose context is current access another's memory.

    Raises NotMeasurableError if their link has no such access.
    """
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    if not call(driver.cuDeviceCanAccessPeer, gpu.device, other.device):
        raise NotMeasurableError(
            f"GPU {gpu.index} has no direct access to the memory of GPU {other.index}"
        )
    with primary_context(other) as context:
        call(driver.cuCtxEnablePeerAccess, context, 0)
        try:
            yield
        finally:
            call(driver.cuCtxDisablePeerAccess, context)
