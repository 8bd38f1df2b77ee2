"""The datatypes that the Open Inference Protocol and ONNX Runtime share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class Datatype:
    """One element type, under each name it goes by."""

    name: str
    """The protocol's word: "FP32"."""
    runtime_name: str
    """ONNX Runtime's word: "tensor(float)"."""
    dtype: np.dtype[np.generic]
    """How elements lie in memory; objects (str) for BYTES."""
    struct_code: str | None
    """The letter for it in Python's struct; None for BF16 and BYTES, which struct lacks."""
    json_types: frozenset[type]
    """The Python types that an element may have once its JSON is read."""
    contents_field: str | None
    """The field of a gRPC request's typed contents; None if only raw contents can carry it."""

    is_text: bool = True
    """Whether elements of BYTES are texts in UTF-8, and not any bytes."""
    item_bytes: int | None = field(init=False)
    """The bytes per element; None for BYTES, whose elements differ in size."""

    def __post_init__(self) -> None:
        size = None if self.dtype.kind == "O" else self.dtype.itemsize
        object.__setattr__(self, "item_bytes", size)


_WHOLE = frozenset({int})
_REAL = frozenset({int, float})
_STRUCT_CODES = {
    "b1": "?",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
}


def _table() -> Mapping[str, Datatype]:
    rows = (
        ("BOOL", "bool", np.bool_, frozenset({bool}), "bool_contents"),
        ("UINT8", "uint8", np.uint8, _WHOLE, "uint_contents"),
        ("UINT16", "uint16", np.uint16, _WHOLE, "uint_contents"),
        ("UINT32", "uint32", np.uint32, _WHOLE, "uint_contents"),
        ("UINT64", "uint64", np.uint64, _WHOLE, "uint64_contents"),
        ("INT8", "int8", np.int8, _WHOLE, "int_contents"),
        ("INT16", "int16", np.int16, _WHOLE, "int_contents"),
        ("INT32", "int32", np.int32, _WHOLE, "int_contents"),
        ("INT64", "int64", np.int64, _WHOLE, "int64_contents"),
        ("FP16", "float16", np.float16, _REAL, None),
        ("BF16", "bfloat16", ml_dtypes.bfloat16, _REAL, None),
        ("FP32", "float", np.float32, _REAL, "fp32_contents"),
        ("FP64", "double", np.float64, _REAL, "fp64_contents"),
        ("BYTES", "string", np.object_, frozenset({str}), "bytes_contents"),
    )
    return MappingProxyType(
        {
            name: Datatype(
                name=name,
                runtime_name=f"tensor({runtime_name})",
                dtype=np.dtype(dtype),
                struct_code=_STRUCT_CODES.get(np.dtype(dtype).str[1:]),
                json_types=json_types,
                contents_field=field,
            )
            for name, runtime_name, dtype, json_types, field in rows
        }
    )


DATATYPES = _table()
"""Every shared datatype by the protocol's word for it."""

FILE_BYTES = replace(DATATYPES["BYTES"], is_text=False)
"""BYTES whose elements are any bytes; as JSON they are texts."""

BY_RUNTIME_NAME = MappingProxyType({each.runtime_name: each for each in DATATYPES.values()})
"""Every shared datatype by ONNX Runtime's word for it."""
