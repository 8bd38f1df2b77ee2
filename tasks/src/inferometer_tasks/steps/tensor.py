"""Steps on arrays of numbers."""

import math
from typing import Any

import ml_dtypes
import numpy as np

from inferometer_api.manifest.input_steps import Cast, FileBytes, Layout, Normalize, Reshape
from inferometer_tasks.errors import SampleError
from inferometer_tasks.sample import Array

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""The numpy type of each datatype with numbers."""


def normalize(step: Normalize, values: Array) -> Array:
    """Return (values / divideBy - mean) / std, by channel: the last axis."""
    channels = values.shape[-1] if values.ndim else 1
    for name, given in (("mean", step.mean), ("std", step.std)):
        if len(given) not in {1, channels}:
            raise SampleError(
                f"normalize has {len(given)} values of {name}, but the image has {channels} "
                "channels: give one, or one for each channel."
            )
    mean, std = (np.asarray(each, np.float32) for each in (step.mean, step.std))
    scaled = values.astype(np.float32) / np.float32(step.divide_by)
    normalized: Array = (scaled - mean) / std
    return normalized


def layout(step: Layout, image: Array) -> Array:
    """Return an image [rows, columns, channels] in the order of its axes that is wanted."""
    if image.ndim != 3:
        raise SampleError(f"layout needs an image of 3 axes, but has {image.ndim}.")
    return np.ascontiguousarray(image.transpose(2, 0, 1)) if step.order == "CHW" else image


def cast(step: Cast, values: Array) -> Array:
    """Return the values in another datatype; raises SampleError if it cannot hold one of them.

    Whole numbers are cut off at the point, and BOOL is whether a value is not 0.
    """
    if step.datatype == "BYTES":
        return np.array([str(each).encode() for each in values.ravel()], object).reshape(
            values.shape
        )
    is_cut = is_float(values.dtype) and not is_float(DTYPES[step.datatype])
    unfit = unfit_value(np.trunc(_widened(values)) if is_cut else values, step.datatype)
    if unfit is not None and not (step.datatype == "BOOL" and not math.isnan(unfit)):
        raise SampleError(
            f"cast cannot make {step.datatype} of the value {unfit:g}: normalize it before, or use "
            "another datatype."
        )
    return values.astype(DTYPES[step.datatype])


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a numpy type has floats, BF16 included."""
    return dtype.kind == "f" or dtype == DTYPES["BF16"]


def unfit_value(values: Array, datatype: str) -> float | None:
    """Return a value that a datatype with numbers cannot hold; None if it holds all.

    Rounding is no loss: 0.1 fits FP16, but 100,000 does not.
    """
    target, values = DTYPES[datatype], np.asarray(values)
    if not values.size or target == values.dtype:
        return None
    if is_float(target):
        if not is_float(values.dtype) and target != DTYPES["FP16"]:
            return None
        with np.errstate(over="ignore"):
            bad = np.isinf(values.astype(target)) & ~np.isinf(values)
    else:
        low, high = (0, 1) if datatype == "BOOL" else (np.iinfo(target).min, np.iinfo(target).max)
        values = _widened(values)
        # A float type has no number between the highest of INT64 and the next power of two.
        above = values >= float(high + 1) if is_float(values.dtype) else values > high
        bad = ~(values >= low) | above
    return float(values[bad].flat[0]) if bad.any() else None


def _widened(values: Array) -> Array:
    """Return floats of 16 bits in 32: the limits of whole numbers are infinite in FP16."""
    return values.astype(np.float32) if is_float(values.dtype) and values.itemsize < 4 else values


def reshape(step: Reshape, values: Array) -> Array:
    """Return the values in another shape."""
    try:
        return values.reshape(step.shape)
    except ValueError as error:
        raise SampleError(
            f"{values.size} values of shape {list(values.shape)} do not fit the shape {step.shape}."
        ) from error


def file_bytes(step: FileBytes, content: bytes) -> Array:
    """Return bytes of a file's begin and end as int32, padded to a fixed length."""
    begin = content[: step.block].lstrip()[: step.begin]
    end = content[-step.block :].rstrip()
    end = end[len(end) - step.end :] if step.end < len(end) else end
    end = end if step.end else b""
    found = np.full(step.begin + step.end, step.padding, np.int32)
    found[: len(begin)] = np.frombuffer(begin, np.uint8)
    if end:
        found[len(found) - len(end) :] = np.frombuffer(end, np.uint8)
    return found
