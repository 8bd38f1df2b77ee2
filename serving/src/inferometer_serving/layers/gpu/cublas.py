"""Products of matrices by cuBLASLt, in every algorithm that its heuristics offer.

cuBLAS stores columns: a product of matrices in rows, D = A B, is there D' = B' A'.
"""

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.device import device_memory
from inferometer_serving.gpu.libraries import Library
from inferometer_serving.layers.gpu.device_tensors import DeviceTensors
from inferometer_serving.layers.gpu.problems import Product
from inferometer_serving.layers.gpu.ways import Way

_FP32, _FP16 = 0, 2
_COMPUTE_FP32, _COMPUTE_TF32 = 68, 77
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS = 3, 4, 7, 8
_EPILOGUE_WITH_BIAS = 4
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_WORKSPACE_LIMIT = 1
_ALGORITHM_ID, _TILE_ID = 0, 1
_WORKSPACE_BYTES = 64 << 20
_MOST_ALGORITHMS = 6


class _Algorithm(ctypes.Structure):
    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _Heuristic(ctypes.Structure):
    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix as cuBLAS sees it: columns one after another."""

    rows: int
    columns: int
    stride: int
    """Elements from one matrix of the batch to the next; 0 if all are the same."""
    is_transposed: bool = False


def stored_matrices(product: Product) -> tuple[StoredMatrix, StoredMatrix, StoredMatrix]:
    """Return the first and second factor of cuBLAS, which are B and A, and the result."""
    sizes = ((product.rows, product.depth), (product.depth, product.columns))
    factors = []
    for (rows, columns), is_transposed, is_shared in zip(
        sizes, product.transposes, product.shared, strict=True
    ):
        in_memory = (columns, rows) if is_transposed else (rows, columns)
        stride = 0 if is_shared else rows * columns
        factors.append(StoredMatrix(in_memory[1], in_memory[0], stride, is_transposed))
    result = StoredMatrix(product.columns, product.rows, product.rows * product.columns)
    return factors[1], factors[0], result


def product_ways(
    library: Library,
    product: Product,
    operands: DeviceTensors,
    *,
    is_half: bool,
    allows_tf32: bool,
    resources: ExitStack,
) -> list[Way]:
    """Return a way for each algorithm. Raises LibraryError."""
    plan = _Plan(library, resources)
    datatype = _FP16 if is_half else _FP32
    compute = _COMPUTE_TF32 if allows_tf32 and not is_half else _COMPUTE_FP32
    left, right, result = stored_matrices(product)
    description = plan.created("cublasLtMatmulDesc", compute, _FP32)
    plan.set(description, "cublasLtMatmulDesc", _TRANSPOSE_A, ctypes.c_int32(left.is_transposed))
    plan.set(description, "cublasLtMatmulDesc", _TRANSPOSE_B, ctypes.c_int32(right.is_transposed))
    if product.has_bias:
        plan.set(description, "cublasLtMatmulDesc", _EPILOGUE, ctypes.c_int32(_EPILOGUE_WITH_BIAS))
        plan.set(description, "cublasLtMatmulDesc", _BIAS, ctypes.c_void_p(operands.inputs[2]))
    layouts = [plan.layout(each, datatype, product.batch) for each in (left, right, result)]
    workspace = resources.enter_context(device_memory(_WORKSPACE_BYTES))
    alpha, beta = ctypes.c_float(product.alpha), ctypes.c_float(0.0)

    def way(found: _Heuristic) -> Way:
        def launch() -> None:
            library.call(
                "cublasLtMatmul",
                plan.handle,
                description,
                ctypes.byref(alpha),
                ctypes.c_void_p(operands.inputs[1]),
                layouts[0],
                ctypes.c_void_p(operands.inputs[0]),
                layouts[1],
                ctypes.byref(beta),
                ctypes.c_void_p(operands.output),
                layouts[2],
                ctypes.c_void_p(operands.output),
                layouts[2],
                ctypes.byref(found.algorithm),
                ctypes.c_void_p(workspace),
                ctypes.c_size_t(_WORKSPACE_BYTES),
                ctypes.c_void_p(0),
            )

        return Way(plan.algorithm_name(found), launch)

    return [way(each) for each in plan.heuristics(description, layouts)]


class _Plan:
    """Descriptors of one product, destroyed with the resources."""

    def __init__(self, library: Library, resources: ExitStack) -> None:
        self.library = library
        self._resources = resources
        self.handle = library.created("cublasLtCreate")
        resources.callback(library.call, "cublasLtDestroy", self.handle)

    def created(self, kind: str, *arguments: Any) -> ctypes.c_void_p:
        found = self.library.created(f"{kind}Create", *arguments)
        self._resources.callback(self.library.call, f"{kind}Destroy", found)
        return found

    def set(self, thing: ctypes.c_void_p, kind: str, attribute: int, value: Any) -> None:
        self.library.call(
            f"{kind}SetAttribute",
            thing,
            ctypes.c_int(attribute),
            ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )

    def layout(self, matrix: StoredMatrix, datatype: int, batch: int) -> ctypes.c_void_p:
        kind = "cublasLtMatrixLayout"
        found = self.created(
            kind,
            ctypes.c_int(datatype),
            ctypes.c_uint64(matrix.rows),
            ctypes.c_uint64(matrix.columns),
            ctypes.c_int64(matrix.rows),
        )
        if batch > 1:
            self.set(found, kind, _BATCH_COUNT, ctypes.c_int32(batch))
            self.set(found, kind, _BATCH_STRIDE, ctypes.c_int64(matrix.stride))
        return found

    def heuristics(
        self, description: ctypes.c_void_p, layouts: Sequence[ctypes.c_void_p]
    ) -> list[_Heuristic]:
        """Return the algorithms that the heuristics offer, the likely best first."""
        preference = self.created("cublasLtMatmulPreference")
        self.set(
            preference,
            "cublasLtMatmulPreference",
            _WORKSPACE_LIMIT,
            ctypes.c_uint64(_WORKSPACE_BYTES),
        )
        found = (_Heuristic * _MOST_ALGORITHMS)()
        count = ctypes.c_int()
        self.library.call(
            "cublasLtMatmulAlgoGetHeuristic",
            self.handle,
            description,
            *layouts,
            layouts[2],
            preference,
            ctypes.c_int(_MOST_ALGORITHMS),
            found,
            ctypes.byref(count),
        )
        return [each for each in found[: count.value] if each.state == 0]

    def algorithm_name(self, found: _Heuristic) -> str:
        """Return the numbers of the algorithm and of its tile, which are all that it has."""
        numbers = []
        for attribute in (_ALGORITHM_ID, _TILE_ID):
            value, written = ctypes.c_int32(), ctypes.c_size_t()
            self.library.call(
                "cublasLtMatmulAlgoConfigGetAttribute",
                ctypes.byref(found.algorithm),
                ctypes.c_int(attribute),
                ctypes.byref(value),
                ctypes.c_size_t(ctypes.sizeof(value)),
                ctypes.byref(written),
            )
            numbers.append(value.value)
        return f"algorithm {numbers[0]}, tile {numbers[1]}"
