"""Peaks of matrix products on a GPU by precision, and the tensor cores that compute them."""

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from inferometer_api.nodes.characteristics import MatrixUnit, NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.gpu.device import (
    GpuDevice,
    address_argument,
    compile_kernels,
    device_memory,
)
from inferometer_serving.gpu.kernel_names import readable, uses_tensor_cores
from inferometer_serving.node.gpu.clock import Work, gpu_clock
from inferometer_serving.node.gpu.launches import capture, kernel_names
from inferometer_serving.node.gpu.square_product import PRODUCT_TYPES, SquareProduct, product
from inferometer_serving.node.samples import NotMeasurableError

_WIDTH = 8192
_REPEATS, _WARM_UPS = 7, 3
_MEMORY_OF_PRODUCT = 4 * 3
"""Bytes of an element of both operands and the result, at most."""
_FILL = """
extern "C" __global__ void fill(unsigned* words, unsigned long long count, unsigned seed,
                                unsigned kept, unsigned set) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
         at < count; at += step) {
        unsigned value = (unsigned)at * 2654435761u + seed;
        value ^= value >> 16; value *= 0x7feb352du; value ^= value >> 15;
        value *= 0x846ca68bu; value ^= value >> 16;
        words[at] = (value & kept) | set;
    }
}
"""
_PATTERNS: Mapping[str, tuple[int, int]] = {
    "FP32": (0x807FFFFF, 0x3F800000),
    "TF32": (0x807FFFFF, 0x3F800000),
    "BF16": (0x807F807F, 0x3F803F80),
    "FP16": (0x83FF83FF, 0x3C003C00),
    "INT8": (0xFFFFFFFF, 0),
    "FP8": (0x87878787, 0x38383838),
}
"""Random bits that stay, and bits that are set: signs and mantissas of numbers from 1 to 2."""
_TENSOR_CORES: Mapping[str, tuple[str, tuple[int, int]]] = {
    f"tensor_{precision.lower()}": (precision, kind.least_capability)
    for precision, kind in PRODUCT_TYPES.items()
    if precision != "FP32"
}


def product_peak(
    gpu: GpuDevice, precision: str, setting: Mapping[str, object], kernels: dict[str, list[str]]
) -> list[NodeFigure]:
    """Measure products of random matrices; `kernels` gets the names of those that ran."""
    kind = PRODUCT_TYPES[precision]
    if gpu.compute_capability < kind.least_capability:
        major, minor = gpu.compute_capability
        raise NotMeasurableError(f"GPUs of compute capability {major}.{minor} have no such units")
    width = _WIDTH
    while width * width * _MEMORY_OF_PRODUCT > gpu.memory_bytes // 2:
        width //= 2
    with (
        gpu_clock(gpu) as clock,
        product(kind, width) as prepared,
        random_operands(gpu, precision, width, clock.streams[0]) as (first, second, result),
    ):
        work = _multiplication(prepared, first, second, result)
        with capture(work, clock.streams[0]) as graph:
            kernels.setdefault(precision, []).extend(kernel_names(graph))
        for _ in range(_WARM_UPS):
            clock.seconds(work)
        samples = [2.0 * width**3 / clock.seconds(work) for _ in range(_REPEATS)]
    at = {**setting, "engine": "cublas", "precision": precision, "width": width}
    return [figure("gpu/gemm", "flop/s", samples, at)]


@contextmanager
def random_operands(
    gpu: GpuDevice, precision: str, width: int, on: Any
) -> Iterator[tuple[int, int, int]]:
    """Yield the addresses of two random matrices on the GPU, and of a place for their product."""
    kind = PRODUCT_TYPES[precision]
    size = width * width * kind.operand_bytes
    with (
        device_memory(size) as first,
        device_memory(size) as second,
        device_memory(width * width * kind.result_bytes) as result,
        compile_kernels(gpu, _FILL, ["fill"]) as kernels,
    ):
        for seed, address in enumerate((first, second), start=1):
            arguments = [
                address_argument(address),
                (size // 4, ctypes.c_ulonglong),
                *((each, ctypes.c_uint) for each in (seed, *_PATTERNS[precision])),
            ]
            kernels["fill"].launch((1024, 1, 1), (256, 1, 1), arguments, on)
        yield first, second, result


def _multiplication(prepared: SquareProduct, first: int, second: int, result: int) -> Work:
    return lambda on: prepared.multiply(first, second, result, on)


def tensor_cores(gpu: GpuDevice, kernels: Mapping[str, list[str]]) -> list[MatrixUnit]:
    """Return which tensor cores the GPU offers, and which kernels of cuBLAS use them."""
    return [
        MatrixUnit(
            name=name,
            gpu=gpu.index,
            offered=gpu.compute_capability >= least,
            used_by={"cublas": used} if (used := _users(kernels.get(precision, ()))) else {},
        )
        for name, (precision, least) in _TENSOR_CORES.items()
    ]


def _users(names: Iterable[str]) -> list[str]:
    return sorted({each for each in map(readable, names) if uses_tensor_cores(each)})
