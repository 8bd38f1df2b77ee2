"""Tensors of layers: what is known of one, and random arrays such as it has."""

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from inferometer_api.layers.graph import LayerTensor
from inferometer_serving.infer.tensors import Array

FEW_ELEMENTS = 16
"""The elements of no more are kept."""
_SAMPLED, _GATHERED = 128, 1 << 16
"""Elements of the sample of a tensor, and those among which it is chosen, at most."""


def random_array(generator: np.random.Generator, tensor: LayerTensor) -> Array:
    """Return an array such as a tensor has.

    Fractions are between 0.5 and 1.5, which no operator turns into an infinite number, and share
    memory with those of other arrays, unless the tensor has a sample of its own. Raises ValueError
    if the datatype has no form in numpy.
    """
    dtype = helper.tensor_dtype_to_np_dtype(number_of_datatype(tensor.datatype))
    if tensor.values is not None:
        return np.array(tensor.values, dtype=dtype).reshape(tensor.shape)
    if np.issubdtype(dtype, np.bool_):
        return generator.integers(0, 2, tensor.shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        lowest = 0 if tensor.lowest is None else tensor.lowest
        highest = 1 if tensor.highest is None else tensor.highest
        return generator.integers(lowest, highest, tensor.shape, endpoint=True).astype(dtype)
    if dtype.hasobject:
        raise ValueError(f"One of its tensors is of type {tensor.datatype}.")
    if tensor.sample is not None:
        return generator.choice(np.array(tensor.sample, dtype), tensor.shape)
    fractions = _fractions(prod(tensor.shape)).reshape(tensor.shape)
    return fractions if dtype == np.float32 else fractions.astype(dtype)


@cache
def number_of_datatype(name: str) -> int:
    """Return ONNX's number of a tensor's datatype. Raises ValueError for sequences and maps."""
    if name not in TensorProto.DataType.keys():  # noqa: SIM118 - no mapping
        raise ValueError(f"One of its tensors is of type {name or 'unknown'}.")
    return int(TensorProto.DataType.Value(name))


def _fractions(count: int) -> Array:
    """Return that many random fractions; all share one memory, so nothing may write there."""
    size = max(1 << 20, 1 << (count - 1).bit_length())
    return _all_fractions(size)[:count]


@cache
def _all_fractions(size: int) -> Array:
    array = np.resize(np.random.default_rng(0).random(1 << 20, dtype=np.float32), size)
    array += np.float32(0.5)
    array.setflags(write=False)
    return array


def graph_inputs(model: ModelProto) -> dict[str, LayerTensor]:
    """Return the inputs of a graph that are no weights."""
    weights = {each.name for each in model.graph.initializer}
    return {
        each.name: LayerTensor(
            kind="Activation",
            datatype=TensorProto.DataType.Name(each.type.tensor_type.elem_type),
            shape=[axis.dim_value for axis in each.type.tensor_type.shape.dim],
        )
        for each in model.graph.input
        if each.name not in weights
    }


def describe_value(value: Any) -> LayerTensor:
    """Return an activation of a session."""
    if not value.is_tensor():
        return LayerTensor(kind="Activation", datatype=value.data_type())
    datatype = TensorProto.DataType.Name(value.element_type())
    if datatype.startswith(("INT", "UINT")):
        return describe_array(value.numpy(), datatype)
    return LayerTensor(kind="Activation", datatype=datatype, shape=list(value.shape()))


def describe_array(array: Array, datatype: str) -> LayerTensor:
    """Return an activation with what its integers say; fractions are not looked at."""
    values = lowest = highest = None
    if np.issubdtype(array.dtype, np.integer) and array.size:
        if array.size <= FEW_ELEMENTS:
            values = [int(each) for each in array.flat]
        else:
            lowest, highest = int(array.min()), int(array.max())
    return LayerTensor(
        kind="Activation",
        datatype=datatype,
        shape=list(array.shape),
        values=values,
        lowest=lowest,
        highest=highest,
    )


def is_fractions(tensor: LayerTensor | None) -> bool:
    """Return whether a tensor has single-precision numbers, of which a sample can be taken."""
    return tensor is not None and tensor.datatype == "FLOAT" and prod(tensor.shape) > 0


def add_sampling(graph: GraphProto, name: str, size: int) -> None:
    """Add nodes that gather some elements of a tensor of so many; `sampled_name` is their name."""
    flat, gathered = f"{name}:flat", sampled_name(name)
    if size > _GATHERED:
        chosen = np.random.default_rng(0).integers(0, size, _GATHERED)
    else:
        chosen = np.arange(size)
    constants = {f"{name}:shape": np.array([-1]), f"{name}:places": chosen}
    graph.initializer.extend(
        numpy_helper.from_array(array, each) for each, array in constants.items()
    )
    shape, places = constants
    graph.node.append(helper.make_node("Reshape", [name, shape], [flat]))
    graph.node.append(helper.make_node("Gather", [flat, places], [gathered]))


def sampled_name(name: str) -> str:
    """Return the name of what is gathered of a tensor."""
    return f"{name}:sampled"


def sample_of(array: Array) -> list[float]:
    """Return finite elements of an array in ascending order, at equal distances."""
    finite = np.sort(array[np.isfinite(array)])
    places = np.linspace(0, finite.size - 1, min(_SAMPLED, finite.size)).astype(int)
    found: list[float] = finite[places].tolist()
    return found


def has_denormals(sample: Sequence[float]) -> bool:
    """Return whether some numbers are too small for the full precision of a float."""
    smallest = np.finfo(np.float32).tiny
    return any(0 < abs(each) < smallest for each in sample)
