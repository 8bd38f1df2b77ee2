"""Values that a datatype cannot hold make their sample fail: none becomes another number."""

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.manifest.input_steps import Cast
from inferometer_api.results.result import Tensor
from inferometer_tasks.errors import SampleError
from inferometer_tasks.model_inputs import fit_inputs
from inferometer_tasks.steps.tensor import DTYPES, cast

WHOLE = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]


def limits(datatype: str) -> tuple[int, int]:
    """Return the lowest and the highest number of a type of whole numbers."""
    bits = int(datatype.split("INT")[1])
    return (0, 2**bits - 1) if datatype[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def fitted(values: Any, datatype: str) -> Any:
    """Return values as the input of a model of this datatype."""
    return fit_inputs([Tensor(name="x", datatype=datatype, shape=[1])], {"x": values})["x"]


@pytest.mark.parametrize("datatype", WHOLE)
@given(source=st.sampled_from(WHOLE), data=st.data())
def test_whole_numbers_stay_what_they_are(source: str, datatype: str, data: st.DataObject) -> None:
    """A number within both types passes, and any other is refused with its value."""
    edges = [each + more for each in (*limits(datatype), 0) for more in (-1, 0, 1)]
    low, high = limits(source)
    value = data.draw(
        st.sampled_from([each for each in edges if low <= each <= high] or [0])
        | st.integers(low, high)
    )
    values = np.array([value], DTYPES[source])
    for convert in (fitted, lambda x, name: cast(Cast(datatype=name), x)):
        if limits(datatype)[0] <= value <= limits(datatype)[1]:
            assert convert(values, datatype).tolist() == [value]
        else:
            with pytest.raises(SampleError, match=datatype):
                convert(values, datatype)


@pytest.mark.parametrize("datatype", WHOLE)
@given(source=st.sampled_from(["FP16", "FP32", "FP64", "BF16"]), value=st.floats())
def test_floats_are_cut_off_at_the_point(source: str, datatype: str, value: float) -> None:
    """The rest must be within the type; NaN and infinity never are."""
    with np.errstate(over="ignore"):
        values = np.array([value]).astype(DTYPES[source])
    exact = float(values[0])
    low, high = limits(datatype)
    if np.isfinite(exact) and low <= int(Fraction(exact)) <= high:
        found = cast(Cast.model_validate({"datatype": datatype}), values)
        assert found.tolist() == [int(Fraction(exact))]
    else:
        with pytest.raises(SampleError, match="cannot make"):
            cast(Cast.model_validate({"datatype": datatype}), values)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_of_fewer_bits_are_rounded_but_not_infinite(value: float) -> None:
    """The standard library packs the same numbers, or refuses them."""
    for datatype, form in (("FP16", "<e"), ("FP32", "<f")):
        try:
            wanted = struct.unpack(form, struct.pack(form, value))
        except OverflowError:
            with pytest.raises(SampleError, match=datatype):
                fitted(np.array([value]), datatype)
        else:
            assert fitted(np.array([value]), datatype).tolist() == list(wanted)


@pytest.mark.parametrize(
    ("values", "datatype", "words"),
    [
        ([300], "UINT8", "the value 300 after its steps, but the model takes UINT8"),
        ([-1], "UINT8", "the value -1"),
        ([2**40], "INT32", "the value 1.09951e[+]12"),
        ([1e30], "FP16", "the value 1e[+]30"),
        ([70_000], "FP16", "the value 70000"),
        ([1e39], "BF16", "the value 1e[+]39"),
        ([2], "BOOL", "the value 2"),
        ([1.0], "INT8", "add a step cast"),
    ],
)
def test_a_value_that_does_not_fit_the_model_is_named(
    values: list[float], datatype: str, words: str
) -> None:
    """It would have become 44, 255, 0 or infinity."""
    with pytest.raises(SampleError, match=words):
        fitted(np.array(values), datatype)


def test_infinity_is_a_value_of_floats() -> None:
    """The sample has it; the model is to say what it makes of it."""
    found = fitted(np.array([np.inf, -np.inf, np.nan])[:1], "FP16")
    assert found.tolist() == [np.inf]


def test_a_cast_to_bool_is_whether_a_value_is_set() -> None:
    """Masks have 0 and 255; NaN is neither."""
    step = Cast(datatype="BOOL")
    assert cast(step, np.array([0, 255, 0.5])).tolist() == [False, True, True]
    with pytest.raises(SampleError, match="cannot make BOOL of the value nan"):
        cast(step, np.array([np.nan]))
