"""Tensors survive their raw and JSON forms."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.infer.datatypes import DATATYPES
from inferometer_serving.infer.json_tensors import from_json, to_json
from inferometer_serving.infer.tensors import (
    from_raw,
    from_values,
    pack_strings,
    to_raw,
    unpack_strings,
)

NUMBERS = [each for each in DATATYPES if each != "BYTES"]
NUMPY_NUMBERS = [each for each in NUMBERS if each != "BF16"]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def tensors(draw: st.DrawFn, names: list[str]) -> tuple[str, np.ndarray[Any, Any]]:
    """Draw a datatype and finite tensor of it."""
    name = draw(st.sampled_from(names))
    elements = {"allow_nan": False, "allow_infinity": False} if "FP" in name else None
    dtype = DATATYPES[name].dtype
    return name, draw(arrays.arrays(dtype, SHAPES, elements=elements))


@given(tensors(NUMPY_NUMBERS))
def test_numbers_survive_raw_bytes(drawn: tuple[str, np.ndarray[Any, Any]]) -> None:
    """Numbers come back from their bytes as they were, whatever the shape."""
    name, array = drawn
    found = from_raw("x", DATATYPES[name], array.shape, bytes(to_raw(DATATYPES[name], array)))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@given(tensors(NUMPY_NUMBERS))
def test_numbers_survive_json(drawn: tuple[str, np.ndarray[Any, Any]]) -> None:
    """Numbers come back from their JSON as they were, 64-bit integers included."""
    name, array = drawn
    written = to_json("y", DATATYPES[name], array)
    found = from_json("x", DATATYPES[name], array.shape, orjson.loads(written))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@given(st.lists(st.text(), max_size=20))
def test_strings_survive_raw_bytes(values: list[str]) -> None:
    """Strings come back from their bytes as they were."""
    assert unpack_strings("x", pack_strings(values)) == values


@given(st.binary(max_size=64))
def test_damaged_strings_are_refused(raw: bytes) -> None:
    """Bytes are BYTES elements, which come back as they were, or are refused by a sentence."""
    values, sentence = None, ""
    try:
        values = unpack_strings("x", raw)
    except RequestRefusedError as error:
        sentence = str(error)
    assert pack_strings(values) == raw if values is not None else sentence.endswith(".")


def test_large_outputs_are_not_copied() -> None:
    """A large output is handed on as a view of its own memory."""
    array = np.zeros((100, 1000), np.float32)
    raw = to_raw(DATATYPES["FP32"], array)
    assert isinstance(raw, memoryview)
    assert np.shares_memory(np.frombuffer(raw, np.float32), array)


def test_misaligned_numbers_are_aligned() -> None:
    """Numbers that begin at an odd address are copied to an aligned one."""
    view = memoryview(b"x" + np.arange(4, dtype=np.float32).tobytes())[1:]
    found = from_raw("x", DATATYPES["FP32"], (4,), view)
    assert found.flags.aligned
    np.testing.assert_array_equal(found, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("UINT8", [256]),
        ("INT8", [-129]),
        ("UINT32", [-1]),
        ("INT64", [2**63]),
        ("FP16", [70000.0]),
        ("BF16", [1e39]),
        ("FP32", [1e39]),
    ],
)
def test_values_out_of_bounds_are_refused(datatype: str, values: list[object]) -> None:
    """A value that the datatype cannot hold is refused rather than wrapped or made infinite."""
    with pytest.raises(RequestRefusedError, match="cannot hold"):
        from_values("x", DATATYPES[datatype], (1,), values)


@pytest.mark.parametrize(
    ("datatype", "value", "found"),
    [
        ("INT32", 1.5, "number"),
        ("INT32", True, "true/false"),
        ("BOOL", 1, "integer"),
        ("FP32", "1", "string"),
        ("BYTES", 1, "integer"),
        ("FP32", None, "null"),
    ],
)
def test_json_of_another_type_is_refused(datatype: str, value: object, found: str) -> None:
    """A JSON element of another type than the datatype's is refused, never converted."""
    with pytest.raises(RequestRefusedError, match=f"holds {found}: send"):
        from_json("x", DATATYPES[datatype], (1,), [value])


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]]])
def test_json_may_be_flat_or_nested_as_the_shape(data: list[object]) -> None:
    """A flat list and lists nested as the shape mean the same."""
    found = from_json("x", DATATYPES["INT32"], (2, 2), data)
    np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "data", [[[1, 2, 3, 4]], [[[1], [2]], [[3], [4]]], [[1, 2, 3], [4]], [[1, 2], 3, 4], [[], []]]
)
def test_json_nested_otherwise_is_refused(data: list[object]) -> None:
    """Lists nested otherwise than the shape are refused, even with as many elements."""
    with pytest.raises(RequestRefusedError):
        from_json("x", DATATYPES["INT32"], (2, 2), data)


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_json_has_no_word_for_nan(datatype: str, value: float) -> None:
    """An output with NaN or infinity is refused in JSON instead of becoming null."""
    with pytest.raises(RequestRefusedError, match="binary_data"):
        to_json("y", DATATYPES[datatype], np.array([1, value], DATATYPES[datatype].dtype))


def test_json_carries_the_word_null_in_strings() -> None:
    """An output of strings may hold the word that stands for NaN elsewhere."""
    assert to_json("y", DATATYPES["BYTES"], np.array(["null"], np.object_)) == b'["null"]'
