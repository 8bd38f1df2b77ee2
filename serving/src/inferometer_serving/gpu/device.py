"""One NVIDIA GPU: its properties, memory, streams and events, and kernels compiled at run time.

It calls CUDA's driver by cuda-bindings, which is installed with the extra `gpu`. Sizes are in
bytes, times in seconds. Addresses are integers.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class GpuUnavailableError(RuntimeError):
    """There is no GPU, no driver or no binding; the message is a clause that says which."""


class CudaError(RuntimeError):
    """A call of CUDA failed; the message names the call and CUDA's error."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU, whose primary context is current on the thread that opened it."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    l2_cache_bytes: int
    memory_bytes: int
    device: Any
    """CUDA's handle."""

    def attribute(self, name: str) -> int:
        """Return a device attribute of CUDA, such as `CONCURRENT_MANAGED_ACCESS`."""
        return _attribute(self.device, name)


def gpu_count() -> int:
    """Return how many GPUs CUDA shows; 0 without a driver or without cuda-bindings."""
    try:
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        call(driver.cuInit, 0)
        return int(call(driver.cuDeviceGetCount))
    except (ImportError, RuntimeError):  # cuda-bindings raises the latter without libcuda
        return 0


def known_gpus() -> list["GpuDevice"]:
    """Return the GPUs that CUDA shows, none of them opened."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    return [_describe(index, call(driver.cuDeviceGet, index)) for index in range(gpu_count())]


@contextmanager
def gpu_expected(index: int) -> Iterator[None]:
    """Have the first calls of CUDA say what this machine lacks. Raises GpuUnavailableError."""
    try:
        yield
    except ImportError as error:
        raise GpuUnavailableError("cuda-bindings is not installed") from error
    except CudaError as error:
        raise GpuUnavailableError(f"CUDA shows no GPU {index}: {error}") from error
    except RuntimeError as error:  # cuda-bindings raises it without libcuda
        raise GpuUnavailableError("NVIDIA's driver (libcuda.so.1) is not installed") from error


@contextmanager
def open_gpu(index: int = 0) -> Iterator[GpuDevice]:
    """Make the primary context of a GPU current on this thread; release it at the end.

    Raises GpuUnavailableError.
    """
    with gpu_expected(index):
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        call(driver.cuInit, 0)
        device = call(driver.cuDeviceGet, index)
        context = call(driver.cuDevicePrimaryCtxRetain, device)
    try:
        call(driver.cuCtxSetCurrent, context)
        yield _describe(index, device)
    finally:
        call(driver.cuDevicePrimaryCtxRelease, device)


def _describe(index: int, device: Any) -> GpuDevice:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    name: bytes = call(driver.cuDeviceGetName, 128, device)
    return GpuDevice(
        index=index,
        name=name.partition(b"\0")[0].decode(),
        compute_capability=(
            _attribute(device, "COMPUTE_CAPABILITY_MAJOR"),
            _attribute(device, "COMPUTE_CAPABILITY_MINOR"),
        ),
        multiprocessors=_attribute(device, "MULTIPROCESSOR_COUNT"),
        l2_cache_bytes=_attribute(device, "L2_CACHE_SIZE"),
        memory_bytes=int(call(driver.cuDeviceTotalMem, device)),
        device=device,
    )


def _attribute(device: Any, name: str) -> int:
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call(driver.cuDeviceGetAttribute, key, device))


@contextmanager
def device_memory(size: int) -> Iterator[int]:
    """Allocate device memory; yield its address. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    address = call(driver.cuMemAlloc, size)
    try:
        yield int(address)
    finally:
        call(driver.cuMemFree, address)


def write(address: int, values: NDArray[Any]) -> None:
    """Copy an array, in the order of its bytes, to device memory, for all streams to see.

    Raises CudaError.
    """
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuMemcpyHtoD, address, np.ascontiguousarray(values).ctypes.data, values.nbytes)
    # The copy may still be under way from CUDA's own buffer, which other streams do not wait for.
    call(driver.cuCtxSynchronize)


def read(address: int, into: NDArray[Any]) -> None:
    """Copy device memory into a contiguous array, after all that streams hold. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    call(driver.cuCtxSynchronize)
    call(driver.cuMemcpyDtoH, into.ctypes.data, address, into.nbytes)


@contextmanager
def stream() -> Iterator[Any]:
    """Create a stream that does not wait for the default one."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    created = call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
    try:
        yield created
    finally:
        call(driver.cuStreamDestroy, created)


def seconds_on_gpu(work: Callable[[], object], on: Any) -> float:
    """Return the time between two events around what `work` puts in the stream `on`."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    with ExitStack() as stack:
        events = [call(driver.cuEventCreate, 0) for _ in range(2)]
        for event in events:
            stack.callback(call, driver.cuEventDestroy, event)
        call(driver.cuEventRecord, events[0], on)
        work()
        call(driver.cuEventRecord, events[1], on)
        call(driver.cuEventSynchronize, events[1])
        return float(call(driver.cuEventElapsedTime, *events)) / 1e3


@dataclass(frozen=True, slots=True)
class GpuFunction:
    """A function that runs on the GPU."""

    function: Any
    """CUDA's handle."""

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[tuple[Any, Any]],
        on: Any,
        shared_bytes: int = 0,
    ) -> None:
        """Put it in the stream `on`. Each argument is a value and its ctypes type.

        Addresses have the type `ctypes.c_void_p`. Raises CudaError.
        """
        from cuda.bindings import driver  # noqa: PLC0415 - optional

        values = tuple(value for value, _ in arguments)
        types = tuple(kind for _, kind in arguments)
        call(
            driver.cuLaunchKernel,
            self.function,
            *grid,
            *block,
            shared_bytes,
            on,
            (values, types),
            0,
        )


@contextmanager
def compile_kernels(
    gpu: GpuDevice, source: str, names: Sequence[str], options: Sequence[str] = ()
) -> Iterator[dict[str, GpuFunction]]:
    """Compile CUDA C++ for this GPU; yield its `extern "C"` kernels by name.

    CUDA's headers (`mma.h`, `cuda_fp16.h`) can be included where their wheel is installed. Raises
    CudaError with the compiler's log, and GpuUnavailableError without a compiler.
    """
    with load_kernels(machine_code(gpu.compute_capability, source, options), names) as kernels:
        yield kernels


@contextmanager
def load_kernels(code: bytes, names: Sequence[str]) -> Iterator[dict[str, GpuFunction]]:
    """Load compiled code; yield its `extern "C"` kernels by name. Raises CudaError."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    module = call(driver.cuModuleLoadData, code)
    try:
        yield {
            name: GpuFunction(call(driver.cuModuleGetFunction, module, name.encode()))
            for name in names
        }
    finally:
        call(driver.cuModuleUnload, module)


def machine_code(
    compute_capability: tuple[int, int], source: str, options: Sequence[str] = ()
) -> bytes:
    """Compile CUDA C++, which needs no GPU. Raises as `compiled` does."""
    from cuda.bindings import nvrtc  # noqa: PLC0415 - optional

    try:
        program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"kernels.cu", 0, [], [])
    except RuntimeError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise GpuUnavailableError(f"CUDA's run-time compiler is missing: {reason}") from error
    major, minor = compute_capability
    flags = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17", *_header_flags(), *options]
    try:
        try:
            call(nvrtc.nvrtcCompileProgram, program, len(flags), [each.encode() for each in flags])
        except CudaError as error:
            log = _fill(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            text = log.rstrip(b"\0").decode(errors="replace")
            raise CudaError(f"the compiler refused a kernel: {text}") from error
        return _fill(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fill(program: Any, size: Callable[..., Any], fill: Callable[..., Any]) -> bytes:
    """Return what CUDA writes into a buffer of the size that it names."""
    buffer = b" " * int(call(size, program))
    call(fill, program, buffer)
    return buffer


def _header_flags() -> list[str]:
    from cuda import pathfinder  # noqa: PLC0415 - optional

    found = pathfinder.find_nvidia_header_directory("cudart")
    return [] if found is None else [f"--include-path={found}"]


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call CUDA; return what it returns after its error code.

    Raises CudaError with the name of the call and of the error.
    """
    error, *found = function(*arguments)
    if int(error):
        raise CudaError(f"{function.__name__} failed with {error.name}")
    return found[0] if len(found) == 1 else tuple(found)


def address_argument(address: int) -> tuple[int, Any]:
    """Return an address as an argument of a kernel."""
    return (address, ctypes.c_void_p)
