"""Tensors in raw bytes, the form that both protocols share."""

import struct
from collections.abc import Sequence
from math import prod

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from inferometer_serving.errors import invalid
from inferometer_serving.infer.datatypes import Datatype

Array = NDArray[np.generic]
Raw = bytes | bytearray | memoryview

_COPY_UP_TO_BYTES = 65536
"""Below this a copy is cheaper than keeping a view alive through the socket."""


def from_raw(name: str, datatype: Datatype, shape: tuple[int, ...], raw: Raw) -> Array:
    """Return the tensor that `raw` holds: elements in row-major order, little-endian.

    BYTES elements each follow their length in 4 bytes. Numbers are not copied where they are
    aligned. Raises RequestRefusedError if the bytes do not make up the shape.
    """
    if datatype.item_bytes is None:
        unpack = unpack_strings if datatype.is_text else unpack_elements
        return _strings(name, shape, unpack(name, raw))
    expected = prod(shape) * datatype.item_bytes
    if len(raw) != expected:
        raise invalid(
            f"Input '{name}' has {len(raw)} bytes of data, but shape {list(shape)} of "
            f"{datatype.name} takes {expected}: send that many."
        )
    array: Array = np.ndarray(shape, datatype.dtype, raw)
    return array if array.flags.aligned else array.copy()


def to_raw(datatype: Datatype, array: Array) -> Raw:
    """Return the bytes of an output as `from_raw` reads them; large ones are not copied."""
    if datatype.item_bytes is None:
        return pack_strings(array.reshape(-1).tolist())
    if array.nbytes <= _COPY_UP_TO_BYTES:
        return array.tobytes()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def pack_strings(values: Sequence[str]) -> bytes:
    """Return strings as BYTES elements: each in UTF-8 after its length in 4 bytes."""
    parts: list[bytes] = []
    for value in values:
        encoded = value.encode()
        parts.append(struct.pack("<I", len(encoded)))
        parts.append(encoded)
    return b"".join(parts)


def unpack_strings(name: str, raw: Raw) -> list[str]:
    """Return the BYTES elements in `raw` as texts. Raises RequestRefusedError if they are none."""
    return [as_text(name, each) for each in unpack_elements(name, raw)]


def unpack_elements(name: str, raw: Raw) -> list[bytes]:
    """Return the BYTES elements in `raw`. Raises RequestRefusedError if it is cut short."""
    values: list[bytes] = []
    position, end = 0, len(raw)
    while position < end:
        start = position + 4
        if start > end:
            raise invalid(f"Input '{name}' ends within the length of element {len(values)}.")
        (length,) = struct.unpack_from("<I", raw, position)
        position = start + length
        if position > end:
            raise invalid(
                f"Input '{name}' says that element {len(values)} has {length} bytes, "
                f"but only {end - start} are left."
            )
        values.append(bytes(raw[start:position]))
    return values


def as_text(name: str, element: bytes) -> str:
    """Return a BYTES element as text. Raises RequestRefusedError if it is not UTF-8."""
    try:
        return element.decode()
    except UnicodeDecodeError as error:
        raise invalid(
            f"Input '{name}' holds an element that is not UTF-8 (byte {error.start} of it), "
            "and the strings of ONNX are UTF-8: encode it, for instance as base64."
        ) from error


def from_values(
    name: str, datatype: Datatype, shape: tuple[int, ...], values: Sequence[object]
) -> Array:
    """Return the tensor of `values`, flat and row-major, each of a type that fits `datatype`.

    Raises RequestRefusedError if their number or a value does not fit.
    """
    if datatype.item_bytes is None:
        return _strings(name, shape, values)
    _check_count(name, shape, len(values))
    try:
        if datatype.struct_code is None:
            return _brain_floats(shape, values)
        # faster than numpy, which also makes infinite what is too large
        packed = struct.pack(f"<{len(values)}{datatype.struct_code}", *values)
        return np.ndarray(shape, datatype.dtype, packed)
    except (OverflowError, ValueError, TypeError, struct.error) as error:
        raise invalid(
            f"Input '{name}' holds a value that {datatype.name} cannot hold: {error}."
        ) from error


def _brain_floats(shape: tuple[int, ...], values: Sequence[object]) -> Array:
    array: Array = np.array(values, dtype=ml_dtypes.bfloat16)
    if np.isinf(array).any():
        raise OverflowError("float too large")
    return array.reshape(shape)


def _strings(name: str, shape: tuple[int, ...], values: Sequence[object]) -> Array:
    _check_count(name, shape, len(values))
    array = np.empty(len(values), dtype=np.object_)
    array[:] = values
    return array.reshape(shape)


def _check_count(name: str, shape: tuple[int, ...], count: int) -> None:
    if count != prod(shape):
        raise invalid(
            f"Input '{name}' has {count} elements, but shape {list(shape)} takes "
            f"{prod(shape)}: send that many."
        )
