"""Statistics and model repository work with tritonclient over both protocols."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.http as over_http  # type: ignore[import-untyped]  # ships no types
from tritonclient.utils import (  # type: ignore[import-untyped]  # ships no types
    InferenceServerException,
)

from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ServeOptions
from inferometer_serving.server_state import ServerState
from inferometer_serving.start_up import StartUp
from support import onnx_models
from support.serving_process import ServerProcess, serving
from support.waiting import DEADLINE_SECONDS, reply_of, until, within_deadline

FLAVOURS = {"http": over_http, "grpc": over_grpc}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve a model that copies its input."""
    path = tmp_path_factory.mktemp("copy") / "copy.onnx"
    model = onnx_models.save(onnx_models.identity(), path)
    with serving(model, "--model-control-mode", "explicit") as process:
        yield process


@pytest.fixture(params=list(FLAVOURS))
def client(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Any]:
    """Connect by each protocol."""
    flavour = FLAVOURS[request.param]
    url = server.http_url if flavour is over_http else server.grpc_url
    with flavour.InferenceServerClient(url) as connected:
        yield connected


def _infer(client: Any, rows: int = 1, name: str = "x") -> Any:
    flavour = over_http if isinstance(client, over_http.InferenceServerClient) else over_grpc
    array = np.ones((rows, 4), np.float32)
    tensor = flavour.InferInput(name, [rows, 4], "FP32")
    tensor.set_data_from_numpy(array)
    return client.infer("copy", [tensor]).as_numpy("y")


def _as_json(client: Any) -> dict[str, bool]:
    return {} if isinstance(client, over_http.InferenceServerClient) else {"as_json": True}


def _statistics(client: Any, *model: str) -> dict[str, Any]:
    statistics = client.get_inference_statistics(*model, **_as_json(client))
    (one,) = statistics["model_stats"]
    return dict(one)


def _count(statistics: dict[str, Any], part: str) -> tuple[int, int]:
    found = statistics["inference_stats"].get(part, {})
    return int(found.get("count", 0)), int(found.get("ns", 0))


@pytest.mark.parametrize("model", [(), ("copy",), ("copy", "1")])
def test_what_was_computed_is_counted(client: Any, model: tuple[str, ...]) -> None:
    """Requests, samples, runs of the model and the time in each part are counted exactly."""
    before = _statistics(client, *model)
    for rows in (1, 3, 3):
        _infer(client, rows)
    with pytest.raises(InferenceServerException):
        _infer(client, name="other")
    after = _statistics(client, *model)
    assert (after["name"], after["version"]) == ("copy", "1")
    for figure, count in (("inference_count", 7), ("execution_count", 3)):
        assert int(after[figure]) - int(before.get(figure, 0)) == count
    for part in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        counted, taken_ns = (
            late - early
            for late, early in zip(_count(after, part), _count(before, part), strict=True)
        )
        assert counted == 3, part
        assert taken_ns > 0 or part == "queue"
    assert _count(after, "fail")[0] - _count(before, "fail")[0] == 1
    parts_ns = [_count(after, f"compute_{part}")[1] for part in ("input", "infer", "output")]
    assert sum(parts_ns) <= _count(after, "success")[1]
    runs = {int(each["batch_size"]): each["compute_infer"] for each in after["batch_stats"]}
    assert {1, 3} <= runs.keys()
    assert sum(int(each["count"]) for each in runs.values()) == int(after["execution_count"])
    assert int(after["last_inference"]) >= int(before.get("last_inference", 0))


def test_statistics_of_another_model_are_refused(client: Any) -> None:
    """A request for statistics of an unknown model is refused with a message."""
    with pytest.raises(InferenceServerException, match="only 'copy'"):
        client.get_inference_statistics("nope")


def _index(client: Any) -> list[dict[str, str]]:
    index = client.get_model_repository_index(**_as_json(client))
    return list(index if isinstance(index, list) else index["models"])


def test_the_model_is_unloaded_and_loaded(client: Any, server: ServerProcess) -> None:
    """Unloaded it is not ready and refuses, loaded again it answers as before."""
    facts = client.get_model_config("copy", **_as_json(client))
    assert _index(client)[0]["state"] == "READY"
    client.unload_model("copy")
    (entry,) = _index(client)
    assert entry["state"] == "UNAVAILABLE"
    assert "unloaded" in entry["reason"]
    assert client.is_server_live()
    assert not client.is_server_ready()
    assert not client.is_model_ready("copy")
    with pytest.raises(InferenceServerException, match="unloaded"):
        _infer(client)
    with pytest.raises(InferenceServerException, match="unloaded"):
        client.get_model_metadata("copy")
    client.unload_model("copy")
    client.load_model("copy")
    assert client.is_model_ready("copy")
    np.testing.assert_array_equal(_infer(client, 2), np.ones((2, 4)))
    again = client.get_model_config("copy", **_as_json(client))
    name = "inferometer.instance_id"
    parameters = [each.get("config", each)["parameters"] for each in (facts, again)]
    assert parameters[0][name]["string_value"] != parameters[1][name]["string_value"]


def test_a_loaded_model_is_loaded_anew(client: Any, server: ServerProcess) -> None:
    """Loading takes the file as it is now; one that cannot be served leaves the old one serving."""
    good = server.model.read_bytes()
    try:
        server.model.write_bytes(b"no model")
        with pytest.raises(InferenceServerException, match="ONNX"):
            client.load_model("copy")
        np.testing.assert_array_equal(_infer(client), np.ones((1, 4)))
        onnx_models.save(onnx_models.identity(shape=("batch", 2, 2)), server.model)
        client.load_model("copy")
        shape = client.get_model_metadata("copy", **_as_json(client))["inputs"][0]["shape"]
        assert [int(each) for each in shape] == [-1, 2, 2]
    finally:
        server.model.write_bytes(good)
        client.load_model("copy")


def test_a_model_goes_once_what_is_being_read_for_it_is_put(tmp_path: Path) -> None:
    """Requests begun on a model that are still being read as the next one serves are computed."""
    path = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")

    async def loaded_while_reading() -> bool:
        loop = asyncio.get_running_loop()
        service = ServerState(ServeOptions(path, "copy"), loop, Interrupt())
        await service.load(StartUp(0))
        before = service.router("copy")
        is_read = threading.Event()
        retired: list[bool] = []

        def put(*_: object) -> None:
            retired.append(before.pool.is_retired)

        service.reading.submit(lambda: is_read.wait(DEADLINE_SECONDS), put)
        loading = asyncio.create_task(service.load(StartUp(0)))
        await until(lambda: service.router("copy") is not before, "a new router")
        is_read.set()
        async with within_deadline("the loaded model"):
            await loading
        assert before.pool.is_retired
        assert service.stop(DEADLINE_SECONDS)
        return retired[0]

    assert not asyncio.run(loaded_while_reading())


@pytest.mark.parametrize("flavour", list(FLAVOURS))
def test_a_client_of_a_run_cannot_take_the_model_away(flavour: str, tmp_path: Path) -> None:
    """By default a server refuses to load and unload, whatever the protocol, and serves on."""
    path = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")
    with serving(path) as server:
        url = server.http_url if flavour == "http" else server.grpc_url
        with FLAVOURS[flavour].InferenceServerClient(url) as client:
            for call in (client.load_model, client.unload_model):
                with pytest.raises(InferenceServerException, match="model-control-mode") as caught:
                    call("copy")
                assert caught.value.status() in {"403", "StatusCode.PERMISSION_DENIED"}
            np.testing.assert_array_equal(_infer(client), np.ones((1, 4)))


@pytest.mark.parametrize("call", ["load_model", "unload_model"])
def test_another_model_is_refused(client: Any, call: str) -> None:
    """A model that this server does not have can be neither loaded nor unloaded."""
    with pytest.raises(InferenceServerException, match="only 'copy'"):
        getattr(client, call)("nope")
    assert client.is_model_ready("copy")


def test_other_settings_are_refused(client: Any) -> None:
    """A configuration sent along is refused, not left out in silence."""
    with pytest.raises(InferenceServerException, match="send none"):
        client.load_model("copy", config=json.dumps({"max_batch_size": 4}))


def test_the_extensions_are_reported(client: Any) -> None:
    """The server's metadata lists what is here."""
    extensions = client.get_server_metadata(**_as_json(client))["extensions"]
    assert {"statistics", "model_repository", "model_configuration"} <= set(extensions)


def test_only_ready_models_are_listed_if_requested(server: ServerProcess) -> None:
    """The index of ready models leaves out one that is unloaded."""
    with over_http.InferenceServerClient(server.http_url) as client:
        client.unload_model("copy")
        try:
            with closing(
                HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_SECONDS)
            ) as plain:
                plain.request("POST", "/v2/repository/index", '{"ready": true}')
                assert json.loads(reply_of(plain, "the index").read()) == []
        finally:
            client.load_model("copy")
