"""Outputs of replies are read as numbers, and sampled for the result."""

import json
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelInferResponse  # type: ignore[import-untyped]

from inferometer_loadgen.requests.output_values import MOST_VALUES, output_samples, read_values
from inferometer_loadgen.wire import ReplyBody

SCORES = np.array([[0.25, 0.5, 0.125]], np.float32)


def http_reply(*, binary: bool) -> ReplyBody:
    """Return a reply with an output of numbers and one of texts."""
    texts: dict[str, Any] = {"name": "t", "datatype": "BYTES", "shape": [1]}
    scores: dict[str, Any] = {"name": "y", "datatype": "FP32", "shape": [1, 3]}
    if not binary:
        outputs = [{**texts, "data": ["a"]}, {**scores, "data": SCORES.tolist()[0]}]
        return ReplyBody(json.dumps({"outputs": outputs}).encode(), None)
    text = b"\x01\x00\x00\x00a"
    outputs = [
        {**texts, "parameters": {"binary_data_size": len(text)}},
        {**scores, "parameters": {"binary_data_size": SCORES.nbytes}},
    ]
    head = json.dumps({"outputs": outputs}).encode()
    return ReplyBody(head + text + SCORES.tobytes(), len(head))


def grpc_reply(*, raw: bool) -> ReplyBody:
    """Return a reply with one output."""
    response: Any = ModelInferResponse()
    output = response.outputs.add(name="y", datatype="FP32", shape=[1, 3])
    if raw:
        response.raw_output_contents.append(SCORES.tobytes())
    else:
        output.contents.fp32_contents.extend(SCORES[0].tolist())
    return ReplyBody(response.SerializeToString(), None)


@pytest.mark.parametrize(
    ("protocol", "reply"),
    [
        ("HTTP", http_reply(binary=True)),
        ("HTTP", http_reply(binary=False)),
        ("GRPC", grpc_reply(raw=True)),
        ("GRPC", grpc_reply(raw=False)),
    ],
)
def test_numbers_are_read_in_every_form(protocol: Any, reply: ReplyBody) -> None:
    """Binary or JSON, raw or typed: the output is the same array, and texts are left out."""
    found = read_values(protocol, reply)
    assert list(found) == ["y"]
    np.testing.assert_array_equal(found["y"], SCORES)


def test_a_result_keeps_few_numbers_and_every_first_class() -> None:
    """Large outputs are thinned evenly; the position of the largest number is that of all."""
    scores = np.zeros((1, 5000), np.float32)
    scores[0, 4321] = 1.0
    inputs = [{"x": np.full((1, 2), each, np.float32)} for each in range(8)]
    found = output_samples(inputs, [{"y": scores}] * 8)
    assert found is not None
    (output,) = found.outputs
    assert output.largest == [4321] * 8
    kept = np.frombuffer(b64decode(output.values), "<f4")
    assert len(kept) == 8 * output.values_per_sample <= MOST_VALUES
    assert len(set(found.inputs)) == 8


def test_the_numbers_kept_are_of_every_part_of_an_output() -> None:
    """Boxes have four coordinates each: kept numbers are of all four, and of all the boxes."""
    boxes = np.arange(8400 * 4, dtype=np.float32).reshape(1, 8400, 4)
    found = output_samples([{}], [{"y": boxes}])
    assert found is not None
    kept = np.frombuffer(b64decode(found.outputs[0].values), "<f4")
    assert set(kept % 4) == {0, 1, 2, 3}
    widest = np.diff([0, *np.sort(kept), boxes.size]).max()
    assert widest < 3 * boxes.size / MOST_VALUES


def test_many_outputs_keep_some_numbers_each() -> None:
    """Eight of each reply, where there are so many outputs that they share too little room."""
    replies = [{f"y{at}": np.ones(100, np.float32) for at in range(40)}] * 8
    found = output_samples([{"x": np.ones(1, np.float32)}] * 8, replies)
    assert found is not None
    assert {each.values_per_sample for each in found.outputs} == {8}


def test_an_image_has_no_first_class() -> None:
    """Only an output whose last axis holds all its numbers has scores."""
    found = output_samples([{}], [{"y": np.ones((1, 2, 3), np.float32)}])
    assert found is not None
    assert found.outputs[0].largest == []


def test_no_numbers_are_no_samples() -> None:
    """A model that answers texts alone cannot be compared."""
    assert output_samples([{}], [{}]) is None
    assert output_samples([], []) is None
