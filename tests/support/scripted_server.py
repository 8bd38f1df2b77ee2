"""A server whose faults, documents and redirects a test scripts, in a thread of the test.

It speaks the Open Inference Protocol over HTTP and gRPC and records each inference. It shares the
interpreter with the test, so it makes no claim about time: `oracle_process` does.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import grpc  # type: ignore[import-untyped]  # has no types
from aiohttp import web
from aiohttp.typedefs import Handler
from tritonclient.grpc import (  # type: ignore[import-untyped]  # has no types
    model_config_pb2,
    service_pb2,
    service_pb2_grpc,
)
from typing_extensions import override

from support.oracle_http import MODEL, WIDTH

_STARTS_WITHIN_SECONDS = 60.0
_SECOND_NS = 1_000_000_000

Law = Callable[[int, int], float]
"""Seconds until the reply, from the number of the request and when it was received."""

Fault = Literal["status", "silence", "cut", "garbage", "names", "types", "shapes"]
"""What is wrong with a reply: an error, none at all, a lost connection, bytes that are no reply, or
outputs that are not the model's."""

Faults = Callable[[int], Fault | None]


def at_once(_index: int, _received: int) -> float:
    """Delay no reply."""
    return 0.0


def fixed(seconds: float) -> Law:
    """Delay each reply equally."""
    return lambda _index, _received: seconds


def stalling(seconds: float, *, after: int, usually: float = 0.0) -> Law:
    """Answer nothing for a while from the receipt of request number `after`."""
    stall: list[int] = []

    def law(index: int, received: int) -> float:
        if index == after:
            stall.append(received)
        if stall:
            left = stall[0] + seconds * _SECOND_NS - received
            return max(usually, left / _SECOND_NS)
        return usually

    return law


def never_wrong(_index: int) -> Fault | None:
    """Answer every request well."""
    return None


@dataclass(slots=True)
class Answered:
    """One inference: when it came and when its reply was sent, None where there was none."""

    received_ns: int
    samples: int
    fault: Fault | None
    sent_ns: int | None = None


@dataclass(slots=True)
class ScriptedServer:
    """A running oracle and what it saw."""

    law: Law = at_once
    faults: Faults = never_wrong
    settings: dict[str, str] | None = None
    """Parameters of the model's configuration; None: there is no configuration endpoint."""
    inputs: list[dict[str, Any]] = field(
        default_factory=lambda: [{"name": "x", "datatype": "FP32", "shape": [-1, WIDTH]}]
    )
    ready: bool = True
    away: tuple[int, float] | None = None
    """With the receipt of which request it loses all HTTP connections, and for how many seconds it
    then takes none."""
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Paths that HTTP answers by a status and a Location."""
    documents: dict[str, str] = field(default_factory=dict)
    """Paths that HTTP answers by a text of the test's own."""
    host: str = "127.0.0.1"
    http_port: int = 0
    grpc_port: int = 0
    tls: tuple[ssl.SSLContext, Any] | None = None
    """The context that HTTP and the credentials that gRPC is served with; None: no TLS."""
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of every call, of the control plane too, their names in lower case."""
    answered: list[Answered] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    stop: Callable[[], None] = lambda: None
    """End the server at once, as if it had died."""
    leave: Callable[[float], None] = lambda _: None
    """Go away for so many seconds, within its own thread."""

    def receive(self, samples: int) -> tuple[Answered, float]:
        """Write down a request; return it and how long its reply is delayed."""
        index = len(self.answered)
        query = Answered(time.monotonic_ns(), samples, self.faults(index))
        self.answered.append(query)
        if self.away is not None and index == self.away[0]:
            self.leave(self.away[1])
        return query, self.law(index, query.received_ns)

    @property
    def well(self) -> list[Answered]:
        """The requests that were answered as they should be."""
        return [query for query in self.answered if query.sent_ns and query.fault is None]

    def url(self, protocol: str) -> str:
        """Where to send requests."""
        secure = "" if self.tls is None else "s"
        if protocol == "GRPC":
            return f"grpc{secure}://{self.host}:{self.grpc_port}"
        return f"http{secure}://{self.host}:{self.http_port}"


@contextmanager
def serving(oracle: ScriptedServer) -> Iterator[ScriptedServer]:
    """Run an oracle in a thread until the end of the block."""
    started: threading.Event = threading.Event()
    faults: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(_serve(oracle, started))
        except BaseException as fault:  # noqa: BLE001 - raised in the thread that waits
            faults.append(fault)
            started.set()

    thread = threading.Thread(target=work, name="oracle")
    thread.start()
    try:
        if not started.wait(_STARTS_WITHIN_SECONDS) or faults:
            raise RuntimeError(f"The oracle did not start: {faults}.")
        yield oracle
    finally:
        oracle.stop()
        thread.join(_STARTS_WITHIN_SECONDS)


async def _serve(oracle: ScriptedServer, started: threading.Event) -> None:
    loop = asyncio.get_running_loop()
    context, credentials = oracle.tls or (None, None)
    runner = web.AppRunner(_http(oracle), access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, oracle.host, 0, ssl_context=context)
    await site.start()
    oracle.http_port = runner.addresses[0][1]
    journeys: set[asyncio.Task[None]] = set()
    oracle.leave = lambda seconds: journeys.add(
        asyncio.create_task(_away(runner, site, oracle, seconds))
    )
    server = grpc.aio.server(interceptors=[_Listener(oracle)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(oracle), server)
    oracle.grpc_port = (
        server.add_insecure_port(f"{oracle.host}:0")
        if credentials is None
        else server.add_secure_port(f"{oracle.host}:0", credentials)
    )
    await server.start()

    def stop() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(oracle.over.set)

    oracle.stop = stop
    started.set()
    await oracle.over.wait()
    await server.stop(0)
    await runner.cleanup()


async def _away(
    runner: web.AppRunner, site: web.TCPSite, oracle: ScriptedServer, seconds: float
) -> None:
    """Lose every connection, and listen again at the same port some time later."""
    await site.stop()
    for connection in runner.server.connections if runner.server else ():
        if connection.transport is not None:
            connection.transport.abort()
    await asyncio.sleep(seconds)
    await web.TCPSite(runner, oracle.host, oracle.http_port, reuse_address=True).start()


def _server_metadata() -> dict[str, Any]:
    return {"name": "oracle", "version": "1", "extensions": ["binary_tensor_data"]}


def _model_metadata(oracle: ScriptedServer) -> dict[str, Any]:
    return {
        "name": MODEL,
        "versions": ["1"],
        "platform": "oracle",
        "inputs": oracle.inputs,
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, WIDTH]}],
    }


def _output(samples: int, fault: Fault | None) -> tuple[str, str, list[int]]:
    name = "z" if fault == "names" else "y"
    datatype = "INT32" if fault == "types" else "FP32"
    return name, datatype, [samples, WIDTH] if fault != "shapes" else [samples * WIDTH]


def _http(oracle: ScriptedServer) -> web.Application:
    async def ready(_: web.Request) -> web.Response:
        return web.Response(status=200 if oracle.ready else 503)

    async def server(_: web.Request) -> web.Response:
        return web.json_response(_server_metadata())

    async def model(request: web.Request) -> web.Response:
        if request.match_info["model"] != MODEL:
            return web.json_response({"error": "no such model"}, status=404)
        return web.json_response(_model_metadata(oracle))

    async def config(_: web.Request) -> web.Response:
        if oracle.settings is None:
            return web.json_response({"error": "no configuration"}, status=404)
        told = {key: {"string_value": value} for key, value in oracle.settings.items()}
        return web.json_response({"name": MODEL, "parameters": told})

    async def infer(request: web.Request) -> web.StreamResponse:
        return await _infer_http(oracle, request)

    @web.middleware
    async def redirect(request: web.Request, handler: Handler) -> web.StreamResponse:
        oracle.headers.append({name.lower(): text for name, text in request.headers.items()})
        return _instead(oracle, request.path) or await handler(request)

    application = web.Application(client_max_size=1 << 26, middlewares=[redirect])
    application.add_routes(
        [
            web.get("/v2/health/ready", ready),
            web.get("/v2", server),
            web.get("/v2/models/{model}", model),
            web.get("/v2/models/{model}/ready", ready),
            web.get("/v2/models/{model}/config", config),
            web.post("/v2/models/{model}/infer", infer),
        ]
    )
    return application


def _instead(oracle: ScriptedServer, path: str) -> web.Response | None:
    if path in oracle.redirects:
        status, where = oracle.redirects[path]
        return web.Response(status=status, headers={"Location": where})
    if path in oracle.documents:
        return web.Response(text=oracle.documents[path], content_type="application/json")
    return None


async def _infer_http(oracle: ScriptedServer, request: web.Request) -> web.StreamResponse:
    body = await request.read()
    length = int(request.headers.get("Inference-Header-Content-Length", len(body)))
    samples = json.loads(body[:length])["inputs"][0]["shape"][0]
    query, delay = oracle.receive(samples)
    await _wait(query, delay)
    if query.fault == "silence":
        await oracle.over.wait()
    if query.fault in {"cut", "garbage"} and request.transport is not None:
        if query.fault == "garbage":
            request.transport.write(b"What is this?\r\n\r\n")
            request.transport.close()
        else:
            request.transport.abort()
    query.sent_ns = time.monotonic_ns()
    if query.fault == "status":
        return web.json_response({"error": "scripted failure"}, status=500)
    name, datatype, shape = _output(samples, query.fault)
    tensor = bytes(4 * samples * WIDTH)
    output = {
        "name": name,
        "datatype": datatype,
        "shape": shape,
        "parameters": {"binary_data_size": len(tensor)},
    }
    head = json.dumps({"model_name": MODEL, "outputs": [output]}).encode()
    return web.Response(
        body=head + tensor,
        headers={
            "Inference-Header-Content-Length": str(len(head)),
            "Content-Type": "application/octet-stream",
        },
    )


async def _wait(query: Answered, delay: float) -> None:
    """Wait until the delay has passed since the receipt, never less."""
    due = query.received_ns + round(delay * _SECOND_NS)
    while True:
        left = due - time.monotonic_ns()
        if left <= 0:
            return
        await asyncio.sleep(left / _SECOND_NS)


class _Listener(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # has no types
    """Writes down the metadata of each call."""

    def __init__(self, oracle: ScriptedServer) -> None:
        self._oracle = oracle

    @override
    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        self._oracle.headers.append(dict(handler_call_details.invocation_metadata))
        return await continuation(handler_call_details)


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # has no types
    """The protocol's methods by their own names."""

    def __init__(self, oracle: ScriptedServer) -> None:
        self._oracle = oracle

    async def ServerReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return service_pb2.ServerReadyResponse(ready=self._oracle.ready)

    async def ModelReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return service_pb2.ModelReadyResponse(ready=self._oracle.ready)

    async def ServerMetadata(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return service_pb2.ServerMetadataResponse(**_server_metadata())

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.name != MODEL:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
        return service_pb2.ModelMetadataResponse(**_model_metadata(self._oracle))

    async def ModelConfig(self, _request: Any, context: Any) -> Any:  # noqa: N802
        if self._oracle.settings is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no configuration")
        told = {
            key: model_config_pb2.ModelParameter(string_value=value)
            for key, value in (self._oracle.settings or {}).items()
        }
        config = model_config_pb2.ModelConfig(name=MODEL, parameters=told)
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        samples = request.inputs[0].shape[0]
        query, delay = self._oracle.receive(samples)
        await _wait(query, delay)
        if query.fault == "silence":
            await self._oracle.over.wait()
        query.sent_ns = time.monotonic_ns()
        if query.fault == "status":
            await context.abort(grpc.StatusCode.INTERNAL, "scripted failure")
        name, datatype, shape = _output(samples, query.fault)
        response = service_pb2.ModelInferResponse(model_name=MODEL)
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(bytes(4 * samples * WIDTH))
        return response
