"""Products of matrices by cuBLASLt, which the wheel nvidia-cublas brings.

cuBLAS stores columns: a product of matrices in rows, D = A B, is there D' = B' A'.
"""

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from inferometer_serving.gpu.device import device_memory
from inferometer_serving.gpu.libraries import Library

FP32, FP16, INT8, INT32, BF16, FP8_E4M3 = 0, 2, 3, 10, 14, 28
"""cudaDataType."""
COMPUTE_FP32, COMPUTE_INT32, COMPUTE_TF32 = 68, 72, 77
"""cublasComputeType_t."""
TRANSPOSE_FIRST, TRANSPOSE_SECOND, EPILOGUE, BIAS = 3, 4, 7, 8
"""Attributes of a product."""
EPILOGUE_WITH_BIAS = 4
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_WORKSPACE_LIMIT = 1
_ALGORITHM_ID, _TILE_ID = 0, 1
_WORKSPACE_BYTES = 64 << 20


class Heuristic(ctypes.Structure):
    """An algorithm that cuBLASLt offers, with its state: 0 if it can run."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Matmul:
    """One product, D = alpha A B: its descriptors, which are destroyed with the resources.

    Each call raises LibraryError if cuBLASLt refuses it.
    """

    def __init__(self, library: Library, resources: ExitStack, *, compute: int, scale: int) -> None:
        self._library = library
        self._resources = resources
        self._handle = library.create("cublasLtCreate")
        resources.callback(library.call, "cublasLtDestroy", self._handle)
        self._description = self._create("MatmulDesc", ctypes.c_int(compute), ctypes.c_int(scale))
        self._scales_integers = scale == INT32
        self._workspace = ctypes.c_void_p(resources.enter_context(device_memory(_WORKSPACE_BYTES)))

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute of the product to a value of its C type."""
        self._set("MatmulDesc", self._description, attribute, value)

    def layout(
        self, datatype: int, rows: int, columns: int, *, batch: int = 1, stride: int = 0
    ) -> ctypes.c_void_p:
        """Return the layout of matrices in columns, `stride` elements from one to the next."""
        found = self._create(
            "MatrixLayout",
            ctypes.c_int(datatype),
            ctypes.c_uint64(rows),
            ctypes.c_uint64(columns),
            ctypes.c_int64(rows),
        )
        if batch > 1:
            self._set("MatrixLayout", found, _BATCH_COUNT, ctypes.c_int32(batch))
            self._set("MatrixLayout", found, _BATCH_STRIDE, ctypes.c_int64(stride))
        return found

    def heuristics(self, layouts: Sequence[ctypes.c_void_p], most: int) -> list[Heuristic]:
        """Return the algorithms for the layouts of A, B and D, the likely best first."""
        preference = self._create("MatmulPreference")
        limit = ctypes.c_uint64(_WORKSPACE_BYTES)
        self._set("MatmulPreference", preference, _WORKSPACE_LIMIT, limit)
        found = (Heuristic * most)()
        count = ctypes.c_int()
        self._library.call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            self._description,
            *layouts,
            layouts[2],
            preference,
            ctypes.c_int(most),
            found,
            ctypes.byref(count),
        )
        return [each for each in found[: count.value] if each.state == 0]

    def launch(
        self,
        found: Heuristic,
        layouts: Sequence[ctypes.c_void_p],
        addresses: Sequence[int],
        *,
        alpha: float = 1,
        stream: int = 0,
    ) -> None:
        """Put the product of the matrices at the addresses of A and B, to D, into a stream."""
        left, right, result = map(ctypes.c_void_p, addresses)
        self._library.call(
            "cublasLtMatmul",
            self._handle,
            self._description,
            ctypes.byref(self._factor(alpha)),
            *(left, layouts[0]),
            *(right, layouts[1]),
            ctypes.byref(self._factor(0)),
            *(result, layouts[2]),
            *(result, layouts[2]),
            ctypes.byref(found),
            self._workspace,
            ctypes.c_size_t(_WORKSPACE_BYTES),
            ctypes.c_void_p(stream),
        )

    def algorithm_name(self, found: Heuristic) -> str:
        """Return the numbers of the algorithm and of its tile, which are all that it has."""
        numbers = []
        for attribute in (_ALGORITHM_ID, _TILE_ID):
            value, written = ctypes.c_int32(), ctypes.c_size_t()
            self._library.call(
                "cublasLtMatmulAlgoConfigGetAttribute",
                ctypes.byref(found),
                ctypes.c_int(attribute),
                ctypes.byref(value),
                ctypes.c_size_t(ctypes.sizeof(value)),
                ctypes.byref(written),
            )
            numbers.append(value.value)
        return f"algorithm {numbers[0]}, tile {numbers[1]}"

    def _factor(self, value: float) -> ctypes.c_int32 | ctypes.c_float:
        return ctypes.c_int32(int(value)) if self._scales_integers else ctypes.c_float(value)

    def _create(self, kind: str, *arguments: Any) -> ctypes.c_void_p:
        found = self._library.create(f"cublasLt{kind}Create", *arguments)
        self._resources.callback(self._library.call, f"cublasLt{kind}Destroy", found)
        return found

    def _set(self, kind: str, thing: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._library.call(
            f"cublasLt{kind}SetAttribute",
            thing,
            ctypes.c_int(attribute),
            ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )
