"""Products of square matrices in each precision, by the algorithm that cuBLASLt offers first."""

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from inferometer_serving.gpu.cublas import (
    BF16,
    COMPUTE_FP32,
    COMPUTE_INT32,
    COMPUTE_TF32,
    FP8_E4M3,
    FP16,
    FP32,
    INT8,
    INT32,
    TRANSPOSE_FIRST,
    Heuristic,
    Matmul,
)
from inferometer_serving.gpu.libraries import LibraryError, load_library


@dataclass(frozen=True, slots=True)
class ProductType:
    """How a product computes: the numbers are those of CUDA's and cuBLAS's enumerations."""

    operand: int
    operand_bytes: int
    result: int
    result_bytes: int
    compute: int
    scale: int
    least_capability: tuple[int, int]
    """The first compute capability whose GPUs compute so by matrix units; FP32 needs none."""


PRODUCT_TYPES: Mapping[str, ProductType] = MappingProxyType(
    {
        "FP32": ProductType(FP32, 4, FP32, 4, COMPUTE_FP32, FP32, (0, 0)),
        "TF32": ProductType(FP32, 4, FP32, 4, COMPUTE_TF32, FP32, (8, 0)),
        "BF16": ProductType(BF16, 2, BF16, 2, COMPUTE_FP32, FP32, (8, 0)),
        "FP16": ProductType(FP16, 2, FP16, 2, COMPUTE_FP32, FP32, (7, 0)),
        "INT8": ProductType(INT8, 1, INT32, 4, COMPUTE_INT32, INT32, (7, 2)),
        "FP8": ProductType(FP8_E4M3, 1, BF16, 2, COMPUTE_FP32, FP32, (8, 9)),
    }
)


@dataclass(frozen=True, slots=True)
class SquareProduct:
    """D = B A^T of square matrices, rows after rows."""

    matmul: Matmul
    algorithm: Heuristic
    layouts: tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]

    def multiply(self, first: int, second: int, result: int, on: Any) -> None:
        """Put the product of two addresses' matrices into a stream. Raises LibraryError."""
        addresses = (first, second, result)
        self.matmul.launch(self.algorithm, self.layouts, addresses, stream=int(on))


@contextmanager
def product(kind: ProductType, width: int) -> Iterator[SquareProduct]:
    """Prepare the product that cuBLASLt expects to be the fastest.

    The first operand is transposed, as kernels for 8-bit operands require. Raises LibraryError, and
    GpuUnavailableError without cuBLAS.
    """
    with ExitStack() as resources:
        library = load_library("cublasLt")
        matmul = Matmul(library, resources, compute=kind.compute, scale=kind.scale)
        matmul.set(TRANSPOSE_FIRST, ctypes.c_int32(1))
        operand = matmul.layout(kind.operand, width, width)
        layouts = (operand, operand, matmul.layout(kind.result, width, width))
        found = matmul.heuristics(layouts, 1)
        if not found:
            raise LibraryError("cuBLAS has no kernel for it")
        yield SquareProduct(matmul, found[0], layouts)
