"""Cached parts of one inference request never show in another."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.infer import request
from inferometer_serving.infer.datatypes import DATATYPES
from inferometer_serving.infer.plan import InferenceRequest
from inferometer_serving.infer.request import RequestReader
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array

NAMES = ("x", "100%b ü")
SIGNATURE = Signature(
    inputs=tuple(TensorSpec(name, DATATYPES["FP32"], (-1, 2)) for name in NAMES),
    outputs=tuple(TensorSpec(name, DATATYPES["FP32"], (-1, 2)) for name in NAMES),
)
READER = RequestReader(SIGNATURE)
"""One for all examples, so that each meets what all before it left."""


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Any], bytes, dict[str, Array]]:
    """Draw a request's JSON, the binary data behind it, and the tensors that both hold."""
    document: dict[str, Any] = {"inputs": []}
    if draw(st.booleans()):
        document["id"] = draw(st.text(max_size=3))
    raw = b""
    tensors: dict[str, Array] = {}
    for name in draw(st.permutations(NAMES)):
        rows = draw(st.integers(0, 2))
        numbers = draw(st.lists(st.integers(-3, 3), min_size=2 * rows, max_size=2 * rows))
        tensors[name] = np.array(numbers, np.float32).reshape(rows, 2)
        member: dict[str, Any] = {"name": name, "datatype": "FP32", "shape": [rows, 2]}
        if draw(st.booleans()):
            member["parameters"] = {"binary_data_size": tensors[name].nbytes}
            raw += tensors[name].tobytes()
        else:
            member["data"] = tensors[name].tolist() if draw(st.booleans()) else numbers
        document["inputs"].append(member)
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(NAMES), unique=True))
        document["outputs"] = [
            {"name": each, "parameters": {"binary_data": draw(st.booleans())}} for each in names
        ]
    return document, raw, tensors


def _answer(request: InferenceRequest, results: list[Array]) -> tuple[dict[str, Any], bytes]:
    form = request.plan.answer_form("model", "1", results)
    written, raw = form.fill(request.request_id, results)
    return orjson.loads(written), b"".join(map(bytes, raw))


@given(requests())
def test_a_request_is_read_and_answered_as_if_it_were_the_first(
    drawn: tuple[dict[str, Any], bytes, dict[str, Array]],
) -> None:
    """Tensors, id, outputs and their forms are a request's own, whatever came before."""
    document, raw, tensors = drawn
    request = READER.read(orjson.dumps(document))
    found = request.plan.tensors(request.data, raw)
    assert list(found) == [each["name"] for each in document["inputs"]]
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    requested = document.get("outputs") or [{"name": each} for each in NAMES]
    assert request.plan.output_names == [each["name"] for each in requested]
    answered, binary = _answer(request, [tensors[each["name"]] for each in requested])
    assert answered["model_name"] == "model"
    assert answered["model_version"] == "1"
    assert answered.get("id") == document.get("id")
    assert len(answered["outputs"]) == len(requested)
    for output, wanted in zip(answered["outputs"], requested, strict=True):
        array = tensors[wanted["name"]]
        assert (output["name"], output["datatype"]) == (wanted["name"], "FP32")
        assert tuple(output["shape"]) == array.shape
        if wanted.get("parameters", {}).get("binary_data"):
            assert output["parameters"] == {"binary_data_size": array.nbytes}
            assert binary.startswith(array.tobytes())
            binary = binary[array.nbytes :]
        else:
            assert output["data"] == array.ravel().tolist()
    assert binary == b""


def _document(**members: object) -> bytes:
    numbers = {"datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    inputs: list[dict[str, Any]] = [{"name": each, **numbers} for each in NAMES]
    return orjson.dumps({"inputs": inputs, **members})


@pytest.mark.parametrize(
    ("member", "value", "sentence"),
    [
        ("data", [1, "2"], "holds string"),
        ("data", [1, 2, 3], "has 3 elements"),
        ("data", None, "is not a list"),
        ("data", [1, 1e39], "cannot hold"),
        ("shape", [2, 2], "has 2 elements"),
        ("datatype", "FP64", "sent as FP64"),
    ],
)
def test_a_request_is_refused_although_one_like_it_was_fine(
    member: str, value: object, sentence: str
) -> None:
    """What was found right for one request is not taken as right for the next."""
    reader = RequestReader(SIGNATURE)
    document = orjson.loads(_document())
    reader.read(orjson.dumps(document))
    document["inputs"][0][member] = value
    with pytest.raises(RequestRefusedError, match=sentence):
        _tensors(reader.read(orjson.dumps(document)))


def _tensors(request: InferenceRequest) -> dict[str, Array]:
    return request.plan.tensors(request.data, b"")


def test_requests_alike_share_a_plan() -> None:
    """Requests that differ in tensors and id alone are planned once."""
    reader = RequestReader(SIGNATURE)
    plans = {id(reader.read(_document(id=each)).plan) for each in ("a", "b")}
    assert len(plans) == 1
    assert reader.read(_document(id="a")).request_id == "a"


def test_the_request_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ever new requests nor huge ones fill the memory, and all are answered."""
    monkeypatch.setattr(request, "_MOST_CACHED", 8)
    reader = RequestReader(SIGNATURE)
    for number in range(50):
        size = {"binary_data_size": 8}
        binary = [
            {"name": each, "datatype": "FP32", "shape": [1, 2], "parameters": size}
            for each in NAMES
        ]
        for each in (
            _document(note=number),
            _document(note="x" * 5000),
            _document(inputs=binary, id=str(number)),
        ):
            assert reader.read(each).plan.output_names == list(NAMES)
    assert 0 < len(reader._plans) <= 8
    assert 0 < len(reader._whole) <= 8
    assert max(map(len, (*reader._plans, *reader._whole))) <= 4096


def test_requests_nested_deeper_than_orjson_writes_are_read() -> None:
    """A member that means nothing may be nested as deep as JSON is read."""
    deep = b"[" * 600 + b"]" * 600
    document = _document()[:-1] + b',"note":' + deep + b"}"
    assert READER.read(document).plan.output_names == list(NAMES)


def test_sizes_of_strings_are_reported_for_each_reply() -> None:
    """Outputs of strings in one shape differ in their bytes, and each answer reports its own."""
    spec = TensorSpec("y", DATATYPES["BYTES"], (1,))
    reader = RequestReader(Signature(inputs=SIGNATURE.inputs, outputs=(spec,)))
    request = reader.read(_document(parameters={"binary_data_output": True}))
    for word in ("a", "longer"):
        answered, raw = _answer(request, [np.array([word], np.object_)])
        assert answered["outputs"][0]["parameters"] == {"binary_data_size": len(raw)}
        assert raw == len(word).to_bytes(4, "little") + word.encode()


def test_shapes_of_outputs_are_reported_for_each_reply() -> None:
    """Requests of one plan whose outputs differ in shape each report their own."""
    request = READER.read(_document())
    for rows in (1, 2, 1):
        result = np.zeros((rows, 2), np.float32)
        answered, _ = _answer(request, [result, result])
        assert [each["shape"] for each in answered["outputs"]] == [[rows, 2]] * 2
