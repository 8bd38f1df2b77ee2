"""Layers in the terms of cuDNN and cuBLAS are the layers that ONNX Runtime computes."""

from typing import Any

import numpy as np
import pytest

from inferometer_serving.layers.gpu.device_tensors import layer_arrays
from inferometer_serving.layers.gpu.problems import (
    Activation,
    Convolution,
    Elementwise,
    Normalization,
    Pooling,
    Problem,
    Product,
    RowSoftmax,
    problem_of,
)
from inferometer_serving.layers.gpu.product_algorithms import StoredMatrix, stored_matrices
from support.single_layers import LAYERS, computed_on_cpu, relative_error, single_layer


@pytest.mark.parametrize("name", LAYERS)
def test_a_problem_has_the_result_of_its_layer(name: str) -> None:
    """An oracle in NumPy computes the problem as the libraries' manuals define it."""
    operator, shapes, attributes = LAYERS[name]
    layer = single_layer(operator, shapes, **attributes)
    problem = problem_of(layer)
    assert problem is not None
    arrays = [each for each in layer_arrays(layer) if each is not None]
    found = _computed(problem, arrays).reshape(layer.outputs[0].shape)
    assert relative_error(found, computed_on_cpu(layer)) < 1e-5


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes"),
    [
        ("Conv", [(1, 4, 8, 8), (4, 4, 3, 3)], {"pads": [0, 0, 1, 1]}),
        ("FusedConv", [(1, 4, 8, 8), (4, 4, 3, 3), (4,)], {"activation": "Tanh"}),
        ("MaxPool", [(1, 4, 8, 8)], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ("Softmax", [(2, 4, 8)], {"axis": 1}),
        ("Gemm", [(8, 4), (4, 6), (8, 1)], {}),
        ("MatMul", [(2, 1, 8, 4), (1, 3, 4, 6)], {}),
        ("Add", [(2, 1, 8), (1, 3, 8)], {}),
        ("Erf", [(2, 8)], {}),
    ],
)
def test_what_the_libraries_cannot_compute_is_no_problem(
    operator: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    """Such a layer has timings of ONNX Runtime alone."""
    layer = single_layer(operator, shapes, **attributes)
    assert problem_of(layer) is None


def _computed(problem: Problem, arrays: list[Any]) -> Any:  # noqa: PLR0911 - one for each kind
    match problem:
        case Product():
            return _product(problem, arrays)
        case Convolution():
            return _convolution(problem, arrays)
        case Pooling():
            return _pooling(problem, arrays[0])
        case RowSoftmax(rows, columns):
            powers = np.exp(arrays[0].reshape(rows, columns).astype(np.float64))
            return powers / powers.sum(axis=1, keepdims=True)
        case Activation(function, _, coefficient):
            x = arrays[0].astype(np.float64)
            return {
                "Relu": np.maximum(x, 0),
                "Sigmoid": 1 / (1 + np.exp(-x)),
                "Tanh": np.tanh(x),
                "Elu": np.where(x > 0, x, coefficient * np.expm1(x)),
            }[function]
        case Normalization(_, epsilon):
            scale, bias, mean, variance = (each[:, None, None] for each in arrays[1:])
            return (arrays[0] - mean) / np.sqrt(variance + epsilon) * scale + bias
        case Elementwise(function, first, second, is_swapped):
            ordered = arrays[::-1] if is_swapped else arrays
            a, b = ordered[0].reshape(first), ordered[1].reshape(second)
            return a + b if function == "Add" else a * b


def _product(problem: Product, arrays: list[Any]) -> Any:
    """Return D, each of whose matrices cuBLAS writes column by column."""
    first, second, result = stored_matrices(problem)
    found = np.empty(problem.batch * result.stride, np.float64)
    for number in range(problem.batch):
        left = _read(first, arrays[1], number)
        right = _read(second, arrays[0], number)
        product = problem.alpha * (left @ right)
        if problem.has_bias:
            product += arrays[2][:, None]  # cuBLAS: one element for each row of its result
        at = number * result.stride
        found[at : at + result.stride] = product.ravel(order="F")
    return found


def _read(matrix: StoredMatrix, array: Any, number: int) -> Any:
    start = number * matrix.stride
    flat = array.ravel()[start : start + matrix.rows * matrix.columns].astype(np.float64)
    stored = flat.reshape((matrix.rows, matrix.columns), order="F")
    return stored.T if matrix.is_transposed else stored


def _convolution(problem: Convolution, arrays: list[Any]) -> Any:
    source = _padded(arrays[0].reshape(problem.input), problem.pads, 0.0)
    filters = arrays[1].reshape(problem.filters).astype(np.float64)
    found = np.zeros(problem.output)
    count, channels, height, width = problem.filters
    for number in range(count):
        group = number * problem.groups // count
        part = source[:, group * channels : (group + 1) * channels]
        for y in range(height):
            for x in range(width):
                window = _strided(
                    part,
                    (y * problem.dilations[0], x * problem.dilations[1]),
                    problem.strides,
                    problem.output[2:],
                )
                found[:, number] += np.einsum("nchw,c->nhw", window, filters[number, :, y, x])
    if problem.has_bias:
        found += arrays[2][:, None, None]
    if problem.has_summand:
        found += arrays[3]
    return np.maximum(found, 0) if problem.is_rectified else found


def _pooling(problem: Pooling, array: Any) -> Any:
    empty = -np.inf if problem.kind == "Max" else 0.0
    source = _padded(array.reshape(problem.input), problem.pads, empty)
    inner = _padded(np.ones(problem.input), problem.pads, 0.0)
    windows, counts = (
        np.stack(
            [
                _strided(each, (y, x), problem.strides, problem.output[2:])
                for y in range(problem.window[0])
                for x in range(problem.window[1])
            ]
        )
        for each in (source, inner)
    )
    if problem.kind == "Max":
        return windows.max(axis=0)
    return windows.sum(axis=0) / (
        counts.sum(axis=0) if problem.kind == "MeanOfInner" else len(windows)
    )


def _padded(array: Any, pads: tuple[int, int], value: float) -> Any:
    edges = ((0, 0), (0, 0), (pads[0], pads[0]), (pads[1], pads[1]))
    return np.pad(array.astype(np.float64), edges, constant_values=value)


def _strided(
    array: Any, start: tuple[int, int], strides: tuple[int, int], size: tuple[int, int]
) -> Any:
    return array[
        :,
        :,
        start[0] : start[0] + strides[0] * (size[0] - 1) + 1 : strides[0],
        start[1] : start[1] + strides[1] * (size[1] - 1) + 1 : strides[1],
    ]
