"""Translates a layer into the terms of cuDNN and cuBLAS, if they can compute it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from google.protobuf import json_format
from onnx import AttributeProto, helper

from inferometer_api.layers.graph import Layer, LayerTensor
from inferometer_serving.gpu.reductions import ENGINE as MATRIX_UNITS
from inferometer_serving.gpu.reductions import has_segments

_FLOATS = ("FLOAT", "FLOAT16")
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution of images, with what may be fused into it."""

    input: tuple[int, int, int, int]
    """Batch, channels, height and width."""
    filters: tuple[int, int, int, int]
    """Filters, channels of one group, height and width."""
    output: tuple[int, int, int, int]
    pads: Pair
    strides: Pair
    dilations: Pair
    groups: int
    has_bias: bool = False
    has_summand: bool = False
    """Whether a tensor of the output's shape is added before the activation."""
    is_rectified: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """A product of matrices in rows, of a batch of them: D = alpha A B, plus a bias."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    transposes: tuple[bool, bool] = (False, False)
    """Whether A and B lie transposed in memory."""
    shared: tuple[bool, bool] = (False, False)
    """Whether all products of the batch have the same A, or the same B."""
    alpha: float = 1.0
    has_bias: bool = False
    """Whether a vector, one element for each column, is added."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """Maxima or means of windows."""

    kind: Literal["Max", "Mean", "MeanOfInner"]
    """MeanOfInner leaves the padding out."""
    input: tuple[int, int, int, int]
    output: tuple[int, int, int, int]
    window: Pair
    pads: Pair
    strides: Pair


@dataclass(frozen=True, slots=True)
class RowSoftmax:
    """A softmax of each row."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of each element."""

    function: str
    """Sigmoid, Relu, Tanh or Elu."""
    elements: int
    coefficient: float = 0.0


@dataclass(frozen=True, slots=True)
class Normalization:
    """A normalisation by given means and variances, one for each channel."""

    input: tuple[int, int, int, int]
    epsilon: float


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A sum or product of two tensors, the second of which may be broadcast."""

    function: Literal["Add", "Mul"]
    first: tuple[int, int, int, int]
    second: tuple[int, int, int, int]
    is_swapped: bool = False
    """Whether `first` is the second input of the layer."""


Problem = Convolution | Product | Pooling | RowSoftmax | Activation | Normalization | Elementwise


def is_half(layer: Layer) -> bool:
    """Return whether a layer computes with numbers of 16 bits."""
    return layer.inputs[0].datatype == "FLOAT16"


def has_kernels(engine: str, layer: Layer) -> bool:
    """Return whether a library of kernels has any for a layer."""
    if engine == MATRIX_UNITS:
        return has_segments(layer)
    problem = problem_of(layer)
    return problem is not None and isinstance(problem, Product) == (engine == "cublas")


def problem_of(layer: Layer) -> Problem | None:
    """Return a layer in the terms of cuDNN and cuBLAS; None if neither can compute it."""
    given = [each for each in layer.inputs if each.kind != "Absent"]
    if not given or given[0].datatype not in _FLOATS or 0 in layer.outputs[0].shape:
        return None
    reader = _READERS.get(layer.operator)
    return None if reader is None else reader(layer, _attributes(layer))


def _attributes(layer: Layer) -> dict[str, Any]:
    parsed = (json_format.ParseDict(each, AttributeProto()) for each in layer.attributes)
    return {each.name: helper.get_attribute_value(each) for each in parsed}


def _image(shape: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Return a shape of four axes; a sequence becomes an image one pixel high."""
    if len(shape) == 3:
        return shape[0], shape[1], 1, shape[2]
    return (shape[0], shape[1], shape[2], shape[3]) if len(shape) == 4 else None


def _pair(values: Sequence[int], missing: int) -> Pair:
    """Return a value for height and for width; a sequence has only the latter."""
    return (values[0], values[1]) if len(values) == 2 else (missing, values[0])


def _window(attributes: dict[str, Any], rank: int) -> tuple[Pair, Pair, Pair] | None:
    """Return pads, strides and dilations; None for pads that differ at the two ends."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return None
    pads = attributes.get("pads", [0] * (2 * rank))
    if list(pads[:rank]) != list(pads[rank:]):
        return None
    ones = [1] * rank
    return (
        _pair(pads[:rank], 0),
        _pair(attributes.get("strides", ones), 1),
        _pair(attributes.get("dilations", ones), 1),
    )


def _convolution(layer: Layer, attributes: dict[str, Any]) -> Convolution | None:
    source, filters, output = (_image(each.shape) for each in (*layer.inputs[:2], layer.outputs[0]))
    window = _window(attributes, len(layer.inputs[0].shape) - 2)
    activation = attributes.get("activation", b"")
    present = [each.kind != "Absent" for each in layer.inputs] + [False, False]
    if source is None or filters is None or output is None or window is None:
        return None
    if activation not in (b"", b"Relu") or ((activation or present[3]) and not present[2]):
        return None
    return Convolution(
        source,
        filters,
        output,
        *window,
        groups=attributes.get("group", 1),
        has_bias=present[2],
        has_summand=present[3],
        is_rectified=activation == b"Relu",
    )


def _gemm(layer: Layer, attributes: dict[str, Any]) -> Product | None:
    left, *rest = layer.inputs
    transposes = bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0))
    rows, columns = layer.outputs[0].shape
    bias = [each for each in rest[1:] if each.kind != "Absent"]
    if bias and (attributes.get("beta", 1.0) != 1.0 or not _is_vector(bias[0], columns)):
        return None
    return Product(
        rows,
        columns,
        left.shape[0] if transposes[0] else left.shape[1],
        transposes=transposes,
        alpha=attributes.get("alpha", 1.0),
        has_bias=bool(bias),
    )


def _is_vector(tensor: LayerTensor, size: int) -> bool:
    return prod(tensor.shape) == size and tensor.shape[-1:] == [size]


def _batched_product(layer: Layer, attributes: dict[str, Any]) -> Product | None:
    if attributes.get("transBatchA") or attributes.get("transBatchB"):
        return None
    first, second = (each.shape for each in layer.inputs[:2])
    if len(first) < 2 or len(second) < 2:
        return None
    transposes = bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0))
    rows, columns = layer.outputs[0].shape[-2:]
    depth = first[-2] if transposes[0] else first[-1]
    batches = prod(first[:-2]), prod(second[:-2])
    alpha = attributes.get("alpha", 1.0)
    if batches[1] == 1 and not transposes[0]:
        # All rows of the batch are rows of one matrix.
        return Product(batches[0] * rows, columns, depth, 1, transposes, alpha=alpha)
    if 1 not in batches and list(first[:-2]) != list(second[:-2]):
        return None
    shared = batches[0] == 1, batches[1] == 1
    batch = max(batches)
    return Product(
        rows, columns, depth, batch, transposes, shared if batch > 1 else (False, False), alpha
    )


def _pooling(layer: Layer, attributes: dict[str, Any]) -> Pooling | None:
    source, output = _image(layer.inputs[0].shape), _image(layer.outputs[0].shape)
    if source is None or output is None or len(layer.outputs) > 1:
        return None
    is_max = "Max" in layer.operator
    if layer.operator.startswith("Global"):
        return Pooling("Max" if is_max else "Mean", source, output, source[2:], (0, 0), (1, 1))
    window = _window(attributes, len(layer.inputs[0].shape) - 2)
    if window is None or window[2] != (1, 1):
        return None
    pads, strides, _ = window
    size = _pair(attributes["kernel_shape"], 1)
    if output[2:] != tuple(
        (source[2 + at] + 2 * pads[at] - size[at]) // strides[at] + 1 for at in range(2)
    ):
        return None  # rounded up
    mean: Literal["Mean", "MeanOfInner"] = (
        "Mean" if attributes.get("count_include_pad") else "MeanOfInner"
    )
    return Pooling("Max" if is_max else mean, source, output, size, pads, strides)


def _softmax(layer: Layer, attributes: dict[str, Any]) -> RowSoftmax | None:
    shape = layer.inputs[0].shape
    axis = attributes.get("axis", -1) % len(shape)
    if layer.version >= 13 and axis != len(shape) - 1:
        return None
    return RowSoftmax(prod(shape[:axis]), prod(shape[axis:]))


def _normalization(layer: Layer, attributes: dict[str, Any]) -> Normalization | None:
    source = _image(layer.inputs[0].shape)
    if source is None or attributes.get("training_mode") or len(layer.outputs) > 1:
        return None
    return Normalization(source, attributes.get("epsilon", 1e-5))


def _activation(layer: Layer, attributes: dict[str, Any]) -> Activation | None:
    elements = prod(layer.inputs[0].shape)
    coefficient = attributes.get("alpha", 1.0) if layer.operator == "Elu" else 0.0
    return Activation(layer.operator, elements, coefficient)


def _elementwise(layer: Layer, _: dict[str, Any]) -> Elementwise | None:
    if len(layer.inputs) != 2 or layer.inputs[1].same_as is not None:
        return None
    output = list(layer.outputs[0].shape)
    shapes = [[1] * (len(output) - len(each.shape)) + list(each.shape) for each in layer.inputs]
    if output not in shapes:
        return None
    first = shapes.index(output)
    merged = _merged_axes(output, shapes[1 - first])
    if merged is None:
        return None
    function: Literal["Add", "Mul"] = "Add" if layer.operator == "Add" else "Mul"
    return Elementwise(function, *merged, is_swapped=first == 1)


def _merged_axes(
    output: Sequence[int], other: Sequence[int]
) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]] | None:
    """Return two shapes with four axes: neighbours that are broadcast alike become one."""
    merged: list[tuple[int, bool]] = []
    for size, own in zip(output, other, strict=True):
        is_broadcast = own != size
        if size == 1:
            continue
        if merged and merged[-1][1] == is_broadcast:
            merged[-1] = (merged[-1][0] * size, is_broadcast)
        else:
            merged.append((size, is_broadcast))
    if len(merged) > 4:
        return None
    axes = [(1, False)] * (4 - len(merged)) + merged
    first = (axes[0][0], axes[1][0], axes[2][0], axes[3][0])
    second = tuple(1 if is_broadcast else size for size, is_broadcast in axes)
    return first, (second[0], second[1], second[2], second[3])


_READERS: Mapping[str, Callable[[Layer, dict[str, Any]], Problem | None]] = {
    "Add": _elementwise,
    "AveragePool": _pooling,
    "BatchNormalization": _normalization,
    "Conv": _convolution,
    "Elu": _activation,
    "FusedConv": _convolution,
    "FusedMatMul": _batched_product,
    "Gemm": _gemm,
    "GlobalAveragePool": _pooling,
    "GlobalMaxPool": _pooling,
    "MatMul": _batched_product,
    "MaxPool": _pooling,
    "Mul": _elementwise,
    "Relu": _activation,
    "Sigmoid": _activation,
    "Softmax": _softmax,
    "Tanh": _activation,
}
"""Clip is left out: its limits are weights, whose values are not part of a layer."""
