"""A reply whose outputs are not the model's is detected."""

import json
import re
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # has no types
    ModelInferResponse,
)

from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.replies import Expectation, first_axes, shared_shapes
from inferometer_loadgen.wire import ReplyBody

Protocol = Literal["HTTP", "GRPC"]
PROMISED = [
    Tensor(name="scores", datatype="FP32", shape=[-1, 2]),
    Tensor(name="label", datatype="BYTES", shape=[1]),
]
GOOD = {"scores": ("FP32", [3, 2], 24), "label": ("BYTES", [1], 9)}


def a_reply(protocol: Protocol, outputs: dict[str, tuple[str, list[int], int]]) -> ReplyBody:
    """Build a reply with outputs of these types, shapes and lengths in bytes."""
    if protocol == "GRPC":
        message: Any = ModelInferResponse()
        for name, (datatype, shape, size) in outputs.items():
            message.outputs.add(name=name, datatype=datatype, shape=shape)
            message.raw_output_contents.append(bytes(size))
        return ReplyBody(message.SerializeToString(), None)
    head = {
        "outputs": [
            {
                "name": name,
                "datatype": datatype,
                "shape": shape,
                "parameters": {"binary_data_size": size},
            }
            for name, (datatype, shape, size) in outputs.items()
        ]
    }
    text = json.dumps(head).encode()
    return ReplyBody(text + bytes(sum(size for *_, size in outputs.values())), len(text))


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_a_reply_that_fits_is_good(protocol: Protocol) -> None:
    """Names, types, shapes and lengths that are as promised make no fault, in any order."""
    expected = Expectation(protocol, PROMISED, 3)
    assert expected.fault(a_reply(protocol, GOOD)) is None
    assert expected.fault(a_reply(protocol, dict(reversed(GOOD.items())))) is None


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scores": ("FP16", [3, 2], 12)}, "type FP16"),
        ({"scores": ("FP32", [2, 2], 16)}, r"\[2, 2\], \[3, 2\] was due"),
        ({"scores": ("FP32", [3, 3], 36)}, r"\[3, 3\]"),
        ({"scores": ("FP32", [6], 24)}, r"\[6\]"),
        ({"scores": ("FP32", [3, 2], 20)}, "20 bytes"),
        ({"more": ("FP32", [1], 4)}, "more"),
    ],
)
def test_a_reply_that_does_not_fit_is_a_fault(
    protocol: Protocol, changed: dict[str, tuple[str, list[int], int]], words: str
) -> None:
    """A wrong name, type, shape or length is reported in a sentence."""
    fault = Expectation(protocol, PROMISED, 3).fault(a_reply(protocol, {**GOOD, **changed}))
    assert fault is not None
    assert re.search(words, fault)


def test_a_missing_output_is_a_fault() -> None:
    """An output that the model promises must be there."""
    fault = Expectation("HTTP", PROMISED, 3).fault(a_reply("HTTP", {"scores": GOOD["scores"]}))
    assert fault is not None
    assert "label" in fault


def test_a_shape_that_all_first_replies_share_is_expected_of_later_ones() -> None:
    """It must hold a result for each sample; a shape that differs between replies is a fault."""
    expected = Expectation("HTTP", PROMISED, 3)
    alike = [a_reply("HTTP", {**GOOD, "label": ("BYTES", [3, 1], 27)}) for _ in range(2)]
    shapes = shared_shapes(expected, alike)
    assert shapes == {"label": (3, 1)}
    adapted = replace(expected, shapes=shapes)
    assert adapted.fault(alike[0]) is None
    assert "[3, 1] was due" in (adapted.fault(a_reply("HTTP", GOOD)) or "")
    assert shared_shapes(expected, [*alike, a_reply("HTTP", GOOD)]) == {}
    one_result = [a_reply("HTTP", {**GOOD, "scores": ("FP32", [1, 2], 8)})]
    assert shared_shapes(expected, one_result) == {}
    assert shared_shapes(expected, [a_reply("HTTP", {"scores": GOOD["scores"]})]) == {}


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_outputs_that_nobody_promised_need_their_data(protocol: Protocol) -> None:
    """Without metadata any outputs will do, but each has the elements of its shape."""
    expected = Expectation(protocol, [], 3)
    assert expected.fault(a_reply(protocol, GOOD)) is None
    fault = expected.fault(a_reply(protocol, {"scores": ("FP32", [3, 2], 20)}))
    assert "20 bytes" in (fault or "")
    odd = expected.fault(a_reply(protocol, {"scores": ("FP8", [3, 2], 6)}))
    assert "FP8, which cannot be read" in (odd or "")


def test_json_tensors_are_counted() -> None:
    """A tensor in JSON needs as many elements as its shape says, nested or flat."""
    promised = [Tensor(name="y", datatype="FP32", shape=[-1, 2])]
    expected = Expectation("HTTP", promised, 2)

    def fault_of(data: Any) -> str | None:
        output = {"name": "y", "datatype": "FP32", "shape": [2, 2], "data": data}
        return expected.fault(ReplyBody(json.dumps({"outputs": [output]}).encode(), None))

    assert fault_of([1, 2, 3, 4]) is None
    assert fault_of([[1, 2], [3, 4]]) is None
    assert "3 elements" in (fault_of([1, 2, 3]) or "")


@given(body=st.binary(max_size=60), protocol=st.sampled_from(["HTTP", "GRPC"]), split=st.booleans())
def test_any_bytes_make_a_fault_and_no_crash(
    body: bytes, protocol: Protocol, *, split: bool
) -> None:
    """Whatever a server sends as outputs, the check ends in a sentence."""
    reply = ReplyBody(body, len(body) // 2 if split else None)
    assert Expectation(protocol, PROMISED, 3).fault(reply)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ANY_OUTPUT = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["scores", "label"]) | ANY_JSON,
        "datatype": st.sampled_from(["FP32", "BYTES"]) | ANY_JSON,
        "shape": st.sampled_from([[3, 2], [1]]) | st.lists(ANY_JSON, max_size=3) | ANY_JSON,
    },
    optional={
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": ANY_JSON}) | ANY_JSON,
        "data": ANY_JSON,
    },
)


@given(ANY_JSON | st.fixed_dictionaries({"outputs": st.lists(ANY_OUTPUT, max_size=3) | ANY_JSON}))
def test_any_json_makes_a_fault_and_no_crash(document: Any) -> None:
    """JSON of any other form, near or far from a reply's, is a fault too, to trial and check."""
    reply = ReplyBody(json.dumps(document).encode(), None)
    promised = [*PROMISED, Tensor(name="more", datatype="FP32", shape=[1])]
    assert Expectation("HTTP", promised, 3).fault(reply)
    assert first_axes("HTTP", PROMISED, [reply], 3).keys() <= {"scores"}


@pytest.mark.parametrize(
    "outputs",
    [
        '[{"name": "scores", "datatype": "FP32", "shape": [[1], 2]}]',
        '[{"name": "scores", "datatype": "FP32", "shape": [{}, 2]}]',
        '[{"name": "scores", "datatype": "FP32", "shape": [true, 2]}]',
        '[{"name": "scores", "datatype": "FP32", "shape": [-3, 2]}]',
        '[{"name": ["scores"], "datatype": "FP32", "shape": [3, 2]}]',
        '[{"name": "scores"}, {"name": 7, "datatype": "BYTES", "shape": [1]}]',
        '[{"name": 7, "datatype": "BYTES", "shape": [1]}, {"name": "scores"}]',
        "[" * 100_000 + "]" * 100_000,
        '[{"name": "scores", "datatype": "FP32", "shape": [3, 2], "data": '
        + "[" * 900
        + "]" * 900
        + "}]",
    ],
)
def test_json_of_wrong_types_is_a_fault(outputs: str) -> None:
    """Types that no output has, and JSON nested deeply, are reported in a short sentence."""
    reply = ReplyBody(f'{{"outputs": {outputs}}}'.encode(), None)
    fault = Expectation("HTTP", PROMISED, 3).fault(reply)
    assert fault
    assert len(fault) < 500
    assert first_axes("HTTP", PROMISED, [reply], 3).get("scores", 3) == 3


def test_null_is_as_good_as_nothing() -> None:
    """Servers that write their replies from models say null for what is not there."""
    output = {"name": "y", "datatype": "FP32", "shape": [1, 2], "parameters": None, "data": [1, 2]}
    document = {"model_name": "m", "id": None, "parameters": None, "outputs": [output]}
    promised = [Tensor(name="y", datatype="FP32", shape=[-1, 2])]
    assert (
        Expectation("HTTP", promised, 1).fault(ReplyBody(json.dumps(document).encode(), None))
        is None
    )


@pytest.mark.parametrize(
    ("protocol", "body", "sentence"),
    [
        ("HTTP", b"null", "must be an object with outputs, each with name, datatype and shape, "),
        ("HTTP", b'{"error": 7}', """datatype and shape, but it is '{"error": 7}'."""),
        ("HTTP", b"\xff", "is not JSON: byte 0 is not UTF-8."),
        ("HTTP", b"", "is not JSON: it is empty."),
        ("HTTP", b"<html>", "is not JSON: character 0 is not expected in '<html>'."),
        ("HTTP", b'{"outputs": [', """is not JSON: it ends too early, after '{"outputs": ['."""),
        ("GRPC", b"\xff", "is not a ModelInferResponse"),
    ],
)
def test_an_invalid_reply_is_reported_in_the_protocols_terms(
    protocol: Protocol, body: bytes, sentence: str
) -> None:
    """Who reads it knows the protocol, and not how it is read here."""
    assert sentence in (Expectation(protocol, PROMISED, 3).fault(ReplyBody(body, None)) or "")


def test_outputs_without_their_data_are_a_fault() -> None:
    """An output that has elements must have them: in JSON, in bytes, or in a field of its type."""
    scores = PROMISED[0]

    def in_json(tensor: Tensor, **members: object) -> str:
        output = {"name": tensor.name, "datatype": tensor.datatype, "shape": [2, 2], **members}
        reply = ReplyBody(json.dumps({"outputs": [output]}).encode(), None)
        return Expectation("HTTP", [tensor], 2).fault(reply) or ""

    def in_fields(tensor: Tensor, **contents: object) -> str:
        message: Any = ModelInferResponse()
        message.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.outputs[0].shape[0] = 2
        for field, values in contents.items():
            getattr(message.outputs[0].contents, field).extend(values)
        return (
            Expectation("GRPC", [tensor], 2).fault(ReplyBody(message.SerializeToString(), None))
            or ""
        )

    assert "0 elements" in in_json(scores)
    assert in_json(scores, data=[1, 2, 3, 4]) == ""
    bytes_promised = Tensor(name="label", datatype="BYTES", shape=[-1, 2])
    assert "0 bytes" in in_json(bytes_promised, parameters={"binary_data_size": 0})
    assert "0 elements" in in_fields(scores)
    assert "2 elements" in in_fields(scores, fp32_contents=[1.0, 2.0])
    assert "0 elements" in in_fields(scores, int_contents=[1, 2, 3, 4])
    assert in_fields(scores, fp32_contents=[1.0, 2.0, 3.0, 4.0]) == ""
    label = Tensor(name="label", datatype="BYTES", shape=[-1])
    assert in_fields(label, bytes_contents=[b"a", b"b"]) == ""
    empty = Tensor(name="boxes", datatype="FP32", shape=[-1, 0])
    assert in_fields(empty) == ""


def test_a_first_axis_is_what_the_first_replies_have() -> None:
    """It may be the batch or more; where it is empty or differs among them it may be any."""
    boxes = [Tensor(name="boxes", datatype="FP32", shape=[-1, 4])]

    def replies(*firsts: int) -> list[ReplyBody]:
        return [a_reply("HTTP", {"boxes": ("FP32", [first, 4], 16 * first)}) for first in firsts]

    def faults(trial: list[int], later: int) -> bool:
        firsts = first_axes("HTTP", boxes, replies(*trial), 2)
        (reply,) = replies(later)
        return Expectation("HTTP", boxes, 2, firsts).fault(reply) is not None

    assert not faults([2, 2, 2], 2)
    assert faults([2, 2, 2], 3)
    assert not faults([100, 100, 100], 100)
    assert faults([100, 100, 100], 99)
    assert faults([100, 100, 100], 2)
    assert not faults([2, 3, 2], 7)
    assert not faults([0, 0], 7)
    assert faults([1, 1, 1], 1)
    assert faults([], 7)
    assert not faults([], 2)
    wider = a_reply("HTTP", {"boxes": ("FP32", [7, 5], 140)})
    assert Expectation("HTTP", boxes, 2, {"boxes": -1}).fault(wider) is not None
