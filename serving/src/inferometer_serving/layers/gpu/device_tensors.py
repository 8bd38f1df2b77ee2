"""The tensors of a layer in a GPU's memory."""

from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from inferometer_api.layers.graph import Layer
from inferometer_serving.gpu.device import device_memory, read, write
from inferometer_serving.infer.tensors import Array
from inferometer_serving.layers.layer_tensors import number_of_datatype, random_array


@dataclass(frozen=True, slots=True)
class DeviceTensors:
    """Addresses of the inputs of a layer, and of its first output, which holds NaN at first."""

    inputs: tuple[int, ...]
    """0 for an input that is absent."""
    output: int
    shape: tuple[int, ...]
    dtype: Any

    def result(self) -> Array:
        """Return what was written to the output."""
        found = np.empty(self.shape, self.dtype)
        read(self.output, found)
        return found


def layer_arrays(layer: Layer) -> list[Array | None]:
    """Return seeded random inputs of a layer; None for one that is absent."""
    generator = np.random.default_rng(0)
    found: list[Array | None] = []
    for each in layer.inputs:
        if each.kind == "Absent":
            found.append(None)
        elif each.same_as is not None:
            found.append(found[each.same_as])
        else:
            found.append(random_array(generator, each))
    return found


def on_device(layer: Layer, resources: ExitStack, *, channels_last: bool = False) -> DeviceTensors:
    """Copy seeded random inputs to the GPU; the memory is freed with `resources`.

    With `channels_last`, tensors of four axes lie in memory with their channels last.
    """
    addresses = []
    for array in layer_arrays(layer):
        if array is None:
            addresses.append(0)
            continue
        is_moved = channels_last and array.ndim == 4
        placed = np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if is_moved else array
        address = resources.enter_context(device_memory(max(placed.nbytes, 1)))
        write(address, placed)
        addresses.append(address)
    tensor = layer.outputs[0]
    dtype = helper.tensor_dtype_to_np_dtype(number_of_datatype(tensor.datatype))
    shape = tuple(tensor.shape)
    if channels_last and len(shape) == 4:
        shape = (shape[0], *shape[2:], shape[1])
    output = resources.enter_context(device_memory(max(prod(shape) * dtype.itemsize, 1)))
    write(output, np.full(shape, np.nan, dtype))
    return DeviceTensors(tuple(addresses), output, shape, dtype)
