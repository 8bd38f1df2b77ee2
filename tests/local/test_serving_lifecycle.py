"""The life of a server: readiness, refusals and the end."""

import json
import platform
import queue
import signal
import socket
import threading
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.http as over_http  # type: ignore[import-untyped]  # ships no types

from support import onnx_models
from support.requirements import cannot_run
from support.serving_process import Gate, ServerProcess, serving, started
from support.waiting import DEADLINE_SECONDS, next_of, reply_of, wait_for_event, wait_until

ENDLESS = 10**12
"""Trips of the counting model that outlast every test."""


def _status(server: ServerProcess, path: str) -> tuple[int, dict[str, object]]:
    connection = _connected(server)
    try:
        return _get_json(connection, path)
    finally:
        connection.close()


def _connected(server: ServerProcess) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_SECONDS)
    connection.connect()
    return connection


def _get_json(connection: HTTPConnection, path: str) -> tuple[int, dict[str, object]]:
    connection.request("GET", path)
    reply = reply_of(connection, path)
    return reply.status, json.loads(reply.read())


def _count(connection: HTTPConnection, trips: int) -> None:
    """Send a request that keeps the counting model busy for so many trips."""
    tensor = {"name": "trips", "datatype": "INT64", "shape": [1], "data": [trips]}
    connection.request("POST", "/v2/models/count/infer", json.dumps({"inputs": [tensor]}))


def _pending(server: ServerProcess) -> float:
    connection = HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_SECONDS)
    connection.request("GET", "/metrics")
    text = reply_of(connection, "/metrics").read().decode()
    connection.close()
    (line,) = (
        each
        for each in text.splitlines()
        if each.startswith("inferometer_server_pending_requests{")
    )
    return float(line.split()[-1])


def _await_pending(server: ServerProcess, count: int) -> None:
    wait_until(lambda: _pending(server) >= count, f"{count} pending requests")


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """Return a model whose run time the request sets."""
    return onnx_models.save(onnx_models.open_trips(), tmp_path / "count.onnx")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """Return what holds up a server's inferences, for tests of what happens meanwhile."""
    return Gate(tmp_path)


def test_live_before_ready(tmp_path: Path, gate: Gate) -> None:
    """A server answers that it is live, and not ready, while it warms up; then it is ready."""
    model = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")
    with started(model, "--warm-up-batch-sizes", "1,2", gate=gate) as server:
        server.event("listening")
        assert _status(server, "/v2/health/live") == (200, {"live": True})
        status, document = _status(server, "/v2/health/ready")
        assert (status, document["ready"]) == (503, False)
        assert document["error"] == "The server is loading its model."
        assert _status(server, "/v2/models/copy/ready")[0] == 503
        assert _status(server, "/v2/models/copy")[0] == 503
        with over_grpc.InferenceServerClient(server.grpc_url) as client:
            assert client.is_server_live()
            assert not client.is_server_ready()
            assert not client.is_model_ready("copy")
        gate.open()
        ready = server.event("ready")
        assert ready["loadSeconds"] > 0
        assert ready["warmUpSeconds"] > 0
        assert _status(server, "/v2/health/ready") == (200, {"ready": True})
        facts = _status(server, "/v2/models/copy/config")[1]["parameters"]
        assert isinstance(facts, dict)
        assert facts["inferometer.warm_up_batch_sizes"] == {"string_value": "1,2"}
        assert facts["inferometer.kernel"] == {"string_value": platform.release()}


def test_health_answers_while_the_model_computes(counting: Path) -> None:
    """A slow inference does not hold up health checks."""
    with serving(counting) as server:
        connection = _connected(server)
        _count(connection, ENDLESS)
        _await_pending(server, 1)
        assert _status(server, "/v2/health/live")[0] == 200
        assert _status(server, "/v2/health/ready")[0] == 200
        assert _pending(server) == 1
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drains_on_a_signal(counting: Path, gate: Gate, number: signal.Signals) -> None:
    """On SIGTERM or SIGINT what is in flight is answered, nothing new is taken, and the exit is 0.

    In flight: one inference running and one waiting over HTTP, and one waiting over gRPC.
    """
    results: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with (
        serving(counting, gate=gate) as server,
        over_grpc.InferenceServerClient(server.grpc_url) as client,
        ExitStack() as stack,
    ):
        gate.shut()
        first, second, asks_ready, asks_infer = (
            stack.enter_context(closing(_connected(server))) for _ in range(4)
        )
        _count(first, 1)
        _await_pending(server, 1)
        _count(second, 2)
        tensor = over_grpc.InferInput("trips", [1], "INT64")
        tensor.set_data_from_numpy(np.array([3]))
        client.async_infer("count", [tensor], lambda result, error: results.put((result, error)))
        _await_pending(server, 3)
        server.signal(number)
        wait_until(lambda: "event=draining" in server.errors(), "the drain")
        status, document = _get_json(asks_ready, "/v2/health/ready")
        assert (status, document["ready"]) == (503, False)
        _count(asks_infer, 1)
        assert reply_of(asks_infer, "the refusal").status == 503
        with pytest.raises(ConnectionRefusedError):
            _connected(server)
        gate.open()
        for connection, count in ((first, 1), (second, 2)):
            reply = reply_of(connection, "what was in flight")
            assert reply.getheader("Connection") == "close"
            assert json.loads(reply.read())["outputs"][0]["data"] == [count]
        result, error = next_of(results, "the answer")
        assert error is None
        assert result.as_numpy("count") == [3]
        assert server.exit_code() == 0


def test_gives_up_what_does_not_end_in_time(counting: Path) -> None:
    """An inference that outlasts --drain-seconds is broken off, and the exit is still 0."""
    with serving(counting, "--drain-seconds", "0.2") as server:
        connection = _connected(server)
        _count(connection, ENDLESS)
        _await_pending(server, 1)
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        connection.close()
        assert "requests in flight were given up" in server.errors()


@pytest.mark.parametrize("waits", [False, True])
def test_a_stopped_inference_is_reported_as_unavailable(counting: Path, *, waits: bool) -> None:
    """A client whose inference is stopped gets the error that the server is unavailable."""
    results: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with (
        serving(counting, "--drain-seconds", "0.2") as server,
        over_grpc.InferenceServerClient(server.grpc_url) as client,
        closing(_connected(server)) as over_http,
    ):
        if waits:
            _count(over_http, ENDLESS)
            _await_pending(server, 1)
        tensor = over_grpc.InferInput("trips", [1], "INT64")
        tensor.set_data_from_numpy(np.array([ENDLESS]))
        client.async_infer("count", [tensor], lambda result, error: results.put((result, error)))
        _await_pending(server, 1 + waits)
        server.signal(signal.SIGTERM)
        _, error = next_of(results, "the answer")
        assert error.status() == "StatusCode.UNAVAILABLE"
        assert "ended before" in str(error)
        if waits:
            reply = reply_of(over_http, "the stopped inference")
            assert (reply.status, reply.getheader("Connection")) == (503, "close")
        assert server.exit_code() == 0


def test_a_second_signal_ends_the_drain(counting: Path) -> None:
    """A second signal breaks off what is in flight, and the exit is still 0."""
    with serving(counting, "--drain-seconds", "3000") as server:
        connection = _connected(server)
        _count(connection, ENDLESS)
        _await_pending(server, 1)
        server.signal(signal.SIGINT)
        wait_until(lambda: "event=draining" in server.errors(), "the drain")
        server.signal(signal.SIGINT)
        assert server.exit_code() == 0
        connection.close()


def test_a_request_whose_client_left_is_not_computed(counting: Path, gate: Gate) -> None:
    """What waits for a client that has gone is dropped, and the next client is answered."""
    with serving(counting, gate=gate) as server, ExitStack() as stack:
        gate.shut()
        first = stack.enter_context(closing(_connected(server)))
        _count(first, 1)
        _await_pending(server, 1)
        gone = _connected(server)
        _count(gone, ENDLESS)
        _await_pending(server, 2)
        gone.close()
        last = stack.enter_context(closing(_connected(server)))
        _count(last, 1)
        # The server takes what comes after the end of the other connection after that end.
        assert _status(server, "/v2/health/live")[0] == 200
        gate.open()
        for connection in (first, last):
            assert reply_of(connection, "the answer").status == 200


def test_ends_at_once_while_loading(tmp_path: Path) -> None:
    """A signal during load or warm-up ends the server with 0."""
    model = onnx_models.save(onnx_models.busy(trips=10**9), tmp_path / "busy.onnx")
    with started(model) as server:
        server.event("listening")
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0


def test_an_open_stream_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """An idle gRPC stream is closed when the server drains."""
    model = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")
    with serving(model, "--drain-seconds", "300") as server:
        reloaded = threading.Event()
        errors: list[object] = []

        def hear(result: object, error: object) -> None:
            errors.append(error)
            reloaded.set()

        with over_grpc.InferenceServerClient(server.grpc_url) as client:
            tensor = over_grpc.InferInput("x", [1, 4], "FP32")
            tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
            client.start_stream(hear)
            client.async_stream_infer("copy", [tensor])
            wait_for_event(reloaded, "the answer on the stream")
            assert errors == [None]
            reloaded.clear()
            server.signal(signal.SIGTERM)
            assert server.exit_code() == 0
            wait_for_event(reloaded, "the end of the stream")
            assert "draining" in str(errors[1])


def _refused(model: Path, *options: str) -> str:
    """Return the sentence with which a server refuses to run."""
    with started(model, *options) as server:
        code = server.exit_code()
        event = server.last_event()
        errors = server.errors()
    assert code == 2, errors
    assert event["event"] == "refused"
    assert errors.splitlines()[-1] == f"refused: {event['message']}"
    assert "Traceback" not in errors
    return str(event["message"])


def test_refuses_a_missing_model(tmp_path: Path) -> None:
    """A model that is not there is refused by a sentence and exit code 2."""
    assert "is not there" in _refused(tmp_path / "missing.onnx")


def test_refuses_an_unsupported_operator(tmp_path: Path) -> None:
    """A model with an operator that the runtime lacks is refused, and the operator named."""
    model = onnx_models.save(onnx_models.unsupported_operator(), tmp_path / "odd.onnx")
    assert "uses the operator com.example:Frobnicate" in _refused(model)


def test_refuses_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    """The device GPU is refused where CUDA is not there, instead of falling back in silence."""
    model = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")
    assert "The device GPU was requested" in _refused(model, "--device", "GPU")


def test_refuses_open_axes_without_a_shape(tmp_path: Path) -> None:
    """A model with open axes next to the batch is refused until their shape is given."""
    image = onnx_models.save(onnx_models.open_axes(), tmp_path / "image.onnx")
    assert "--warm-up-shape image=1,3,8,8" in _refused(image)


@pytest.mark.parametrize("flag", ["--http-port", "--grpc-port"])
def test_refuses_a_port_in_use(tmp_path: Path, flag: str) -> None:
    """A port that something else listens on is refused, and named."""
    model = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = _refused(model, flag, str(port))
    assert f"port {port} of 127.0.0.1" in sentence
    assert "ddress already in use" in sentence


def test_both_address_families_are_served_if_requested(tmp_path: Path) -> None:
    """A server on :: answers over IPv6 and IPv4, by both protocols."""
    if not socket.has_dualstack_ipv6():
        cannot_run("this machine has no IPv6")
    model = onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")
    with serving(model, "--host", "::") as server:
        for host in ("127.0.0.1", "::1"):
            with closing(HTTPConnection(host, server.http_port, timeout=DEADLINE_SECONDS)) as plain:
                assert _get_json(plain, "/v2/health/ready")[0] == 200
            name = f"[{host}]" if ":" in host else host
            with over_grpc.InferenceServerClient(f"{name}:{server.grpc_port}") as client:
                assert client.is_server_ready()


def test_serves_a_fixed_batch(tmp_path: Path) -> None:
    """A model whose batch is fixed is served at that batch, and refuses another."""
    model = onnx_models.save(onnx_models.fixed_batch(2), tmp_path / "fixed.onnx")
    with (
        serving(model) as server,
        over_http.InferenceServerClient(server.http_url) as client,
    ):
        sent = np.arange(6, dtype=np.float32).reshape(2, 3)
        tensor = over_http.InferInput("x", [2, 3], "FP32").set_data_from_numpy(sent)
        np.testing.assert_array_equal(client.infer("fixed", [tensor]).as_numpy("y"), -sent)
        odd = over_http.InferInput("x", [1, 3], "FP32").set_data_from_numpy(sent[:1])
        with pytest.raises(Exception, match=r"takes \[2, 3\]"):
            client.infer("fixed", [odd])


def test_serves_open_axes_and_batches(tmp_path: Path) -> None:
    """A model with open axes is warmed with the shape given, and takes any shape that fits."""
    model = onnx_models.save(onnx_models.open_axes(), tmp_path / "image.onnx")
    options = ("--warm-up-shape", "image=1,3,8,8", "--warm-up-batch-sizes", "1,4")
    with (
        serving(model, *options) as server,
        over_http.InferenceServerClient(server.http_url) as client,
    ):
        for shape in ((1, 3, 2, 2), (7, 3, 40, 30)):
            sent = np.ones(shape, np.float32)
            tensor = over_http.InferInput("image", shape, "FP32").set_data_from_numpy(sent)
            found = client.infer("image", [tensor]).as_numpy("mean")
            np.testing.assert_allclose(found, np.ones((shape[0], 3, 1, 1)))


def test_warms_up_with_the_samples_of_a_file(tmp_path: Path) -> None:
    """A server with an inputs file warms up with its shapes, for each batch size."""
    model = onnx_models.save(onnx_models.open_axes(), tmp_path / "image.onnx")
    np.savez(tmp_path / "inputs.npz", image=np.zeros((5, 3, 16, 9), np.float32))
    options = ("--warm-up-inputs", str(tmp_path / "inputs.npz"), "--warm-up-batch-sizes", "1,4")
    with (
        serving(model, *options) as server,
        over_http.InferenceServerClient(server.http_url) as client,
    ):
        facts = client.get_model_config("image")["parameters"]
    assert facts["inferometer.warm_up_batch_sizes"]["string_value"] == "1,4"


def test_refuses_samples_that_do_not_fit(tmp_path: Path) -> None:
    """Samples of another shape than the model takes are refused, and so is no file at all."""
    model = onnx_models.save(onnx_models.open_axes(), tmp_path / "image.onnx")
    np.savez(tmp_path / "odd.npz", image=np.zeros((5, 4, 16, 9), np.float32))
    assert "[1, 4, 16, 9]" in _refused(model, "--warm-up-inputs", str(tmp_path / "odd.npz"))
    missing = str(tmp_path / "none.npz")
    assert "cannot be read as a .npz file" in _refused(model, "--warm-up-inputs", missing)


def test_serves_external_data(tmp_path: Path) -> None:
    """A model with external weights is served, and its metadata contains their checksum."""
    model = onnx_models.write_with_external_data(tmp_path)
    with (
        serving(model, "--model-name", "weighty") as server,
        over_http.InferenceServerClient(server.http_url) as client,
    ):
        zeros = np.zeros((1, 4), np.float32)
        tensor = over_http.InferInput("x", [1, 4], "FP32").set_data_from_numpy(zeros)
        found = client.infer("weighty", [tensor]).as_numpy("y")
        np.testing.assert_array_equal(found, [[1, 2, 3, 4]])
        facts = client.get_model_config("weighty")["parameters"]
    assert "weights.bin" in facts["inferometer.external_data_sha256"]["string_value"]
