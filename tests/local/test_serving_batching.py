"""Joined requests each get their own reply, over both protocols.

Delays are far longer than a test, so that only a full batch goes: nothing depends on timing.
"""

import json
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.http as over_http  # type: ignore[import-untyped]  # ships no types
from onnx import ModelProto
from tritonclient.utils import (  # type: ignore[import-untyped]  # ships no types
    InferenceServerException,
    np_to_triton_dtype,
)

from inferometer_fetch.built_in import write_model
from inferometer_models import zoo
from support import onnx_models
from support.serving_process import (
    ServerProcess,
    serving,
    started,
)
from support.waiting import DEADLINE_SECONDS, reply_of, result_of, wait_until

FOREVER = ("--max-delay-microseconds", "60000000")
FLAVOURS = {"http": over_http, "grpc": over_grpc}


def _saved(model: ModelProto, folder: Path) -> Path:
    return onnx_models.save(model, folder / "m.onnx")


def _infer(server: ServerProcess, protocol: str, array: Any, **more: Any) -> Any:
    """Return what a client of its own gets for one tensor."""
    flavour = FLAVOURS[protocol]
    name = more.pop("name", "x")
    tensor = flavour.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array)
    url = server.http_url if protocol == "http" else server.grpc_url
    with flavour.InferenceServerClient(url) as client:
        return client.infer("m", [tensor], **more)


def _statistics(server: ServerProcess) -> dict[str, Any]:
    with over_http.InferenceServerClient(server.http_url) as client:
        (statistics,) = client.get_inference_statistics("m")["model_stats"]
    return dict(statistics)


def _pending(server: ServerProcess) -> int:
    with closing(_connected(server)) as connection:
        connection.request("GET", "/metrics")
        text = reply_of(connection, "/metrics").read().decode()
    name = "inferometer_server_pending_requests{"
    (line,) = (each for each in text.splitlines() if each.startswith(name))
    return int(float(line.split()[-1]))


def _connected(server: ServerProcess) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_SECONDS)


def test_requests_of_both_protocols_share_a_batch_and_get_their_own_answers(tmp_path: Path) -> None:
    """Eight requests of one to three samples are one run of the model, and each gets its rows."""
    path = _saved(onnx_models.identity(), tmp_path)
    sizes = (1, 2, 3, 1, 2, 3, 1, 3)
    arrays = [np.random.default_rng(at).random((n, 4), np.float32) for at, n in enumerate(sizes)]
    options = ("--max-batch-size", str(sum(sizes)), *FOREVER)
    with serving(path, *options) as server, ThreadPoolExecutor(len(sizes)) as pool:
        answers = [
            pool.submit(_infer, server, ("http", "grpc")[at % 2], array)
            for at, array in enumerate(arrays)
        ]
        for array, answer in zip(arrays, answers, strict=True):
            np.testing.assert_array_equal(result_of(answer, "the answer").as_numpy("y"), array)
        statistics = _statistics(server)
    assert statistics["inference_count"] == sum(sizes)
    assert statistics["execution_count"] == 1
    assert statistics["inference_stats"]["success"]["count"] == len(sizes)
    assert [each["batch_size"] for each in statistics["batch_stats"]] == [sum(sizes)]


def test_texts_are_joined_too(tmp_path: Path) -> None:
    """BYTES elements of different lengths keep to their requests."""
    path = _saved(onnx_models.identity("BYTES", ("batch", 2)), tmp_path)
    arrays = [np.array([[f"{at}" * at, "ü"]], dtype=np.object_) for at in range(4)]
    with serving(path, "--max-batch-size", "4", *FOREVER) as server, ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(_infer, server, "http", array) for array in arrays]
        for array, answer in zip(arrays, answers, strict=True):
            found = result_of(answer, "the answer").as_numpy("y")
            assert [each.decode() for each in found.flat] == list(array.flat)
        assert _statistics(server)["execution_count"] == 1


def test_only_what_is_alike_is_joined(tmp_path: Path) -> None:
    """Requests that differ in other axes or in parameters go in runs of their own."""
    path = _saved(onnx_models.open_axes(), tmp_path)
    options = ("--max-batch-size", "2", *FOREVER, "--warm-up-shape", "image=1,3,8,8")
    kinds: list[tuple[int, dict[str, Any]]] = [
        (8, {}),
        (16, {}),
        (8, {"parameters": {"mood": "calm"}}),
    ]
    with serving(path, *options) as server, ThreadPoolExecutor(6) as pool:
        answers = []
        for turn in range(2):
            for at, (size, more) in enumerate(kinds):
                array = np.full((1, 3, size, size), turn * 10 + at, np.float32)
                protocol = ("http", "grpc")[turn]
                answers.append(
                    (array, pool.submit(_infer, server, protocol, array, name="image", **more))
                )
        for array, answer in answers:
            found = result_of(answer, "the answer").as_numpy("mean")
            np.testing.assert_array_equal(found, array[:, :, :1, :1])
        statistics = _statistics(server)
    assert (statistics["inference_count"], statistics["execution_count"]) == (6, 3)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_too_many_samples_are_refused(tmp_path: Path, protocol: str) -> None:
    """A request of more samples than a batch may have is refused by a sentence."""
    path = _saved(onnx_models.identity(), tmp_path)
    with serving(path, "--max-batch-size", "2") as server:
        with pytest.raises(InferenceServerException, match="takes 2 at most") as caught:
            _infer(server, protocol, np.zeros((3, 4), np.float32))
        assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
        found = _infer(server, protocol, np.ones((2, 4), np.float32)).as_numpy("y")
        np.testing.assert_array_equal(found, np.ones((2, 4)))


def test_inputs_that_differ_in_samples_are_refused(tmp_path: Path) -> None:
    """Where the inputs of one request have not as many samples each, that request alone fails."""
    path = _saved(onnx_models.add(), tmp_path)
    tensors = []
    for name, rows in (("left", 2), ("right", 1)):
        tensor = over_http.InferInput(name, [rows, 4], "FP32")
        tensor.set_data_from_numpy(np.ones((rows, 4), np.float32))
        tensors.append(tensor)
    with (
        serving(path, "--max-batch-size", "8") as server,
        over_http.InferenceServerClient(server.http_url) as client,
        pytest.raises(InferenceServerException, match="send as many in each"),
    ):
        client.infer("m", tensors)


def test_a_request_at_fault_fails_alone(tmp_path: Path) -> None:
    """What the model cannot compute fails by itself: those joined with it are answered."""
    path = _saved(onnx_models.picks(), tmp_path)
    sent = ([0], [1, 3], [99], [2])
    options = ("--max-batch-size", "5", *FOREVER)
    with serving(path, *options) as server, ThreadPoolExecutor(len(sent)) as pool:
        answers = [
            pool.submit(_infer, server, "http", np.array(each, dtype=np.int64)) for each in sent
        ]
        for rows, answer in zip(sent, answers, strict=True):
            if rows == [99]:
                with pytest.raises(InferenceServerException, match="out of"):
                    result_of(answer, "the answer")
                continue
            found = result_of(answer, "the answer").as_numpy("y")
            np.testing.assert_array_equal(found, [[10 * each, 10 * each + 1] for each in rows])
        statistics = _statistics(server)["inference_stats"]
    assert (statistics["success"]["count"], statistics["fail"]["count"]) == (3, 1)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_client_that_left_takes_no_room(tmp_path: Path, protocol: str) -> None:
    """A request whose client has gone is not joined with those who wait."""
    path = _saved(onnx_models.identity(), tmp_path)
    array = np.ones((1, 4), np.float32)
    options = ("--max-batch-size", "2", *FOREVER)
    with serving(path, *options) as server, ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        if protocol == "http":
            gone = stack.enter_context(closing(_connected(server)))
            tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 1, 1, 1]}
            gone.request("POST", "/v2/models/m/infer", json.dumps({"inputs": [tensor]}))
            wait_until(lambda: _pending(server) == 1, "the request")
            gone.close()
        else:
            sent = over_grpc.InferInput("x", [1, 4], "FP32")
            sent.set_data_from_numpy(array)
            client = stack.enter_context(over_grpc.InferenceServerClient(server.grpc_url))
            call = client.async_infer("m", [sent], lambda **_: None)
            wait_until(lambda: _pending(server) == 1, "the request")
            call.cancel()
        wait_until(lambda: _pending(server) == 0, "the end of the request")
        for answer in [pool.submit(_infer, server, "http", array) for _ in range(2)]:
            np.testing.assert_array_equal(result_of(answer, "the answer").as_numpy("y"), array)
        assert _statistics(server)["inference_count"] == 2


def test_a_lonely_request_is_answered(tmp_path: Path) -> None:
    """A request that no other joins is computed after its delay."""
    path = _saved(onnx_models.identity(), tmp_path)
    options = ("--max-batch-size", "8", "--max-delay-microseconds", "20000")
    with serving(path, *options) as server:
        for protocol in FLAVOURS:
            found = _infer(server, protocol, np.ones((1, 4), np.float32))
            np.testing.assert_array_equal(found.as_numpy("y"), np.ones((1, 4)))


def test_the_configuration_reports_batching(tmp_path: Path) -> None:
    """The configuration says how requests are joined, with the shapes of one sample."""
    path = _saved(onnx_models.identity(), tmp_path)
    options = ("--max-batch-size", "8", "--max-delay-microseconds", "700", "--instances", "2")
    with serving(path, *options) as server:
        with over_http.InferenceServerClient(server.http_url) as client:
            config = client.get_model_config("m")
        with over_grpc.InferenceServerClient(server.grpc_url) as client:
            same = client.get_model_config("m").config
    assert config["max_batch_size"] == same.max_batch_size == 8
    assert config["input"][0]["dims"] == list(same.input[0].dims) == [4]
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 700
    assert same.dynamic_batching.max_queue_delay_microseconds == 700
    assert config["instance_group"][0]["count"] == 2
    assert config["parameters"]["inferometer.instances"]["string_value"] == "2"


_UNJOINABLE: dict[str, tuple[ModelProto, Sequence[str], str]] = {
    "fixed batch": (onnx_models.fixed_batch(), (), "whose first axis is not open"),
    "other rows": (onnx_models.non_zero(), (), "first axis is not open"),
    "warm-up too large": (
        onnx_models.identity(),
        ("--warm-up-batch-sizes", "1,16"),
        "requests may have 8 at most",
    ),
}


@pytest.mark.parametrize("case", _UNJOINABLE)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, case: str) -> None:
    """Batching is refused by a sentence where a tensor has no batch axis."""
    model, more, sentence = _UNJOINABLE[case]
    with started(_saved(model, tmp_path), "--max-batch-size", "8", *more) as server:
        assert server.exit_code() == 2, server.errors()
        assert sentence in str(server.last_event()["message"])


def test_instances_compute_side_by_side(tmp_path: Path) -> None:
    """With two instances a short request is answered while a long one is computed."""
    path = _saved(onnx_models.open_trips(), tmp_path)
    with (
        serving(path, "--instances", "2", "--drain-seconds", "0") as server,
        closing(_connected(server)) as slow,
        closing(_connected(server)) as quick,
    ):
        for connection, trips in ((slow, 10**12), (quick, 3)):
            tensor = {"name": "trips", "datatype": "INT64", "shape": [1], "data": [trips]}
            connection.request("POST", "/v2/models/m/infer", json.dumps({"inputs": [tensor]}))
        answer = json.loads(reply_of(quick, "the short inference").read())
        assert answer["outputs"][0]["data"] == [3]
        assert _pending(server) == 1


def test_what_waits_for_company_is_answered_as_the_server_ends(tmp_path: Path) -> None:
    """On SIGTERM a request that waits for others goes at once."""
    path = _saved(onnx_models.identity(), tmp_path)
    array = np.ones((1, 4), np.float32)
    with serving(path, "--max-batch-size", "8", *FOREVER) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(_infer, server, "http", array)
        wait_until(lambda: _pending(server) == 1, "the request")
        server.signal(signal.SIGTERM)
        np.testing.assert_array_equal(result_of(answer, "the answer").as_numpy("y"), array)
        assert server.exit_code() == 0


def test_joined_answers_are_those_of_single_requests(tmp_path: Path) -> None:
    """A zoo model answers joined requests as it answers each alone, within rounding."""
    path = write_model(zoo.entry("classification/squeezenet1_1"), tmp_path / "m.onnx")
    random = np.random.default_rng(1)
    arrays = [random.random((1, 3, 224, 224), np.float32) for _ in range(4)]
    with serving(path) as server:
        alone = [_infer(server, "http", array, name="input") for array in arrays]
    with serving(path, "--max-batch-size", "4", *FOREVER) as server, ThreadPoolExecutor(4) as pool:
        answers = [
            pool.submit(_infer, server, ("http", "grpc")[at % 2], array, name="input")
            for at, array in enumerate(arrays)
        ]
        joined = [result_of(answer, "the answer") for answer in answers]
        assert _statistics(server)["execution_count"] == 1
    for single, one in zip(alone, joined, strict=True):
        np.testing.assert_allclose(
            one.as_numpy("output"), single.as_numpy("output"), rtol=1e-4, atol=1e-5
        )
