"""Inputs of one sample, fitted to the model's tensors: batch axis and datatype."""

from collections.abc import Mapping, Sequence

import numpy as np

from inferometer_api.results.result import Tensor
from inferometer_tasks.errors import SampleError
from inferometer_tasks.pipeline import Tensors
from inferometer_tasks.sample import Array
from inferometer_tasks.steps.tensor import DTYPES, is_float, unfit_value

_OBJECTS = np.dtype(np.object_)
"""The numpy type of BYTES."""


def is_batched(tensors: Sequence[Tensor], arrays: Mapping[str, Array]) -> bool:
    """Return whether the model's inputs have a batch axis that those of a sample lack."""
    return any(
        each.name in arrays and arrays[each.name].ndim == len(each.shape) - 1 for each in tensors
    )


def fit_inputs(tensors: Sequence[Tensor], arrays: Mapping[str, Array]) -> Tensors:
    """Return the inputs of a request with one sample; raises SampleError if they do not fit."""
    unknown = sorted(set(arrays) - {each.name for each in tensors})
    if unknown:
        raise SampleError(
            f"The manifest has the inputs {unknown}, which the model lacks: it has "
            f"{[each.name for each in tensors]}."
        )
    return {each.name: _fitted(each, arrays[each.name]) for each in tensors if each.name in arrays}


def _fitted(tensor: Tensor, array: Array) -> Array:
    wanted = DTYPES.get(tensor.datatype, _OBJECTS)
    if array.dtype != wanted:
        is_number = array.dtype.kind in "biu" or is_float(array.dtype)
        # Numbers become the model's type, but floats never whole numbers by themselves.
        if (
            not is_number
            or tensor.datatype == "BYTES"
            or (is_float(array.dtype) and wanted.kind in "biu")
        ):
            raise SampleError(
                f"The input {tensor.name!r} has the type {array.dtype} after its steps, but the "
                f"model takes {tensor.datatype}: add a step cast."
            )
        unfit = unfit_value(array, tensor.datatype)
        if unfit is not None:
            raise SampleError(
                f"The input {tensor.name!r} has the value {unfit:g} after its steps, but the model "
                f"takes {tensor.datatype}, which cannot hold it: normalize the values."
            )
        array = array.astype(wanted)
    if array.ndim == len(tensor.shape) - 1:
        array = array[None]
    fits = array.ndim == len(tensor.shape) and all(
        own in {-1, size} for own, size in zip(tensor.shape, array.shape, strict=True)
    )
    if not fits:
        raise SampleError(
            f"The input {tensor.name!r} has the shape {list(array.shape)} after its steps, but the "
            f"model takes {tensor.shape}: change resize, crop, layout or reshape."
        )
    return np.ascontiguousarray(array)
