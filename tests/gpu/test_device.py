"""A GPU's memory, time and compiler, on a real GPU."""

import ctypes

import numpy as np
import pytest

from inferometer_serving.gpu.device import (
    CudaError,
    GpuDevice,
    address_argument,
    compile_kernels,
    device_memory,
    read,
    seconds_on_gpu,
    stream,
    write,
)

_DOUBLE = """
extern "C" __global__ void twice(float* values, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) values[at] *= 2.0f;
}
"""


def test_a_kernel_compiled_here_changes_the_memory_that_it_is_given(gpu: GpuDevice) -> None:
    """Memory, a launch with arguments, events."""
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    found = np.zeros_like(values)
    with (
        device_memory(values.nbytes) as address,
        stream() as on,
        compile_kernels(gpu, _DOUBLE, ["twice"]) as kernels,
    ):
        write(address, values)
        arguments = [address_argument(address), (len(values), ctypes.c_int)]
        seconds = seconds_on_gpu(
            lambda: kernels["twice"].launch((4, 1, 1), (256, 1, 1), arguments, on), on
        )
        read(address, found)
    assert np.array_equal(found, 2 * values)
    assert seconds > 0


def test_a_kernel_that_does_not_compile_is_refused_with_the_compilers_words(gpu: GpuDevice) -> None:
    """The log of the compiler is what helps."""
    with (
        pytest.raises(CudaError, match="identifier"),
        compile_kernels(gpu, 'extern "C" __global__ void f() { nothing(); }', ["f"]),
    ):
        pass
