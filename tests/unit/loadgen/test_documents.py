"""Server and model metadata are read by the protocol, and violations are named."""

from typing import Any

import pytest
from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # has no types
    ModelConfigResponse,
    ModelMetadataResponse,
    ServerMetadataResponse,
)

from inferometer_api.results.result import Tensor
from inferometer_loadgen.server.documents import (
    ModelMetadata,
    ServerDocument,
    UnreadableMetadataError,
    engine_of,
    model_document,
    optional_inputs_of,
    server_document,
    settings_of,
)

X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}


def with_input(**changed: Any) -> dict[str, Any]:
    """Return the metadata of a model whose one input is changed."""
    return {"inputs": [{**X, **changed}]}


@pytest.mark.parametrize("answer", [{}, ServerMetadataResponse(), dict.fromkeys(("name", "x"))])
def test_what_a_server_leaves_out_is_empty(answer: Any) -> None:
    """Over either protocol, absent and null alike."""
    assert server_document(answer) == ServerDocument("", "", [])
    assert server_document({"extensions": None, "version": "2"}) == ServerDocument("", "2", [])


@pytest.mark.parametrize(
    "answer", [{}, ModelMetadataResponse(), {"versions": None, "inputs": None, "outputs": None}]
)
def test_what_a_model_leaves_out_is_empty(answer: Any) -> None:
    """Over either protocol, absent and null alike; a shape, too."""
    assert model_document(answer) == ModelMetadata([], [], [])
    scalar = [Tensor(name="x", datatype="FP32", shape=[])]
    assert model_document(with_input(shape=None)).inputs == scalar
    assert model_document({"outputs": [{"name": "x", "datatype": "FP32"}]}).outputs == scalar


def test_optional_inputs_are_those_of_the_configuration() -> None:
    """Over either protocol; what cannot be read names none."""
    inputs = [{"name": "x"}, {"name": "mask", "optional": True}, {"name": "y", "optional": False}]
    response = ModelConfigResponse()
    response.config.input.add(name="x")
    response.config.input.add(name="mask", optional=True)
    for answer in ({"input": inputs}, response):
        assert optional_inputs_of(answer) == ("mask",)
    for answer in (None, [], {"input": "x"}, {"input": ["x", {"optional": True}]}):
        assert optional_inputs_of(answer) == ()


def test_tensors_are_alike_over_both_protocols() -> None:
    """HTTP's shapes are numbers, gRPC's texts of them."""
    response = ModelMetadataResponse(name="m", versions=["1"], inputs=[X])
    expected = ModelMetadata(["1"], [Tensor(name="x", datatype="FP32", shape=[-1, 4])], [])
    assert model_document(response) == expected
    assert model_document({"versions": ["1"], "inputs": [X]}) == expected
    assert model_document({"versions": ["1"], **with_input(shape=[-1.0, 4.0])}) == expected


@pytest.mark.parametrize(
    ("platform", "settings"),
    [
        ("onnxruntime_onnx", {"runtime": "onnxruntime"}),
        ("openvino_onnx", {"runtime": "openvino"}),
        ("OpenVINO", {"runtime": "openvino"}),
        ("tensorrt_plan", {"runtime": "tensorrt"}),
        (
            "onnxruntime 1.31.0+cpu",
            {"runtime": "onnxruntime", "runtime_version": "1.31.0+cpu"},
        ),
        ("python", {}),
        ("ensemble", {}),
        ("", {}),
    ],
)
def test_a_platform_names_the_engine(platform: str, settings: dict[str, str]) -> None:
    """The protocol's own names, some with a version; others name no engine."""
    assert engine_of(platform) == settings
    response = ModelMetadataResponse(name="m", platform=platform)
    assert model_document(response).platform == platform


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([1], "its metadata is a list of 1, and must be a mapping"),
        (None, "its metadata is null, and must be a mapping"),
        ({"name": 1}, "its name is 1, and must be a text"),
        ({"version": 2.5}, "its version is 2.5, and must be a text"),
        ({"extensions": "binary"}, 'its extensions is "binary", and must be a list'),
        ({"extensions": ["a", 1]}, "one of its extensions is 1, and must be a text"),
    ],
)
def test_unreadable_metadata_of_a_server_are_reported(document: Any, words: str) -> None:
    """The clause says what was read."""
    with pytest.raises(UnreadableMetadataError) as refusal:
        server_document(document)
    assert str(refusal.value) == words


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "its metadata is a list of 0, and must be a mapping"),
        ("<html>", 'its metadata is "<html>", and must be a mapping'),
        ({"versions": 1}, "its versions is 1, and must be a list"),
        ({"versions": [1]}, "one of its versions is 1, and must be a text"),
        ({"inputs": {}}, "its inputs is an empty mapping, and must be a list"),
        ({"inputs": ["x"]}, 'one of its inputs is "x", and must be a mapping'),
        ({"outputs": [None]}, "one of its outputs is null, and must be a mapping"),
        (with_input(name=None), "the name of one of its inputs is null, and must be a text"),
        (with_input(name=""), 'the name of one of its inputs is "", and must be a text'),
        (with_input(name=5), "the name of one of its inputs is 5, and must be a text"),
        (with_input(datatype=None), "its tensor 'x' has the datatype null, which cannot be sent"),
        (with_input(datatype=["FP32"]), "its tensor 'x' has the datatype a list of 1, which"),
        (with_input(datatype="FP33"), "its tensor 'x' has the datatype \"FP33\", which cannot"),
        (with_input(shape=4), "the shape of its tensor 'x' is 4, and must be a list"),
        (with_input(shape=["a"]), "an axis of its tensor 'x' is \"a\", and must be a whole"),
        (with_input(shape=[None]), "an axis of its tensor 'x' is null, and must be a whole"),
        (with_input(shape=[True]), "an axis of its tensor 'x' is true, and must be a whole"),
        (with_input(shape=[1.5]), "an axis of its tensor 'x' is 1.5, and must be a whole"),
        (with_input(shape=[float("nan")]), "an axis of its tensor 'x' is NaN, and must be a"),
    ],
)
def test_unreadable_model_metadata_is_named(document: Any, words: str) -> None:
    """The clause says what was read, and of which tensor."""
    with pytest.raises(UnreadableMetadataError) as refusal:
        model_document(document)
    assert str(refusal.value).startswith(words)


@pytest.mark.parametrize(
    "config",
    [
        None,
        [],
        "a",
        {},
        {"parameters": None},
        {"parameters": ["a"]},
        {"parameters": {"a": "b"}},
        {"parameters": {"a": {"string_value": 5}}},
        {"config": ["a"]},
    ],
)
def test_an_unreadable_configuration_gives_no_settings(config: Any) -> None:
    """Whatever its form: a server need not have one."""
    assert settings_of(config) == {}


def test_parameters_of_a_configuration_are_reported() -> None:
    """Over both protocols, Inferometer's own without their prefix, null as the empty text."""
    parameters = {"inferometer.a": {"string_value": "b"}, "c": {"string_value": "d"}}
    assert settings_of({"parameters": parameters}) == {"a": "b", "c": "d"}
    assert settings_of({"config": None, "parameters": parameters}) == {"a": "b", "c": "d"}
    response = ModelConfigResponse(config={"parameters": parameters})
    assert settings_of(response) == {"a": "b", "c": "d"}
    assert settings_of({"parameters": {"a": {"string_value": None}, "b": 1}}) == {"a": ""}


def test_the_largest_batch_of_a_configuration_is_reported() -> None:
    """Over both protocols; 0 is Triton's word for shapes that are whole, which limits nothing."""
    assert settings_of({"max_batch_size": 8}) == {"max_batch_size": "8"}
    assert settings_of(ModelConfigResponse(config={"max_batch_size": 8})) == {"max_batch_size": "8"}
    assert settings_of({"max_batch_size": 0}) == {}
    assert settings_of({"max_batch_size": "many"}) == {}
    parameters = {"max_batch_size": {"string_value": "1"}}
    assert settings_of({"max_batch_size": 8, "parameters": parameters}) == {"max_batch_size": "8"}
    assert settings_of({"max_batch_size": 0, "parameters": parameters}) == {}
