"""Every client gets its own reply when many send at once."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc.aio as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.http.aio as over_http  # type: ignore[import-untyped]  # ships no types

from support import onnx_models
from support.exposed import samples
from support.serving_process import ServerProcess, serving
from support.waiting import DEADLINE_SECONDS, within_deadline

CLIENTS, CALLS = 6, 25


@pytest.fixture(scope="module", params=["in the loop", "in the thread"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """Serve y = x twice: tiny, hence computed in the event loop; and slow, in the thread."""
    is_tiny = request.param == "in the loop"
    model = onnx_models.identity(shape=("batch", 64)) if is_tiny else onnx_models.busy(200)
    path = onnx_models.save(model, tmp_path_factory.mktemp("many") / "many.onnx")
    with serving(path) as process:
        yield process


def _tensor(flavour: Any, value: int, rows: int) -> Any:
    array = np.full((rows, 64), value, np.float32)
    return flavour.InferInput("x", array.shape, "FP32").set_data_from_numpy(array)


def _check(result: Any, request_id: str, value: int, rows: int) -> None:
    response = result.get_response()
    assert (response["id"] if isinstance(response, dict) else response.id) == request_id
    np.testing.assert_array_equal(result.as_numpy("y"), np.full((rows, 64), value, np.float32))


async def _client(flavour: Any, url: str, number: int) -> None:
    async with flavour.InferenceServerClient(url) as client:
        for call in range(CALLS):
            value, rows = number * CALLS + call, 1 + call % 3
            request_id = f"{number}-{call}"
            tensor = _tensor(flavour, value, rows)
            result = await client.infer("many", [tensor], request_id=request_id)
            _check(result, request_id, value, rows)


def test_concurrent_clients_get_their_own_answers(server: ServerProcess) -> None:
    """Clients of both protocols at once each get the ids, shapes and values that they sent."""

    async def all_clients() -> None:
        async with within_deadline("every client's answers"), asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(_client(over_http, server.http_url, number))
                group.create_task(_client(over_grpc, server.grpc_url, CLIENTS + number))

    asyncio.run(all_clients())


def test_a_client_that_reads_slowly_gets_everything(server: ServerProcess) -> None:
    """Pipelined requests whose answers overflow the socket are all answered, in order."""
    count, rows = 60, 400
    raw = np.arange(rows * 64, dtype=np.float32).tobytes()

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port, limit=4096)
        for number in range(count):
            body = struct.pack("<f", number) + raw[4:]
            head = (
                f"POST /v2/models/many/infer HTTP/1.1\r\nHost: x\r\n"
                f"Content-Length: {len(body)}\r\nInference-Header-Content-Length: 0\r\n\r\n"
            )
            writer.write(head.encode() + body)
        for number in range(count):
            head_bytes = await reader.readuntil(b"\r\n\r\n")
            assert head_bytes.startswith(b"HTTP/1.1 200 ")
            size = int(head_bytes.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(size)
            assert body[-len(raw) :] == struct.pack("<f", number) + raw[4:]
        writer.close()
        await writer.wait_closed()

    async def bounded() -> None:
        async with within_deadline("the answers to a client that reads slowly"):
            await ask()

    asyncio.run(bounded())


def test_answers_wait_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    """Small requests sent at once, whose answers overflow the socket, are all answered."""
    count, width = 200, 65536
    path = onnx_models.save(onnx_models.spread(width), tmp_path / "spread.onnx")
    requests = b"".join(
        b"POST /v2/models/spread/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
        b"Inference-Header-Content-Length: 0\r\n\r\n" + struct.pack("<f", number)
        for number in range(count)
    )
    with (
        serving(path) as process,
        socket.create_connection(("127.0.0.1", process.http_port), DEADLINE_SECONDS) as link,
        link.makefile("rb") as answers,
    ):
        link.sendall(requests)
        for number in range(count):
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            sizes = {}
            while line := answers.readline().strip():
                name, _, value = line.partition(b": ")
                sizes[name] = value
            body = answers.read(int(sizes[b"Content-Length"]))
            assert body[int(sizes[b"Inference-Header-Content-Length"]) :] == (
                struct.pack("<f", number) * width
            )


def test_metrics_count_what_was_served(tmp_path: Path) -> None:
    """/metrics has requests, their durations, batches, and the labels of the run."""
    path = onnx_models.save(onnx_models.identity(shape=("batch", 64)), tmp_path / "many.onnx")

    async def ask(process: ServerProcess) -> str:
        async with (
            over_http.InferenceServerClient(process.http_url) as client,
            over_grpc.InferenceServerClient(process.grpc_url) as other,
        ):
            for _ in range(3):
                await client.infer("many", [_tensor(over_http, 1, 5)])
            await other.infer("many", [_tensor(over_grpc, 1, 1)])
            await client.is_model_ready("other")
            reply = await client._get("metrics", {}, None)
            text: bytes = await reply.read()
            return text.decode()

    with serving(path, "--run", "r", "--run-namespace", "n") as process:
        found = samples(asyncio.run(ask(process)))
    prefix = "inferometer_server_"
    run = {"run_namespace": "n", "run": "r", "model": "many"}

    def value(name: str, **labels: str) -> float:
        return found[f"{prefix}{name}", frozenset({**run, **labels}.items())]

    assert value("requests_total", code="200", endpoint="infer", protocol="http") == 3
    assert value("requests_total", code="OK", endpoint="infer", protocol="grpc") == 1
    assert value("requests_total", code="404", endpoint="model_ready", protocol="http") == 1
    assert value("request_duration_seconds_count", protocol="http") == 3
    assert value("request_duration_seconds_count", protocol="grpc") == 1
    assert value("compute_duration_seconds_count") == 4
    assert value("queue_duration_seconds_count") == 4
    assert value("batch_size_count") == 4
    assert value("batch_size_sum") == value("inferences_total") == 16
    assert value("batch_size_bucket", le="4.0") == 1
    assert value("batch_size_bucket", le="8.0") == 4
    assert (value("pending_requests"), value("ready")) == (0, 1)
    assert ("process_cpu_seconds_total", frozenset()) in found
