"""Matrix products by cuBLASLt, which the wheel nvidia-cublas brings; called by ctypes."""

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from inferometer_serving.gpu.device import CudaError, GpuUnavailableError, device_memory

_WORKSPACE_BYTES = 64 << 20
_TRANSPOSED = 1
_COMPUTE_TYPE, _SCALE_TYPE, _TRANSPOSE_FIRST = 0, 1, 3
"""Attributes of a product."""
_WORKSPACE_LIMIT = 1
"""Attribute of a preference."""


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


_FP32, _FP16, _INT8, _INT32, _BF16, _E4M3 = 0, 2, 3, 10, 14, 28
_COMPUTE_FP32, _COMPUTE_TF32, _COMPUTE_INT32 = 68, 77, 72
PRODUCT_TYPES: Mapping[str, ProductType] = MappingProxyType(
    {
        "FP32": ProductType(_FP32, 4, _FP32, 4, _COMPUTE_FP32, _FP32, (0, 0)),
        "TF32": ProductType(_FP32, 4, _FP32, 4, _COMPUTE_TF32, _FP32, (8, 0)),
        "BF16": ProductType(_BF16, 2, _BF16, 2, _COMPUTE_FP32, _FP32, (8, 0)),
        "FP16": ProductType(_FP16, 2, _FP16, 2, _COMPUTE_FP32, _FP32, (7, 0)),
        "INT8": ProductType(_INT8, 1, _INT32, 4, _COMPUTE_INT32, _INT32, (7, 2)),
        "FP8": ProductType(_E4M3, 1, _BF16, 2, _COMPUTE_FP32, _FP32, (8, 9)),
    }
)


class _Heuristic(ctypes.Structure):
    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class SquareProduct:
    """D = B A^T of square matrices, rows after rows, each of `width` x `width`."""

    library: Any
    handle: Any
    description: Any
    layouts: tuple[Any, Any]
    """Of the operands and of the result."""
    algorithm: _Heuristic
    workspace: int
    kind: ProductType

    def multiply(self, first: int, second: int, result: int, on: Any) -> None:
        """Put the product of two addresses' matrices into a stream. Raises CudaError."""
        number = ctypes.c_int if self.kind.scale == _INT32 else ctypes.c_float
        one, zero = number(1), number(0)
        operands, results = self.layouts
        _checked(
            self.library.cublasLtMatmul,
            self.handle,
            self.description,
            ctypes.byref(one),
            *(ctypes.c_void_p(first), operands),
            *(ctypes.c_void_p(second), operands),
            ctypes.byref(zero),
            *(ctypes.c_void_p(result), results),
            *(ctypes.c_void_p(result), results),
            ctypes.byref(self.algorithm),
            ctypes.c_void_p(self.workspace),
            ctypes.c_size_t(_WORKSPACE_BYTES),
            ctypes.c_void_p(int(on)),
        )


@contextmanager
def product(kind: ProductType, width: int) -> Iterator[SquareProduct]:
    """Prepare the product that cuBLASLt expects to be the fastest.

    The first operand is transposed, as kernels for 8-bit operands require. Raises CudaError, and
    GpuUnavailableError without cuBLAS.
    """
    library = _loaded()
    with ExitStack() as stack:

        def created(create: str, destroy: str, *words: Any) -> Any:
            handle = ctypes.c_void_p()
            _checked(getattr(library, create), ctypes.byref(handle), *words)
            stack.callback(getattr(library, destroy), handle)
            return handle

        def layout(number: int) -> Any:
            sizes = (ctypes.c_uint64(width), ctypes.c_uint64(width), ctypes.c_int64(width))
            return created(
                "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy", number, *sizes
            )

        handle = created("cublasLtCreate", "cublasLtDestroy")
        workspace = stack.enter_context(device_memory(_WORKSPACE_BYTES))
        description = created(
            "cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", kind.compute, kind.scale
        )
        transposed = ctypes.c_int32(_TRANSPOSED)
        _checked(
            library.cublasLtMatmulDescSetAttribute,
            *(description, _TRANSPOSE_FIRST, ctypes.byref(transposed)),
            ctypes.c_size_t(ctypes.sizeof(transposed)),
        )
        preference = created("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        limit = ctypes.c_uint64(_WORKSPACE_BYTES)
        _checked(
            library.cublasLtMatmulPreferenceSetAttribute,
            *(preference, _WORKSPACE_LIMIT, ctypes.byref(limit)),
            ctypes.c_size_t(ctypes.sizeof(limit)),
        )
        operands, results = layout(kind.operand), layout(kind.result)
        algorithm, count = _Heuristic(), ctypes.c_int()
        _checked(
            library.cublasLtMatmulAlgoGetHeuristic,
            *(handle, description, operands, operands, results, results, preference),
            *(1, ctypes.byref(algorithm), ctypes.byref(count)),
        )
        if not count.value:
            raise CudaError("cuBLAS has no kernel for it")
        layouts = (operands, results)
        yield SquareProduct(library, handle, description, layouts, algorithm, workspace, kind)


def _loaded() -> Any:
    try:
        from cuda import pathfinder  # noqa: PLC0415 - optional

        found = pathfinder.load_nvidia_dynamic_lib("cublasLt")
    except (ImportError, RuntimeError, OSError) as error:
        raise GpuUnavailableError("cuBLAS is not installed (nvidia-cublas)") from error
    return ctypes.CDLL(found.abs_path)


def _checked(function: Any, *words: Any) -> None:
    status = function(*words)
    if status:
        raise CudaError(f"{function.__name__} failed with status {status}")
