"""The GPU that timings hold for: its name, libraries, and the peaks of a roofline."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_api.layers.timings import MachineState
from inferometer_serving.gpu.device import (
    GpuDevice,
    call,
    device_memory,
    seconds_on_gpu,
)
from inferometer_serving.gpu.identity import gpu_engine_versions, gpu_machine_name
from inferometer_serving.gpu.libraries import load_library
from inferometer_serving.layers.gpu.device_tensors import on_device
from inferometer_serving.layers.gpu.problems import Product
from inferometer_serving.layers.gpu.product_algorithms import product_algorithms

_COPIED_BYTES = tuple(1 << power for power in range(20, 33, 2))
"""A bound must allow for tensors that stay in the cache."""
_COPIES = 10
_TRIALS = 5
_WIDTHS = (4096, 8192)
"""Of the products whose rate is the peak."""
_PRODUCTS = 4

Peaks = Callable[[GpuDevice], tuple[float, Mapping[str, float]]]
"""Returns bytes read and written per second by a copy, and the operations per second of a matrix
product by precision."""


def gpu_state(gpu: GpuDevice, peaks: Peaks | None) -> MachineState:
    """Return what timings depend on, and the peaks of a roofline unless `peaks` is None."""
    bandwidth, products = peaks(gpu) if peaks is not None else (0.0, {})
    return MachineState(
        name=gpu_machine_name(gpu.index),
        engines=gpu_engine_versions(),
        threads=1,
        device="GPU",
        cache_bytes=gpu.l2_cache_bytes,
        cache_bytes_per_second=_copy_rate(max(gpu.l2_cache_bytes // 4, 1)),
        memory_bytes_per_second=_copy_rate(8 * max(gpu.l2_cache_bytes, 1 << 20)),
        copy_bytes_per_second=bandwidth,
        flops_per_second=max(products.values(), default=0.0),
        flops_by_precision=dict(products),
    )


def probe_peaks(gpu: GpuDevice) -> tuple[float, Mapping[str, float]]:
    """Return the highest rates of copies of any size, and of large products by precision."""
    sizes = [each for each in _COPIED_BYTES if 4 * each <= gpu.memory_bytes]
    bandwidth = max(map(_copy_rate, sizes))
    return bandwidth, {
        "FP32": _product_rate("FLOAT", allows_tf32=False),
        "TF32": _product_rate("FLOAT", allows_tf32=True),
        "FP16": _product_rate("FLOAT16", allows_tf32=False),
    }


def _copy_rate(size: int) -> float:
    """Return the bytes read and written per second by a copy within the GPU's memory."""
    from cuda.bindings import driver  # noqa: PLC0415 - optional

    with device_memory(size) as source, device_memory(size) as target:
        call(driver.cuMemsetD8, source, 1, size)

        def copy() -> None:
            for _ in range(_COPIES):
                call(driver.cuMemcpyDtoDAsync, target, source, size, 0)

        return 2.0 * size * _COPIES / _shortest(copy)


def _product_rate(datatype: str, *, allows_tf32: bool) -> float:
    """Return the operations per second of the fastest product of two square matrices."""
    library = load_library("cublasLt")
    best = 0.0
    for width in _WIDTHS:
        tensor = LayerTensor(kind="Activation", datatype=datatype, shape=[width, width])
        layer = Layer(operator="MatMul", version=13, inputs=[tensor, tensor], outputs=[tensor])
        with ExitStack() as resources:
            algorithms = product_algorithms(
                library,
                Product(width, width, width),
                on_device(layer, resources),
                is_half=datatype == "FLOAT16",
                allows_tf32=allows_tf32,
                resources=resources,
            )
            for algorithm in algorithms[:2]:
                rate = 2.0 * width**3 * _PRODUCTS / _shortest(_repeated(algorithm.launch))
                best = max(best, rate)
    return best


def _repeated(launch: Callable[[], object]) -> Callable[[], None]:
    def work() -> None:
        for _ in range(_PRODUCTS):
            launch()

    return work


def _shortest(work: Callable[[], None]) -> float:
    """Return the shortest time of work in the default stream, after a first run."""
    work()
    return min(seconds_on_gpu(work, 0) for _ in range(_TRIALS))


def open_empty_kernel(gpu: GpuDevice, resources: ExitStack) -> Callable[[], None]:
    """Return what launches a kernel that computes nothing."""
    from inferometer_serving.gpu.device import compile_kernels  # noqa: PLC0415 - needs a compiler

    kernels: dict[str, Any] = resources.enter_context(
        compile_kernels(gpu, 'extern "C" __global__ void nothing() {}', ["nothing"])
    )
    return lambda: kernels["nothing"].launch((1, 1, 1), (32, 1, 1), [], 0)
