"""Layers that are products of matrices, by every algorithm that cuBLASLt offers for them."""

import ctypes
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from inferometer_serving.gpu.cublas import (
    BIAS,
    COMPUTE_FP32,
    COMPUTE_TF32,
    EPILOGUE,
    EPILOGUE_WITH_BIAS,
    FP16,
    FP32,
    TRANSPOSE_FIRST,
    TRANSPOSE_SECOND,
    Heuristic,
    Matmul,
)
from inferometer_serving.gpu.libraries import Library
from inferometer_serving.layers.gpu.algorithms import Algorithm
from inferometer_serving.layers.gpu.device_tensors import DeviceTensors
from inferometer_serving.layers.gpu.problems import Product

_MOST_ALGORITHMS = 6


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


def product_algorithms(
    library: Library,
    product: Product,
    operands: DeviceTensors,
    *,
    is_half: bool,
    allows_tf32: bool,
    resources: ExitStack,
) -> list[Algorithm]:
    """Return the algorithms that cuBLASLt's heuristics suggest. Raises LibraryError."""
    datatype = FP16 if is_half else FP32
    compute = COMPUTE_TF32 if allows_tf32 and not is_half else COMPUTE_FP32
    left, right, result = stored_matrices(product)
    matmul = Matmul(library, resources, compute=compute, scale=FP32)
    matmul.set(TRANSPOSE_FIRST, ctypes.c_int32(left.is_transposed))
    matmul.set(TRANSPOSE_SECOND, ctypes.c_int32(right.is_transposed))
    if product.has_bias:
        matmul.set(EPILOGUE, ctypes.c_int32(EPILOGUE_WITH_BIAS))
        matmul.set(BIAS, ctypes.c_void_p(operands.inputs[2]))
    layouts = [
        matmul.layout(datatype, each.rows, each.columns, batch=product.batch, stride=each.stride)
        for each in (left, right, result)
    ]
    addresses = (operands.inputs[1], operands.inputs[0], operands.output)

    def algorithm(found: Heuristic) -> Algorithm:
        launch = partial(matmul.launch, found, layouts, addresses, alpha=product.alpha)
        return Algorithm(matmul.algorithm_name(found), launch)

    return [algorithm(each) for each in matmul.heuristics(layouts, _MOST_ALGORITHMS)]
