"""How is each call of the protocol's gRPC service answered?"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, assert_never

import grpc  # type: ignore[import-untyped]  # ships no types
import structlog
from google.protobuf.json_format import ParseDict
from tritonclient.grpc import (  # type: ignore[import-untyped]  # ships no types
    service_pb2 as messages,
)

from inferometer_serving.errors import Refusal, RequestRefusedError
from inferometer_serving.grpc.tensors import inputs_of, outputs_of, reply_of
from inferometer_serving.model.engine import Engine
from inferometer_serving.service import Service

Context = Any
"""grpc.aio.ServicerContext, for which grpc ships no types."""
Message = Any
"""One of tritonclient's messages, likewise."""


class Calls:
    """The calls that this server answers; each raises RequestRefusedError to refuse."""

    def __init__(self, service: Service, draining: asyncio.Event) -> None:
        self._service = service
        self._draining = draining

    async def server_live(self, _request: Message) -> Message:
        """Say that the process answers."""
        return messages.ServerLiveResponse(live=True)

    async def server_ready(self, _request: Message) -> Message:
        """Say whether inferences are served."""
        return messages.ServerReadyResponse(ready=self._service.is_ready)

    async def model_ready(self, request: Message) -> Message:
        """Say whether this model is served; one that is not here is simply not ready."""
        try:
            self._service.check_model(request.name, request.version)
        except RequestRefusedError:
            return messages.ModelReadyResponse(ready=False)
        return messages.ModelReadyResponse(ready=self._service.is_ready)

    async def server_metadata(self, _request: Message) -> Message:
        """Describe the server."""
        return ParseDict(self._service.server_metadata(), messages.ServerMetadataResponse())

    async def model_metadata(self, request: Message) -> Message:
        """Describe the model."""
        self._service.check_model(request.name, request.version)
        return ParseDict(self._service.model_metadata(), messages.ModelMetadataResponse())

    async def model_config(self, request: Message) -> Message:
        """Return the model's configuration, which holds the facts about this server."""
        self._service.check_model(request.name, request.version)
        return ParseDict({"config": self._service.config()}, messages.ModelConfigResponse())

    async def infer(self, request: Message) -> Message:
        """Compute."""
        started = perf_counter()
        service = self._service
        service.check_model(request.model_name, request.model_version)
        engine, _ = service.engine()
        call = partial(answer_infer, engine, request)
        try:
            if service.runs_inline(request.ByteSize()):
                service.metrics.queue_seconds.observe_none()
                return call()
            return await service.worker.call(partial(_after_waiting, service, started, call))
        finally:
            service.metrics.request_seconds["grpc"].observe(perf_counter() - started)

    async def stream(self, requests: AsyncIterator[Message]) -> AsyncIterator[Message]:
        """Answer each request of a stream in turn; a refused one is answered by its error."""
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            while True:
                following = asyncio.ensure_future(anext(requests, None))
                await asyncio.wait((following, draining), return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    with suppress(asyncio.CancelledError):
                        await following
                    raise self._service.unavailable()
                request = following.result()
                if request is None:
                    return
                yield await self._streamed(request)
        finally:
            draining.cancel()

    async def _streamed(self, request: Message) -> Message:
        try:
            reply = await self.infer(request)
        except RequestRefusedError as error:
            self._service.metrics.count("grpc", "stream", grpc_status(error.refusal).name)
            refused = messages.ModelInferResponse(id=request.id)
            return messages.ModelStreamInferResponse(
                error_message=str(error), infer_response=refused
            )
        self._service.metrics.count("grpc", "stream", grpc.StatusCode.OK.name)
        reply.parameters["triton_final_response"].bool_param = True
        return messages.ModelStreamInferResponse(infer_response=reply)


def _after_waiting(service: Service, started: float, call: Callable[[], Message]) -> Message:
    service.metrics.queue_seconds.observe(perf_counter() - started)
    return call()


def answer_infer(engine: Engine, request: Message) -> Message:
    """Return the reply to one inference request. Raises RequestRefusedError."""
    specs = outputs_of(engine.signature, request)
    inputs = inputs_of(engine.signature, request)
    results = engine.infer([each.name for each in specs], inputs)
    return reply_of(engine.model_name, request.id, specs, results)


def unary(
    service: Service, endpoint: str, call: Callable[[Message], Awaitable[Message]]
) -> Callable[[Message, Context], Awaitable[Message]]:
    """Return a call as grpc.aio wants it: counted, its refusals turned into status codes."""
    count = service.metrics.count

    async def handle(request: Message, context: Context) -> Message:
        try:
            reply = await call(request)
        except RequestRefusedError as error:
            code, sentence = grpc_status(error.refusal), str(error)
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
            structlog.get_logger().error("request failed", error=repr(error))
            code = grpc.StatusCode.INTERNAL
            sentence = f"The server failed on this request: {error!r}."
        else:
            count("grpc", endpoint, "OK")
            return reply
        count("grpc", endpoint, code.name)
        return await context.abort(code, sentence)

    return handle


def streaming(calls: Calls) -> Callable[[AsyncIterator[Message], Context], AsyncIterator[Message]]:
    """Return the streaming call as grpc.aio wants it."""

    async def handle(requests: AsyncIterator[Message], context: Context) -> AsyncIterator[Message]:
        try:
            async for reply in calls.stream(requests):
                yield reply
        except RequestRefusedError as error:
            await context.abort(grpc_status(error.refusal), str(error))

    return handle


async def not_here(_request: Message, context: Context) -> Message:
    """Say that a call of Triton's is not one of this server's."""
    return await context.abort(
        grpc.StatusCode.UNIMPLEMENTED,
        "This call belongs to an extension of the protocol that is not available in this version: "
        "ServerMetadata lists those that are.",
    )


def grpc_status(refusal: Refusal) -> grpc.StatusCode:
    """Return the status code that tells a gRPC client of a refusal."""
    match refusal:
        case Refusal.INVALID:
            return grpc.StatusCode.INVALID_ARGUMENT
        case Refusal.NOT_FOUND:
            return grpc.StatusCode.NOT_FOUND
        case Refusal.TOO_LARGE:
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case Refusal.UNSUPPORTED:
            return grpc.StatusCode.UNIMPLEMENTED
        case Refusal.UNAVAILABLE:
            return grpc.StatusCode.UNAVAILABLE
        case Refusal.FAILED:
            return grpc.StatusCode.INTERNAL
        case _:
            assert_never(refusal)
