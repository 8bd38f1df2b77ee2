"""Every call of tritonclient for these endpoints works, in its four flavours."""

import asyncio
import queue
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.grpc.aio as over_grpc_aio  # type: ignore[import-untyped]  # ships no types
import tritonclient.http as over_http  # type: ignore[import-untyped]  # ships no types
import tritonclient.http.aio as over_http_aio  # type: ignore[import-untyped]  # ships no types
from tritonclient.utils import (  # type: ignore[import-untyped]  # ships no types
    InferenceServerException,
    np_to_triton_dtype,
)

from inferometer_models.graph_file import sha256_of
from support import onnx_models
from support.serving_process import ServerProcess, serving
from support.waiting import DEADLINE_SECONDS, next_of, within_deadline

Array = np.ndarray[Any, Any]

TENSORS: dict[str, Array] = {
    "BOOL": np.array([[True, False, True]]),
    "UINT8": np.array([[0, 1, 255]], dtype=np.uint8),
    "UINT16": np.array([[0, 1, 65535]], dtype=np.uint16),
    "UINT32": np.array([[0, 1, 2**32 - 1]], dtype=np.uint32),
    "UINT64": np.array([[0, 1, 2**64 - 1]], dtype=np.uint64),
    "INT8": np.array([[-128, 0, 127]], dtype=np.int8),
    "INT16": np.array([[-(2**15), 0, 2**15 - 1]], dtype=np.int16),
    "INT32": np.array([[-(2**31), 0, 2**31 - 1]], dtype=np.int32),
    "INT64": np.array([[-(2**63), 0, 2**63 - 1]], dtype=np.int64),
    "FP16": np.array([[-1.5, 0.25, 65504]], dtype=np.float16),
    "BF16": np.array([[-1.5, 0.25, 3e38]], dtype=ml_dtypes.bfloat16),
    "FP32": np.array([[-1.5, 0.1, 3e38]], dtype=np.float32),
    "FP64": np.array([[-1.5, 0.1, 1e308]], dtype=np.float64),
    "BYTES": np.array([["", "a\0b", "größer"]], dtype=np.object_),
}


@dataclass(frozen=True)
class Copying:
    """A server of a model that copies a tensor of each of some datatypes."""

    process: ServerProcess
    datatypes: tuple[str, ...]


@pytest.fixture(scope="module", params=["numbers", "texts"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Copying]:
    """Serve every datatype; BYTES by a model of its own, as it and BF16 exclude each other."""
    is_texts = request.param == "texts"
    datatypes = tuple(each for each in TENSORS if (each == "BYTES") == is_texts)
    path = tmp_path_factory.mktemp("copies") / "copies.onnx"
    with serving(onnx_models.save(onnx_models.copies(datatypes), path)) as process:
        yield Copying(process, datatypes)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve a model with two inputs and three outputs."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.onnx"
    with serving(onnx_models.save(onnx_models.several_outputs(), path)) as process:
        yield process


def _inputs(flavour: Any, datatypes: Sequence[str], *, binary: bool = True) -> list[Any]:
    tensors = []
    for datatype in datatypes:
        array = TENSORS[datatype]
        tensor = flavour.InferInput(f"in_{datatype}", list(array.shape), datatype)
        if flavour in (over_grpc, over_grpc_aio):
            tensor.set_data_from_numpy(array)
        else:
            # the protocol's client sends BF16 in binary form only
            tensor.set_data_from_numpy(array, binary_data=binary or datatype == "BF16")
        tensors.append(tensor)
    return tensors


def _check(result: Any, names: Sequence[str]) -> None:
    for datatype in names:
        found = result.as_numpy(f"out_{datatype}")
        sent = TENSORS[datatype]
        if datatype == "BYTES":
            texts = [each.decode() if isinstance(each, bytes) else each for each in found.flat]
            assert texts == list(sent.flat)
            assert found.shape == sent.shape
        else:
            assert found.dtype == sent.dtype
            np.testing.assert_array_equal(found, sent)


def _in_loop(call: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with within_deadline("the answers to the client"):
            await call()

    asyncio.run(bounded())


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_http_carries_every_datatype(server: Copying, *, binary_in: bool, binary_out: bool) -> None:
    """Every datatype comes back as it was sent over HTTP, in both forms and both directions."""
    outputs = [
        over_http.InferRequestedOutput(f"out_{each}", binary_data=binary_out)
        for each in server.datatypes
    ]
    with over_http.InferenceServerClient(server.process.http_url) as client:
        result = client.infer(
            "copies", _inputs(over_http, server.datatypes, binary=binary_in), outputs=outputs
        )
    _check(result, server.datatypes)


@pytest.mark.parametrize("binary", [True, False])
def test_http_aio_carries_every_datatype(server: Copying, *, binary: bool) -> None:
    """Every datatype comes back as it was sent by the asyncio client over HTTP."""

    async def call() -> None:
        async with over_http_aio.InferenceServerClient(server.process.http_url) as client:
            result = await client.infer(
                "copies", _inputs(over_http_aio, server.datatypes, binary=binary)
            )
        _check(result, server.datatypes)

    _in_loop(call)


def test_grpc_carries_every_datatype(server: Copying) -> None:
    """Every datatype comes back as it was sent over gRPC."""
    with over_grpc.InferenceServerClient(server.process.grpc_url) as client:
        _check(client.infer("copies", _inputs(over_grpc, server.datatypes)), server.datatypes)


def test_grpc_aio_carries_every_datatype(server: Copying) -> None:
    """Every datatype comes back as it was sent by the asyncio client over gRPC."""

    async def call() -> None:
        async with over_grpc_aio.InferenceServerClient(server.process.grpc_url) as client:
            result = await client.infer("copies", _inputs(over_grpc_aio, server.datatypes))
        _check(result, server.datatypes)

    _in_loop(call)


def test_grpc_takes_typed_contents(tmp_path: Path) -> None:
    """Each datatype that has typed contents in the protocol can be sent in them."""
    fields = {
        "BOOL": "bool_contents",
        **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
        **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
        "UINT64": "uint64_contents",
        "INT64": "int64_contents",
        "FP32": "fp32_contents",
        "FP64": "fp64_contents",
        "BYTES": "bytes_contents",
    }
    path = onnx_models.save(onnx_models.copies(tuple(fields)), tmp_path / "typed.onnx")
    request = over_grpc.service_pb2.ModelInferRequest(model_name="typed")
    for datatype, field in fields.items():
        array = TENSORS[datatype]
        tensor = request.inputs.add(name=f"in_{datatype}", datatype=datatype, shape=array.shape)
        values = array.reshape(-1).tolist()
        if datatype == "BYTES":
            values = [each.encode() for each in values]
        getattr(tensor.contents, field).extend(values)
    with (
        serving(path) as process,
        over_grpc.InferenceServerClient(process.grpc_url) as client,
    ):
        _check(over_grpc.InferResult(client._client_stub.ModelInfer(request)), tuple(fields))
        request.inputs[0].contents.uint_contents.append(1)
        with pytest.raises(Exception, match="was sent in uint_contents"):
            client._client_stub.ModelInfer(request)


def _control_plane(client: Any, name: str) -> dict[str, Any]:
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model ready": client.is_model_ready(name),
        "version ready": client.is_model_ready(name, "1"),
        "other ready": client.is_model_ready("other"),
        "other version ready": client.is_model_ready(name, "7"),
        "server": client.get_server_metadata(),
        "model": client.get_model_metadata(name, "1"),
        "config": client.get_model_config(name),
    }


def _check_control_plane(replies: dict[str, Any], model: Path) -> None:
    assert replies["live"]
    assert replies["ready"]
    assert replies["model ready"]
    assert replies["version ready"]
    assert not replies["other ready"]
    assert not replies["other version ready"]
    assert replies["server"]["name"] == "inferometer"
    assert "binary_tensor_data" in replies["server"]["extensions"]
    assert replies["model"]["versions"] == ["1"]
    assert [each["name"] for each in replies["model"]["inputs"]] == ["left", "right"]
    assert [int(each) for each in replies["model"]["outputs"][2]["shape"]] == [-1, 4]
    assert replies["model"]["outputs"][2]["datatype"] == "INT64"
    # An empty text is left out of a message's JSON.
    parameters = replies["config"]["parameters"].items()
    facts = {key: each.get("string_value", "") for key, each in parameters}
    assert facts["inferometer.model_sha256"] == sha256_of(model)
    assert facts["inferometer.nodes_by_provider"] == '{"CPUExecutionProvider": 3}'
    assert facts["inferometer.compute_nodes_fell_back"] == "0"
    assert facts["inferometer.threads"] == "1"


def test_http_control_plane(pairs: ServerProcess) -> None:
    """HTTP serves health, metadata and configuration with the facts about the server."""
    with over_http.InferenceServerClient(pairs.http_url) as client:
        replies = _control_plane(client, "pairs")
    _check_control_plane(replies, pairs.model)


def test_grpc_control_plane(pairs: ServerProcess) -> None:
    """Over gRPC, health, metadata and configuration are the same as over HTTP."""
    with over_grpc.InferenceServerClient(pairs.grpc_url) as client:
        replies = _control_plane(client, "pairs")
        replies["server"] = client.get_server_metadata(as_json=True)
        replies["model"] = client.get_model_metadata("pairs", as_json=True)
        replies["config"] = client.get_model_config("pairs", as_json=True)["config"]
    _check_control_plane(replies, pairs.model)


def test_asyncio_control_planes(pairs: ServerProcess) -> None:
    """The asyncio clients get the same answers."""

    async def call() -> None:
        async with over_http_aio.InferenceServerClient(pairs.http_url) as client:
            replies = {key: await each for key, each in _control_plane(client, "pairs").items()}
        _check_control_plane(replies, pairs.model)
        async with over_grpc_aio.InferenceServerClient(pairs.grpc_url) as client:
            replies = {key: await each for key, each in _control_plane(client, "pairs").items()}
            replies["server"] = await client.get_server_metadata(as_json=True)
            replies["model"] = await client.get_model_metadata("pairs", as_json=True)
            replies["config"] = (await client.get_model_config("pairs", as_json=True))["config"]
        _check_control_plane(replies, pairs.model)

    _in_loop(call)


def _tensor(flavour: Any, name: str, array: Array) -> Any:
    tensor = flavour.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
    return tensor.set_data_from_numpy(array)


def _pair(flavour: Any, left: float = 3, right: float = 1, rows: int = 2) -> list[Any]:
    values = {"left": left, "right": right}
    return [
        _tensor(flavour, name, np.full((rows, 4), value, dtype=np.float32))
        for name, value in values.items()
    ]


def _check_pair(result: Any) -> None:
    np.testing.assert_array_equal(result.as_numpy("sum"), np.full((2, 4), 4, np.float32))
    np.testing.assert_array_equal(result.as_numpy("difference"), np.full((2, 4), 2, np.float32))
    np.testing.assert_array_equal(result.as_numpy("whole"), np.full((2, 4), 4, np.int64))


@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_http_with_all_arguments(pairs: ServerProcess, algorithm: str | None) -> None:
    """An id, headers, query parameters, priorities, time-outs and compression all go through."""
    with over_http.InferenceServerClient(pairs.http_url) as client:
        result = client.infer(
            "pairs",
            _pair(over_http),
            model_version="1",
            request_id="größe 7",
            priority=1,
            timeout=1_000_000,
            headers={"x-trace": "a"},
            query_params={"a": [1, 2]},
            request_compression_algorithm=algorithm,
            response_compression_algorithm=algorithm,
            parameters={"mood": "calm"},
        )
    _check_pair(result)
    assert result.get_response()["id"] == "größe 7"
    assert result.get_response()["model_version"] == "1"


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_http_compresses_large_replies(pairs: ServerProcess, algorithm: str) -> None:
    """A large reply is compressed if the client requests it, and decodes to the same result."""
    with over_http.InferenceServerClient(pairs.http_url) as client:
        result = client.infer(
            "pairs", _pair(over_http, rows=500), response_compression_algorithm=algorithm
        )
        body, json_bytes = client.generate_request_body(_pair(over_http, rows=500))
        headers = {
            "Accept-Encoding": algorithm,
            "Inference-Header-Content-Length": json_bytes,
        }
        raw = client._post("v2/models/pairs/infer", body, headers, None)
    np.testing.assert_array_equal(result.as_numpy("sum"), np.full((500, 4), 4, np.float32))
    assert raw.get("content-encoding") == algorithm
    assert len(raw.read()) < 2000


def test_http_async_infer(pairs: ServerProcess) -> None:
    """Calls that overlap on one client each get their own answer."""
    with over_http.InferenceServerClient(pairs.http_url, concurrency=4) as client:
        calls = [
            client.async_infer("pairs", _pair(over_http, left=number), request_id=str(number))
            for number in range(20)
        ]
        for number, call in enumerate(calls):
            result = call.get_result(timeout=DEADLINE_SECONDS)
            assert result.get_response()["id"] == str(number)
            assert result.as_numpy("sum")[0, 0] == number + 1


@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_grpc_with_all_arguments(pairs: ServerProcess, algorithm: str | None) -> None:
    """An id, headers, time-outs, compression and parameters all go through over gRPC."""
    with over_grpc.InferenceServerClient(pairs.grpc_url) as client:
        result = client.infer(
            "pairs",
            _pair(over_grpc),
            model_version="1",
            request_id="7",
            priority=1,
            timeout=1_000_000,
            client_timeout=DEADLINE_SECONDS,
            headers={"x-trace": "a"},
            compression_algorithm=algorithm,
            parameters={"mood": "calm", "count": 3, "calm": True},
        )
    _check_pair(result)
    assert result.get_response().id == "7"


def test_grpc_async_infer_and_stream(pairs: ServerProcess) -> None:
    """Asynchronous calls and a stream of requests each get their own answer, errors included."""
    results: queue.Queue[tuple[Any, Any]] = queue.Queue()

    def hear(result: Any, error: Any) -> None:
        results.put((result, error))

    with over_grpc.InferenceServerClient(pairs.grpc_url) as client:
        client.async_infer("pairs", _pair(over_grpc), hear, request_id="single")
        result, error = next_of(results, "the answer of the asynchronous call")
        assert error is None
        _check_pair(result)
        client.start_stream(hear)
        client.async_stream_infer("pairs", _pair(over_grpc), request_id="a")
        client.async_stream_infer("other", _pair(over_grpc), request_id="b")
        client.async_stream_infer("pairs", _pair(over_grpc, left=9), request_id="c")
        answers = [next_of(results, f"answer {each} of the stream") for each in "abc"]
        client.stop_stream()
    assert answers[0][0].get_response().id == "a"
    assert "only 'pairs'" in str(answers[1][1])
    assert answers[2][0].get_response().id == "c"
    assert answers[2][0].as_numpy("sum")[0, 0] == 10


def test_grpc_aio_stream(pairs: ServerProcess) -> None:
    """The asyncio client's stream of requests is answered in order."""

    async def requests() -> Any:
        for number in range(5):
            yield {
                "model_name": "pairs",
                "inputs": _pair(over_grpc_aio, left=number),
                "request_id": str(number),
            }

    async def call() -> None:
        ids = []
        async with over_grpc_aio.InferenceServerClient(pairs.grpc_url) as client:
            async for result, error in client.stream_infer(requests()):
                assert error is None
                ids.append(result.get_response().id)
        assert ids == ["0", "1", "2", "3", "4"]

    _in_loop(call)


def test_requested_outputs(pairs: ServerProcess) -> None:
    """Only the requested outputs are returned, in the requested order and form."""
    with over_http.InferenceServerClient(pairs.http_url) as client:
        outputs = [
            over_http.InferRequestedOutput("whole", binary_data=False),
            over_http.InferRequestedOutput("sum", binary_data=True),
        ]
        reply = client.infer("pairs", _pair(over_http), outputs=outputs)
    assert [each["name"] for each in reply.get_response()["outputs"]] == ["whole", "sum"]
    assert reply.get_output("whole")["data"] == [4] * 8
    assert reply.as_numpy("sum")[0, 0] == 4
    with over_grpc.InferenceServerClient(pairs.grpc_url) as client:
        requested = [over_grpc.InferRequestedOutput("difference")]
        message = client.infer("pairs", _pair(over_grpc), outputs=requested).get_response()
    assert [each.name for each in message.outputs] == ["difference"]


@pytest.mark.parametrize(("source", "target"), [("BF16", "FP32"), ("FP32", "BF16")])
def test_bf16_goes_with_other_datatypes(tmp_path: Path, source: str, target: str) -> None:
    """A model may take BF16 and give something else, and the other way round."""
    path = onnx_models.save(onnx_models.cast(source, target), tmp_path / "cast.onnx")
    sent = np.array([[-1.5, 0.25, 3]])
    with (
        serving(path) as process,
        over_grpc.InferenceServerClient(process.grpc_url) as client,
    ):
        tensor = _tensor(over_grpc, "x", sent.astype(TENSORS[source].dtype))
        found = client.infer("cast", [tensor]).as_numpy("y")
    assert found.dtype == TENSORS[target].dtype
    np.testing.assert_array_equal(found.astype(np.float64), sent)


def test_outputs_may_differ_in_shape_from_call_to_call(tmp_path: Path) -> None:
    """Requests that are alike but for their values get answers of the shape that these have."""
    path = onnx_models.save(onnx_models.non_zero(), tmp_path / "places.onnx")
    values = ([0, 1, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1])
    with serving(path) as process:
        for flavour, url in ((over_http, process.http_url), (over_grpc, process.grpc_url)):
            with flavour.InferenceServerClient(url) as client:
                for each in values:
                    array = np.array(each, dtype=np.float32)
                    found = client.infer("places", [_tensor(flavour, "x", array)])
                    np.testing.assert_array_equal(found.as_numpy("places"), [np.flatnonzero(array)])


_NOT_HERE: dict[str, tuple[Any, ...]] = {
    "get_trace_settings": (),
    "get_log_settings": (),
    "get_system_shared_memory_status": (),
    "get_cuda_shared_memory_status": (),
    "unregister_system_shared_memory": (),
}


@pytest.mark.parametrize("call", _NOT_HERE)
def test_extensions_that_are_not_here(pairs: ServerProcess, call: str) -> None:
    """A call of an extension that this server lacks is answered by an error that says so."""
    for client in (
        over_http.InferenceServerClient(pairs.http_url),
        over_grpc.InferenceServerClient(pairs.grpc_url),
    ):
        with client, pytest.raises(InferenceServerException, match="not available in this version"):
            getattr(client, call)(*_NOT_HERE[call])


_BAD_CALLS: dict[str, tuple[Callable[[Any], dict[str, Any]], str]] = {
    "unknown model": (lambda of: {"model_name": "nope", "inputs": _pair(of)}, "only 'pairs'"),
    "unknown version": (
        lambda of: {"model_name": "pairs", "model_version": "9", "inputs": _pair(of)},
        "only version 1",
    ),
    "missing input": (lambda of: {"model_name": "pairs", "inputs": _pair(of)[:1]}, "is missing"),
    "input twice": (
        lambda of: {"model_name": "pairs", "inputs": [*_pair(of), _pair(of)[0]]},
        "more than once",
    ),
    "unknown output": (
        lambda of: {
            "model_name": "pairs",
            "inputs": _pair(of),
            "outputs": [of.InferRequestedOutput("nope")],
        },
        "the model has 'sum', 'difference', 'whole'",
    ),
    "classification": (
        lambda of: {
            "model_name": "pairs",
            "inputs": _pair(of),
            "outputs": [of.InferRequestedOutput("sum", class_count=2)],
        },
        "classification",
    ),
    "wrong rank": (
        lambda of: {
            "model_name": "pairs",
            "inputs": [_tensor(of, "left", np.zeros(4, np.float32)), _pair(of)[1]],
        },
        "takes \\[-1, 4\\]",
    ),
    "wrong datatype": (
        lambda of: {
            "model_name": "pairs",
            "inputs": [_tensor(of, "left", np.zeros((2, 4), np.int32)), _pair(of)[1]],
        },
        "takes FP32",
    ),
}


@pytest.mark.parametrize("case", _BAD_CALLS)
def test_bad_calls_are_answered_by_a_sentence(pairs: ServerProcess, case: str) -> None:
    """A request that does not fit the model is refused alike over both protocols."""
    make, sentence = _BAD_CALLS[case]
    for flavour, url in ((over_http, pairs.http_url), (over_grpc, pairs.grpc_url)):
        with flavour.InferenceServerClient(url) as client:
            with pytest.raises(InferenceServerException, match=sentence) as caught:
                client.infer(**make(flavour))
            assert caught.value.status() in ("400", "404") or "StatusCode." in caught.value.status()
            _check_pair(client.infer("pairs", _pair(flavour)))
