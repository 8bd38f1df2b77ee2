"""The gRPC server."""

import asyncio
import socket
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
from tritonclient.grpc import (  # type: ignore[import-untyped]  # ships no types
    service_pb2 as messages,
)

from inferometer_serving.grpc.calls import Calls, TracedCalls, not_here, streaming, unary
from inferometer_serving.http.server import port_refused
from inferometer_serving.server_state import ServerState


class GrpcServer:
    """Listens on one port."""

    def __init__(self, state: ServerState) -> None:
        self._draining = asyncio.Event()
        self._server = grpc.aio.server(
            options=(
                ("grpc.so_reuseport", 0),  # else a port in use would be shared, not refused
                ("grpc.max_receive_message_length", state.options.max_body_bytes),
                ("grpc.max_send_message_length", -1),
            )
        )
        self._server.add_generic_rpc_handlers(
            (_handlers(state, self._draining), _spans_handler(state))
        )

    async def listen(self, host: str, port: int) -> int:
        """Listen and return the port. Raises RefusedError if it is not available."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            bound: int = self._server.add_insecure_port(address)
        except RuntimeError as error:
            reason = _why(host, port)
            raise port_refused("gRPC", "--grpc-port", host, port, reason) from error
        await self._server.start()
        return bound

    async def drain(self, timeout_seconds: float) -> None:
        """Accept nothing more, and return once every call in flight is answered or timed out."""
        self._draining.set()
        await self._server.stop(timeout_seconds)


def _handlers(state: ServerState, draining: asyncio.Event) -> Any:
    """Return a handler for every call that tritonclient's messages know."""
    calls = Calls(state, draining)
    answered = {
        "ServerLive": ("live", calls.server_live),
        "ServerReady": ("ready", calls.server_ready),
        "ModelReady": ("model_ready", calls.model_ready),
        "ServerMetadata": ("server_metadata", calls.server_metadata),
        "ModelMetadata": ("model_metadata", calls.model_metadata),
        "ModelConfig": ("config", calls.model_config),
        "ModelStatistics": ("statistics", calls.model_statistics),
        "RepositoryIndex": ("repository_index", calls.repository_index),
        "RepositoryModelLoad": ("load", calls.load),
        "RepositoryModelUnload": ("unload", calls.unload),
    }
    traced = TracedCalls(state, calls)
    service = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    handlers = {}
    for method in service.methods:
        forms = {
            "request_deserializer": getattr(messages, method.input_type.name).FromString,
            "response_serializer": getattr(messages, method.output_type.name).SerializeToString,
        }
        if method.name == "ModelInfer":
            handler = grpc.unary_unary_rpc_method_handler(
                traced.handle, request_deserializer=traced.read, response_serializer=traced.write
            )
        elif method.name == "ModelStreamInfer":
            handler = grpc.stream_stream_rpc_method_handler(streaming(calls), **forms)
        elif method.name in answered:
            endpoint, call = answered[method.name]
            handler = grpc.unary_unary_rpc_method_handler(unary(state, endpoint, call), **forms)
        else:
            handler = grpc.unary_unary_rpc_method_handler(not_here, **forms)
        handlers[method.name] = handler
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _spans_handler(state: ServerState) -> Any:
    """Return the handler of Spans/Take: the answer is an OTLP message in JSON."""

    async def take(_request: bytes, _context: Any) -> bytes:
        return state.spans.take()

    handlers = {"Take": grpc.unary_unary_rpc_method_handler(take)}
    return grpc.method_handlers_generic_handler("inferometer.Spans", handlers)


def _why(host: str, port: int) -> OSError:
    """Return why a port is not available, which gRPC itself writes only to its own log."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        return error
    return OSError(0, "gRPC could not listen there")
