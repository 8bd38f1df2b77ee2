"""The calls of the protocol's gRPC service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic_ns
from typing import Any, assert_never

import grpc  # type: ignore[import-untyped]  # ships no types
import structlog
from google.protobuf.json_format import ParseDict
from tritonclient.grpc import (  # type: ignore[import-untyped]  # ships no types
    service_pb2 as messages,
)

from inferometer_serving.errors import RefusalReason, RequestRefusedError
from inferometer_serving.grpc.tensors import inputs_of, outputs_of, parameters_of, reply_of
from inferometer_serving.infer.pending_request import PendingRequest, Read
from inferometer_serving.infer.tensors import Array
from inferometer_serving.metadata import server_metadata
from inferometer_serving.request_router import RequestRouter
from inferometer_serving.server_state import ServerState
from inferometer_serving.tracing import RequestTrace, sampled_context

Context = Any
"""grpc.aio.ServicerContext, for which grpc ships no types."""
Message = Any
"""One of tritonclient's messages, likewise."""
_READ_HERE_BYTES = 16384
"""Typed contents of this size are read within some 0.1 ms; raw ones cost nothing to read."""


class Calls:
    """The calls that this server answers; each raises RequestRefusedError to refuse."""

    def __init__(self, state: ServerState, draining: asyncio.Event) -> None:
        self._state = state
        self._draining = draining

    async def server_live(self, _request: Message) -> Message:
        """Say that the process answers."""
        return messages.ServerLiveResponse(live=True)

    async def server_ready(self, _request: Message) -> Message:
        """Return whether inferences are served."""
        return messages.ServerReadyResponse(ready=self._state.is_ready)

    async def model_ready(self, request: Message) -> Message:
        """Return whether this model is served; an unknown model is not ready."""
        try:
            self._state.check_model(request.name, request.version)
        except RequestRefusedError:
            return messages.ModelReadyResponse(ready=False)
        return messages.ModelReadyResponse(ready=self._state.is_ready)

    async def server_metadata(self, _request: Message) -> Message:
        """Describe the server."""
        document = server_metadata(self._state.version, has_profiles=self._state.options.profiling)
        return ParseDict(document, messages.ServerMetadataResponse())

    async def model_metadata(self, request: Message) -> Message:
        """Describe the model."""
        self._state.check_model(request.name, request.version)
        document = self._state.loaded_router(request.name).metadata
        return ParseDict(document, messages.ModelMetadataResponse())

    async def model_config(self, request: Message) -> Message:
        """Return the model's configuration, which holds the facts about this server."""
        self._state.check_model(request.name, request.version)
        document = {"config": self._state.loaded_router(request.name).config}
        return ParseDict(document, messages.ModelConfigResponse())

    async def model_statistics(self, request: Message) -> Message:
        """Return what was counted; no name stands for all models."""
        if request.name:
            self._state.check_model(request.name, request.version)
        document = self._state.model_statistics(request.name)
        return ParseDict(document, messages.ModelStatisticsResponse())

    async def repository_index(self, request: Message) -> Message:
        """List the models."""
        document = {"models": self._state.repository_index(only_ready=request.ready)}
        return ParseDict(document, messages.RepositoryIndexResponse())

    async def load(self, request: Message) -> Message:
        """Load the model anew."""
        await self._state.load_again(request.model_name, dict(request.parameters))
        return messages.RepositoryModelLoadResponse()

    async def unload(self, request: Message) -> Message:
        """Unload the model."""
        await self._state.unload(request.model_name)
        return messages.RepositoryModelUnloadResponse()

    async def infer(self, request: Message, trace: RequestTrace | None = None) -> Message:
        """Compute the outputs of one request."""
        began_ns = monotonic_ns()
        state = self._state
        state.check_model(request.model_name, request.model_version)
        model = state.router(request.model_name)
        is_inline = model.runs_inline(request.ByteSize())
        read = partial(read_request, model, request)
        try:
            if is_inline or request.raw_input_contents or request.ByteSize() <= _READ_HERE_BYTES:
                found = read()
            else:
                found = await state.reading.call(read)
            pending = None if is_inline else model.prepare("grpc", began_ns, found, trace)
        except RequestRefusedError:
            model.count_refusal("grpc", began_ns)
            raise
        if pending is None:
            return model.compute_now("grpc", began_ns, found, trace)
        return await self._compute(model, pending)

    async def _compute(self, model: RequestRouter, pending: PendingRequest[Message]) -> Message:
        answered = asyncio.get_running_loop().create_future()

        def done(answer: Message | None, error: Exception | None) -> None:
            if answered.done():
                return
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(answer)

        pending.done = done
        model.put(pending)
        try:
            return await answered
        finally:
            if pending.done is not None:  # the client cancelled, or its connection is lost
                model.pool.drop(pending)

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
                    raise self._state.unavailable()
                request = following.result()
                if request is None:
                    return
                yield await self._answer_one(request)
        finally:
            draining.cancel()

    async def _answer_one(self, request: Message) -> Message:
        try:
            reply = await self.infer(request)
        except RequestRefusedError as error:
            self._state.metrics.count("grpc", "stream", grpc_status(error.refusal).name)
            refused = messages.ModelInferResponse(id=request.id)
            return messages.ModelStreamInferResponse(
                error_message=str(error), infer_response=refused
            )
        self._state.metrics.count("grpc", "stream", grpc.StatusCode.OK.name)
        reply.parameters["triton_final_response"].bool_param = True
        return messages.ModelStreamInferResponse(infer_response=reply)


def read_request(model: RequestRouter, request: Message) -> Read[Message]:
    """Return the request in a message. Raises RequestRefusedError."""
    specs = outputs_of(model.signature, request)
    inputs = inputs_of(model.signature, request)

    def write(results: list[Array]) -> Message:
        return reply_of(model.name, request.id, specs, results)

    names = [each.name for each in specs]
    return inputs, names, parameters_of(request), write


def unary(
    state: ServerState, endpoint: str, call: Callable[[Message], Awaitable[Message]]
) -> Callable[[Message, Context], Awaitable[Message]]:
    """Return a call as grpc.aio wants it: counted, its refusals turned into status codes."""
    count = state.metrics.count

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


class TracedCalls:
    """ModelInfer, traced if its metadata has a sampled traceparent.

    grpc reads and writes messages right before and right after the call, without another call in
    between: so the last reading belongs to it, and the next writing of its reply. What its library
    does around that cannot be measured here.
    """

    def __init__(self, state: ServerState, calls: Calls) -> None:
        self._state = state
        self._calls = calls
        self._plain = unary(state, "infer", calls.infer)
        self._reading = (0, 0)
        self._writing: dict[int, tuple[RequestTrace, int]] = {}
        """Traces of replies that are written next, by the identity of the reply."""

    def read(self, data: bytes) -> Message:
        """Return the request in a serialized message."""
        began_ns = monotonic_ns()
        request = messages.ModelInferRequest.FromString(data)
        self._reading = (began_ns, monotonic_ns())
        return request

    def write(self, reply: Message) -> bytes:
        """Return a reply serialized, and end its trace."""
        data: bytes = reply.SerializeToString()
        if self._writing and (found := self._writing.pop(id(reply), None)) is not None:
            trace, since_ns = found
            trace.ended_ns = monotonic_ns()
            trace.add("send", since_ns, trace.ended_ns)
            self._state.spans.keep(trace)
        return data

    async def handle(self, request: Message, context: Context) -> Message:
        """Compute the outputs of one request."""
        trace = None
        for key, value in context.invocation_metadata() or ():
            if key == "traceparent":
                trace = self._begin_trace(value)
        if trace is None:
            return await self._plain(request, context)
        infer = unary(self._state, "infer", partial(self._calls.infer, trace=trace))
        reply = await infer(request, context)
        self._writing[id(reply)] = (trace, monotonic_ns())
        return reply

    def _begin_trace(self, traceparent: str) -> RequestTrace | None:
        found = sampled_context(traceparent)
        if found is None:
            return None
        trace = RequestTrace(found, "grpc", self._reading[0])
        trace.add("receive", *self._reading)
        return trace


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


def grpc_status(  # noqa: PLR0911 - one for each
    refusal: RefusalReason,
) -> grpc.StatusCode:
    """Return the gRPC status code of a refusal."""
    match refusal:
        case RefusalReason.INVALID:
            return grpc.StatusCode.INVALID_ARGUMENT
        case RefusalReason.FORBIDDEN:
            return grpc.StatusCode.PERMISSION_DENIED
        case RefusalReason.NOT_FOUND:
            return grpc.StatusCode.NOT_FOUND
        case RefusalReason.TOO_LARGE:
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case RefusalReason.UNSUPPORTED:
            return grpc.StatusCode.UNIMPLEMENTED
        case RefusalReason.UNAVAILABLE:
            return grpc.StatusCode.UNAVAILABLE
        case RefusalReason.FAILED:
            return grpc.StatusCode.INTERNAL
        case _:
            assert_never(refusal)
