"""Requests leave a batch as they entered it, and only alike requests are joined."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.batching.joining import (
    Joiner,
    NotJoinableError,
    check_joinable,
    key_of,
    samples_of,
    split,
)
from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.infer.datatypes import DATATYPES
from inferometer_serving.infer.request import joined_by
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array

MAX_SAMPLES = 64


def _array(datatype: str, rows: int, width: int, seed: int) -> Array:
    dtype = DATATYPES[datatype].dtype
    numbers = np.random.default_rng(seed).integers(0, 2, (rows, width))
    return numbers.astype(str).astype(object) if datatype == "BYTES" else numbers.astype(dtype)


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=8),
    st.sampled_from(sorted(DATATYPES)),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_what_is_joined_is_split_exactly(
    sizes: list[int], datatype: str, width: int, turns: int
) -> None:
    """Each request gets its own rows of every tensor, in order, batch after batch."""
    joiner = Joiner(MAX_SAMPLES)
    for turn in range(turns + 1):
        requests = [
            {
                "x": _array(datatype, size, width, turn * 100 + at),
                "n": _array("INT64", size, 1, at),
            }
            for at, size in enumerate(sizes)
        ]
        joined = joiner.joined(requests)
        parts = split([joined["x"], joined["n"]], sizes)
        for request, (first, second) in zip(requests, parts, strict=True):
            assert first.dtype == request["x"].dtype
            np.testing.assert_array_equal(first, request["x"])
            np.testing.assert_array_equal(second, request["n"])


@pytest.mark.parametrize("shape", [(), (3,), (5, 2)])
def test_other_rows_are_not_split(shape: tuple[int, ...]) -> None:
    """An output that has not a row for each sample is never given to the wrong request."""
    with pytest.raises(NotJoinableError, match="came from 4 samples"):
        split([np.zeros(shape)], [1, 3])


def test_inputs_must_agree_in_samples() -> None:
    """The samples of a request are the first axis of all its inputs."""
    assert samples_of({"a": np.zeros((2, 3)), "b": np.zeros(2)}) == 2
    with pytest.raises(RequestRefusedError, match="'a' has 2 samples and input 'b' has 1"):
        samples_of({"a": np.zeros((2, 3)), "b": np.zeros((1, 3))})


def _key(shape: tuple[int, ...] = (1, 4), outputs: tuple[str, ...] = ("y",), **more: Any) -> object:
    parameters = joined_by({"": more, "x": {"binary_data_size": 16}})
    return key_of({"x": np.zeros(shape), "z": np.zeros((shape[0], 2))}, outputs, parameters)


def test_only_what_is_alike_has_one_key() -> None:
    """Other axes, outputs and parameters keep requests apart; the batch and the wire do not."""
    assert _key() == _key((7, 4)) == _key(binary_data_output=True)
    apart = [_key(), _key((1, 5)), _key((1, 4, 1)), _key(outputs=("y", "w")), _key(mood="calm")]
    assert len(set(apart)) == len(apart)
    assert _key(mood="calm", age=3) == _key(age=3, mood="calm") != _key(mood="calm", age=4)


def test_models_without_a_batch_axis_are_refused() -> None:
    """Every input and output must have an open first axis."""
    number = DATATYPES["FP32"]
    good = TensorSpec("good", number, (-1, 4))
    check_joinable(Signature((good,), (good,)))
    for shape in ((), (1, 4), (4, -1)):
        bad = TensorSpec("bad", number, shape)
        for signature in (Signature((good, bad), (good,)), Signature((good,), (good, bad))):
            with pytest.raises(ModelRefusedError, match="'bad' of the model has the shape"):
                check_joinable(signature)
