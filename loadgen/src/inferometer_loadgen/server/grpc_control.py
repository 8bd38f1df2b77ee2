"""Control plane over gRPC, by tritonclient."""

import re
from collections.abc import Awaitable, Mapping
from typing import Any

from grpc.aio import AioRpcError  # type: ignore[import-untyped]  # has no types
from tritonclient.grpc import aio  # type: ignore[import-untyped]  # has no types
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_loadgen.server.control_calls import (
    AnswerError,
    AnswerKind,
    UnintelligibleError,
    answer_clause,
)
from inferometer_loadgen.server.headers import Headers
from inferometer_loadgen.wire.tls import ClientTls

_MOST_MESSAGE_BYTES = 2**31 - 1
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", _MOST_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
    # A server that is just starting is polled again soon, not a second or more later.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
    # Measured requests bypass proxies, too.
    ("grpc.enable_http_proxy", 0),
)
_KINDS = {
    "UNIMPLEMENTED": AnswerKind.ABSENT,
    "NOT_FOUND": AnswerKind.ABSENT,
    "UNAUTHENTICATED": AnswerKind.DENIED,
    "PERMISSION_DENIED": AnswerKind.DENIED,
    **dict.fromkeys(
        ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED", "DEADLINE_EXCEEDED"),
        AnswerKind.NOT_READY,
    ),
}
_HTTP_STATUS = re.compile(r"http2 header with status: (\d{3})")
_OF_THE_LIBRARY = re.compile(
    r"failed to connect to all addresses|Failed parsing HTTP/2|Socket closed|GOAWAY|Stream removed|"
    r"\bipv[46]:|\brecvmsg|\bendpoint\b.*\b(closed|failed)|Connection reset by peer"
)
"""What the library itself reports of a connection; a server's own messages hold none of it."""


class _Client(aio.InferenceServerClient):  # type: ignore[misc]  # has no types
    """The library's client, with our headers."""

    def __init__(self, address: str, headers: Headers, **options: Any) -> None:
        super().__init__(address, **options)
        self._own = tuple((name.lower(), value) for name, value in headers)

    async def call_raw(self, method: str, request: bytes) -> bytes:
        """Call a method that is not in the protocol, with messages of bytes."""
        call = self._channel.unary_unary(method)  # serializes nothing
        answer: bytes = await call(request, metadata=self._own)
        return answer

    def _get_metadata(self, headers: None) -> tuple[tuple[str, str], ...]:
        del headers  # never given here
        return self._own


class GrpcControlClient:
    """Control plane of one server over gRPC; see ControlClient. `address` is host and port."""

    def __init__(
        self,
        address: str,
        model_name: str,
        model_version: str,
        *,
        tls: ClientTls | None,
        headers: Headers,
    ) -> None:
        self._model = (model_name, model_version)
        options: list[tuple[str, str | int]] = list(_CHANNEL_OPTIONS)
        if tls is None:
            self._client = _Client(address, headers, channel_args=options)
            return
        # The library then uses this name in `:authority`, too.
        options.append(("grpc.ssl_target_name_override", tls.server_name))
        files = tls.files
        self._client = _Client(
            address,
            headers,
            ssl=True,
            root_certificates=files.authority,
            certificate_chain=files.certificate,
            private_key=files.key or files.certificate,
            channel_args=options,
        )

    async def server_ready(self) -> None:
        """Return once the server answers that it is ready."""
        await self._ready("ServerReady", self._client.is_server_ready())

    async def model_ready(self) -> None:
        """Return once the server answers that the model is ready."""
        await self._ready("ModelReady", self._client.is_model_ready(*self._model))

    async def server_metadata(self) -> Any:
        """Return the server's metadata as a message."""
        return await _call("ServerMetadata", self._client.get_server_metadata())

    async def model_metadata(self) -> Any:
        """Return the model's metadata as a message."""
        return await _call("ModelMetadata", self._client.get_model_metadata(*self._model))

    async def model_config(self) -> Any:
        """Return the model's configuration as a message."""
        return await _call("ModelConfig", self._client.get_model_config(*self._model))

    async def model_statistics(self) -> Any:
        """Return the model's statistics as JSON values."""
        call = self._client.get_inference_statistics(*self._model, as_json=True)
        return await _call("ModelStatistics", call)

    async def model_measurement(self, what: str, request: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the interface of both protocols
        """Raise AnswerError: profiles and layers come over HTTP alone."""
        raise AnswerError(AnswerKind.ABSENT, f"it has no {what} over gRPC")

    async def trace_settings(self, change: Mapping[str, Any] | None = None) -> Any:
        """Return the model's settings of Triton's trace extension, after a change of them."""
        name = self._model[0]
        if change is None:
            call = self._client.get_trace_settings(name, as_json=True)
        else:
            call = self._client.update_trace_settings(name, dict(change), as_json=True)
        return await _call("TraceSetting", call)

    async def take_spans(self) -> bytes:
        """Return spans of traced requests as OTLP in JSON, which the server then forgets."""
        try:
            return await self._client.call_raw("/inferometer.Spans/Take", b"")
        except AioRpcError as error:
            raise call_error("Spans/Take", str(error.code()), str(error.details() or "")) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _ready(self, method: str, call: Awaitable[bool]) -> None:
        if not await _call(method, call):
            raise AnswerError(AnswerKind.NOT_READY, "it answered that it is not ready")


async def _call(method: str, call: Awaitable[Any]) -> Any:
    try:
        return await call
    except InferenceServerException as error:
        raise call_error(method, str(error.status() or ""), str(error.message() or "")) from error


def call_error(method: str, status: str, words: str) -> Exception:
    """Return the error of a call that failed with a status and words of the library."""
    code = status.removeprefix("StatusCode.") or "UNKNOWN"
    kind = _KINDS.get(code, AnswerKind.REJECTED)
    if (found := _HTTP_STATUS.search(words)) is not None:
        return AnswerError(kind, answer_clause(f"the HTTP status {found[1]}", method, ""))
    if _OF_THE_LIBRARY.search(words):
        return UnintelligibleError("it gave no answer in gRPC")
    return AnswerError(kind, answer_clause(code, method, words))
