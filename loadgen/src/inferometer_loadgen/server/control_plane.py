"""Control plane of one server: readiness, metadata and configuration.

It uses tritonclient for both protocols; no measured request passes through it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_api.plan.cluster_objects import DEFAULT_PORTS
from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.control_clients import control_client
from inferometer_loadgen.server.documents import (
    UnreadableMetadataError,
    model_document,
    server_document,
    settings_of,
)
from inferometer_loadgen.server.headers import Headers
from inferometer_loadgen.server.tls_handshake import ClosedBehindError, check_handshake
from inferometer_loadgen.server.unanswered import FAULTS, reason_unanswered
from inferometer_loadgen.wire.tls import ClientTls, client_certificate_error

_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 0.5
_POLL_SHARE = 0.02
"""A server is polled again after this share of the time that has passed."""
_ATTEMPT_SECONDS = 5.0
_HANDSHAKES = 20
"""After this many handshakes in a row that the server closes, its refusal counts as final."""

_NO_JSON = (ValueError, RecursionError)
"""Errors of reading an answer as JSON: RecursionError if it is nested too deeply."""


class ServerNotReadyError(RuntimeError):
    """The server was not ready in time, or was lost."""


class ModelNotServedError(ValueError):
    """The server does not serve the requested model."""


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """The address of a server, and how to talk to it."""

    protocol: Literal["HTTP", "GRPC"]
    host: str
    port: int
    path_prefix: str
    tls: ClientTls | None = None
    """None: without TLS."""
    headers: Headers = field(default=(), repr=False)
    """Sent with every request, in addition to its own headers."""

    @property
    def address(self) -> str:
        """Host, port and path in the form of tritonclient."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path_prefix}"


def endpoint_of(url: str, protocol: Literal["HTTP", "GRPC"]) -> ServerEndpoint:
    """Parse a server's URL; raises InputRefusedError if it does not fit the protocol."""
    scheme = "grpc" if protocol == "GRPC" else "http"
    if not url.startswith((f"{scheme}://", f"{scheme}s://")):
        raise InputRefusedError(
            f"load.protocol is {protocol}, which needs a URL with {scheme}:// or {scheme}s://, but "
            f"the server's is {url}: change one of them."
        )
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:  # brackets that hold no address
        host = None
    if not host:
        raise InputRefusedError(f"{url} names no host: write {scheme}://HOST:PORT.")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise InputRefusedError(
            f"{url} names no port that there is: write one from 1 to 65535, as "
            f"{scheme}://HOST:PORT."
        )
    return ServerEndpoint(
        protocol, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/")
    )


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
    """The parameters in the model's configuration, Inferometer's own without their prefix, and its
    largest batch."""

    @property
    def max_batch_size(self) -> int | None:
        """The most samples that the server accepts in a request; None if it does not say."""
        size = self.settings.get("max_batch_size", "")
        return int(size) or None if size.isdecimal() else None


class ControlPlane:
    """The control plane of one server and model."""

    def __init__(self, endpoint: ServerEndpoint, model_name: str, model_version: str) -> None:
        self._endpoint = endpoint
        self._model = (model_name, model_version)
        self._is_accepted = endpoint.tls is None
        self._handshakes = 0
        self._client = control_client(
            endpoint.protocol,
            endpoint.address,
            tls=endpoint.tls,
            headers=endpoint.headers,
            timeout_seconds=_ATTEMPT_SECONDS,
        )

    async def wait_until_ready(
        self, deadline_seconds: float, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        """Wait for the server, then for the model; `on_wait` receives the last attempt's failure.

        Raises ServerNotReadyError past the deadline, ModelNotServedError if the server does not
        have the model, RedirectedError if it redirects, TlsRefusedError if TLS fails for good.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_seconds
        what = f"The server at {self._endpoint.address}"
        await self._until(self._server_ready, deadline, deadline_seconds, what, on_wait)
        await self._metadata()
        what += f" was ready, but its model {self._model[0]!r}"
        await self._until(self._model_ready, deadline, deadline_seconds, what, on_wait)

    async def describe(self) -> ServerDescription:
        """Return the server's description of itself and of the model."""
        try:
            server = server_document(await self._call(self._client.get_server_metadata))
        except (InferenceServerException, UnreadableMetadataError) as error:
            raise self._lost(error) from error
        try:
            model = model_document(await self._metadata())
        except UnreadableMetadataError as error:
            raise ModelNotServedError(
                f"The server at {self._endpoint.address} does not describe its model "
                f"{self._model[0]!r} as the Open Inference Protocol requires: {error}."
            ) from error
        return ServerDescription(
            server_name=server.name,
            server_version=server.version,
            extensions=server.extensions,
            versions=model.versions,
            inputs=model.inputs,
            outputs=model.outputs,
            settings=await self.settings(),
        )

    async def settings(self) -> dict[str, str]:
        """Return the settings in the model's configuration; empty if it cannot be read."""
        with suppress(*FAULTS, *_NO_JSON):
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                return settings_of(await self._client.get_model_config(*self._model))
        return {}

    async def close(self) -> None:
        """Close the connection."""
        with suppress(*FAULTS):
            await self._client.close()

    async def _server_ready(self) -> bool:
        if not self._is_accepted:
            await self._check_handshake()
            self._is_accepted = True
        return bool(await self._client.is_server_ready())

    async def _check_handshake(self) -> None:
        at = self._endpoint
        if at.tls is None:
            return
        try:
            await check_handshake(at.protocol, at.host, at.port, at.tls)
        except ClosedBehindError:
            self._handshakes += 1
            if self._handshakes < _HANDSHAKES:
                raise
            raise client_certificate_error(f"{at.host}:{at.port}", at.tls) from None
        except OSError:
            self._handshakes = 0
            raise

    async def _model_ready(self) -> bool:
        return bool(await self._client.is_model_ready(*self._model))

    async def _until(
        self,
        ready: Callable[[], Awaitable[bool]],
        deadline: float,
        deadline_seconds: float,
        what: str,
        on_wait: Callable[[str], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        last = ""
        while True:
            on_wait(last)
            try:
                left = max(0.1, deadline - loop.time())
                async with asyncio.timeout(min(_ATTEMPT_SECONDS, left)):
                    if await ready():
                        return
                last = "it answered that it is not ready"
            except FAULTS as fault:
                # An attempt that the deadline cut short says less than the previous one.
                is_cut_short = isinstance(fault, TimeoutError) and left < _ATTEMPT_SECONDS
                if not (last and is_cut_short):
                    last = self._reason(fault)
            pause = (loop.time() - deadline + deadline_seconds) * _POLL_SHARE
            pause = min(_LONGEST_POLL_SECONDS, max(_SHORTEST_POLL_SECONDS, pause))
            if loop.time() + pause > deadline:
                raise ServerNotReadyError(
                    f"{what} was not ready within {deadline_seconds:g} s "
                    f"(server.readyDeadlineSeconds): {last}."
                )
            await asyncio.sleep(pause)

    async def _metadata(self) -> Any:
        try:
            return await self._call(self._client.get_model_metadata, *self._model)
        except InferenceServerException as error:
            name, version = self._model
            requested = f"{name!r}, version {version!r}" if version else repr(name)
            raise ModelNotServedError(
                f"The server at {self._endpoint.address} does not serve the model {requested}: "
                f"{self._reason(error)}."
            ) from error

    async def _call(self, call: Callable[..., Awaitable[Any]], *words: str) -> Any:
        """Call once; only a server's own error is raised as it is."""
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                return await call(*words)
        except InferenceServerException as error:
            if error.status() in {"StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"}:
                raise self._lost(error) from error
            raise
        except (aiohttp.ClientError, OSError, TimeoutError, *_NO_JSON) as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> ServerNotReadyError:
        return ServerNotReadyError(
            f"The server at {self._endpoint.address} was ready, but did not describe itself: "
            f"{self._reason(error)}."
        )

    def _reason(self, fault: BaseException) -> str:
        at = self._endpoint
        return reason_unanswered(fault, at.protocol, at.tls, _ATTEMPT_SECONDS)
