"""Control plane of one server: readiness, metadata and configuration.

No measured request passes through it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from inferometer_api.results.result import Tensor
from inferometer_loadgen.server.control_calls import (
    AnswerError,
    AnswerKind,
    CallError,
    ControlClient,
    RedirectedError,
)
from inferometer_loadgen.server.documents import (
    ServerDocument,
    UnreadableMetadataError,
    engine_of,
    model_document,
    optional_inputs_of,
    server_document,
    settings_of,
    trace_settings_of,
)
from inferometer_loadgen.server.endpoint import ServerEndpoint
from inferometer_loadgen.server.readiness import ReadinessCalls, ReadinessWait
from inferometer_loadgen.server.refusals import (
    ATTEMPT_SECONDS,
    ModelNotServedError,
    ServerNotReadyError,
    failure_clause,
)
from inferometer_loadgen.tracing.spans import ReceivedSpan, UnreadableSpansError, read_json

_FAULTS = (CallError, OSError, TimeoutError)
_STATISTICS_SECONDS = 2.0
"""How long the statistics may take at the end of a window, before the next step."""
_SPANS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What the server reports of itself and of the model; what it does not report is empty."""

    server_name: str
    server_version: str
    extensions: list[str]
    versions: list[str]
    inputs: list[Tensor]
    outputs: list[Tensor]
    settings: dict[str, str] = field(default_factory=dict)
    """The parameters in the model's configuration, Inferometer's own without their prefix, its
    largest batch, and the engine that its platform names."""
    start_up: str = ""
    """The phases of its start, as JSON; empty if it does not report them."""
    optional_inputs: tuple[str, ...] = ()
    """The inputs that a request may leave out, according to the model's configuration."""
    unready_server: str = ""
    """How the server reports that it is not ready although its model is, as a clause."""
    readiness: ReadinessCalls | None = None
    """The calls that found it ready; None if it was not waited for."""

    @property
    def max_batch_size(self) -> int | None:
        """The most samples that the server accepts in a request; None if it does not say."""
        size = self.settings.get("max_batch_size", "")
        return int(size) or None if size.isdecimal() else None


class ProfileRefusedError(RuntimeError):
    """The server gave no profile; the message is a sentence."""


class SpansRefusedError(RuntimeError):
    """The server gave no spans; the message is a sentence."""


class ControlPlane:
    """The control plane of one server and model; see ReadinessWait for `others_may_fail`."""

    def __init__(
        self,
        endpoint: ServerEndpoint,
        model_name: str,
        model_version: str,
        *,
        others_may_fail: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._model_name = model_name
        self._client = control_client(endpoint, model_name, model_version)
        self._readiness = ReadinessWait(
            self._client, endpoint, model_name, model_version, others_may_fail=others_may_fail
        )

    @property
    def address(self) -> str:
        """Host, port and path of the server."""
        return self._endpoint.address

    async def wait_until_ready(
        self, deadline_seconds: float, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        """Wait for server and model; raises what `ReadinessWait.wait` raises."""
        await self._readiness.wait(deadline_seconds, on_wait)

    async def describe(self) -> ServerDescription:
        """Return the server's description of itself and of the model."""
        server = await self._server()
        try:
            model = model_document(await self._call(self._client.model_metadata))
        except UnreadableMetadataError as error:
            raise ModelNotServedError(
                f"The server at {self._endpoint.address} does not describe its model "
                f"{self._model_name!r} as the Open Inference Protocol requires: {error}."
            ) from error
        except AnswerError as error:
            raise self._undescribed(error) from error
        config = await self._config()
        settings = engine_of(model.platform) | settings_of(config)
        start_up = settings.pop("start_up", "")
        return ServerDescription(
            server_name=server.name,
            server_version=server.version,
            extensions=server.extensions,
            versions=model.versions,
            inputs=model.inputs,
            outputs=model.outputs,
            settings=settings,
            start_up=start_up,
            optional_inputs=optional_inputs_of(config),
            unready_server=self._readiness.unready_server,
            readiness=self._readiness.calls,
        )

    async def describe_other(self) -> ServerDescription:
        """Return the description of a further model of a server that is ready.

        Raises ModelNotServedError if the server does not have the model, or if it is not ready.
        """
        address, name = self._endpoint.address, self._model_name
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await self._client.model_ready()
                return await self.describe()
        except (*_FAULTS, ServerNotReadyError) as error:
            why = (
                str(error).rstrip(".")
                if isinstance(error, ServerNotReadyError)
                else failure_clause(error, self._endpoint)
            )
            raise ModelNotServedError(
                f"The mix names the model {name!r}, which the server at {address} does not serve: "
                f"{why}. Name a model that it serves in spec.scenarios[].mix, or load {name!r}."
            ) from error

    async def settings(self) -> dict[str, str]:
        """Return the settings in the model's configuration; empty if it cannot be read."""
        return settings_of(await self._config())

    async def statistics(self) -> Any:
        """Return the statistics of the model as JSON values; None if they cannot be read."""
        with suppress(*_FAULTS, RedirectedError):
            async with asyncio.timeout(_STATISTICS_SECONDS):
                return await self._client.model_statistics()
        return None

    async def measurement(self, extension: str, request: Mapping[str, Any]) -> Any:
        """Return what the server measures by an extension, as JSON values.

        Raises ProfileRefusedError.
        """
        try:
            return await self._client.model_measurement(extension, request)
        except (*_FAULTS, RedirectedError) as fault:
            why = failure_clause(fault, self._endpoint)
            raise ProfileRefusedError(
                f"The server at {self._endpoint.address} gave no {extension}: {why}."
            ) from fault

    async def trace_settings(self, change: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return Triton's trace settings, after a change of them; empty if that is not possible."""
        with suppress(*_FAULTS, RedirectedError):
            async with asyncio.timeout(ATTEMPT_SECONDS):
                return trace_settings_of(await self._client.trace_settings(change))
        return {}

    async def take_spans(self) -> list[ReceivedSpan]:
        """Return all spans of traced requests that the server holds. Raises SpansRefusedError."""
        found: list[ReceivedSpan] = []
        try:
            async with asyncio.timeout(_SPANS_SECONDS):
                while spans := read_json(await self._client.take_spans()):
                    found += spans
        except (*_FAULTS, RedirectedError, UnreadableSpansError) as fault:
            why = (
                str(fault)
                if isinstance(fault, UnreadableSpansError)
                else failure_clause(fault, self._endpoint)
            )
            raise SpansRefusedError(
                f"The spans of the server at {self._endpoint.address} could not be fetched: {why}."
            ) from fault
        return found

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _config(self) -> Any:
        """Return the model's configuration; None if it cannot be read."""
        with suppress(*_FAULTS):
            async with asyncio.timeout(ATTEMPT_SECONDS):
                return await self._client.model_config()
        return None

    async def _server(self) -> ServerDocument:
        """Return the server's metadata; empty if it has none."""
        try:
            return server_document(await self._call(self._client.server_metadata))
        except UnreadableMetadataError as error:
            raise self._undescribed(error) from error
        except AnswerError:
            return ServerDocument("", "", [])

    async def _call(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call once; raises AnswerError if the server has no such path."""
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                return await call()
        except _FAULTS as fault:
            if isinstance(fault, AnswerError) and fault.kind is AnswerKind.ABSENT:
                raise
            raise self._undescribed(fault) from fault

    def _undescribed(self, fault: BaseException) -> ServerNotReadyError:
        return ServerNotReadyError(
            f"The server at {self._endpoint.address} was ready, but did not describe itself: "
            f"{failure_clause(fault, self._endpoint)}."
        )


def control_client(at: ServerEndpoint, model_name: str, model_version: str) -> ControlClient:
    """Return a client of the server's control plane."""
    if at.protocol == "GRPC":
        from inferometer_loadgen.server.grpc_control import (  # noqa: PLC0415 - the import takes a tenth of a second, in which a pod could have sent its first query over HTTP
            GrpcControlClient,
        )

        return GrpcControlClient(
            at.address, model_name, model_version, tls=at.tls, headers=at.headers
        )
    from inferometer_loadgen.server.http_control import (  # noqa: PLC0415 - the same for gRPC
        HttpControlClient,
    )

    return HttpControlClient(at.address, model_name, model_version, tls=at.tls, headers=at.headers)
