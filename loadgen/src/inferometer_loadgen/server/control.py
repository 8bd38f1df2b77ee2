"""What does the server say of itself and of the model, and is it ready?

tritonclient speaks both protocols here; no request of a measurement passes through it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_api.children import DEFAULT_PORTS
from inferometer_api.result import Tensor
from inferometer_loadgen.requests.inputs import DTYPES, InputRefusedError
from inferometer_loadgen.server.control_clients import control_client
from inferometer_loadgen.server.headers import Headers
from inferometer_loadgen.server.tls_handshake import ClosedBehindError, knock
from inferometer_loadgen.wire.sentences import concealed
from inferometer_loadgen.wire.tls import Tls, refused_client

FACT_PREFIX = "inferometer."
_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 0.5
_POLL_SHARE = 0.02
"""A server is asked again after this share of the time that it has taken already."""
_ATTEMPT_SECONDS = 5.0
_KNOCKS = 20
"""After how many knocks in a row a server that shakes hands and closes is taken by its word."""

_FAULTS = (InferenceServerException, aiohttp.ClientError, OSError, TimeoutError)


class ServerNotReadyError(RuntimeError):
    """The server was not ready in time, or was lost; the message is a sentence."""


class ModelRefusedError(ValueError):
    """The server does not serve the model that was asked; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is."""

    protocol: Literal["HTTP", "GRPC"]
    host: str
    port: int
    path_prefix: str
    tls: Tls | None = None
    """None: no TLS is spoken."""
    headers: Headers = field(default=(), repr=False)
    """Of every request, beside its own."""

    @property
    def address(self) -> str:
        """Return host, port and path as tritonclient takes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path_prefix}"


def endpoint_of(url: str, protocol: Literal["HTTP", "GRPC"]) -> Endpoint:
    """Take a server's URL apart; raises InputRefusedError where it is not one for the protocol."""
    scheme = "grpc" if protocol == "GRPC" else "http"
    if not url.startswith((f"{scheme}://", f"{scheme}s://")):
        raise InputRefusedError(
            f"load.protocol is {protocol}, which needs a URL with {scheme}:// or {scheme}s://, but "
            f"the server's is {url}: change one of them."
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # brackets that hold no address, or a port that is no number
        host = None
    if not host or port == 0:
        raise InputRefusedError(f"{url} names no host and port: write {scheme}://HOST:PORT.")
    return Endpoint(protocol, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Described:
    """What the server said; what it does not tell is empty, never invented."""

    server_name: str
    server_version: str
    extensions: list[str]
    versions: list[str]
    inputs: list[Tensor]
    outputs: list[Tensor]
    settings: dict[str, str] = field(default_factory=dict)
    """The parameters of the model's configuration, Inferometer's own without their prefix."""


class Control:
    """The control plane of one server and model."""

    def __init__(self, endpoint: Endpoint, model_name: str, model_version: str) -> None:
        self._endpoint = endpoint
        self._model = (model_name, model_version)
        self._is_let_in = endpoint.tls is None
        self._knocks = 0
        self._client = control_client(
            endpoint.protocol,
            endpoint.address,
            tls=endpoint.tls,
            headers=endpoint.headers,
            timeout_seconds=_ATTEMPT_SECONDS,
        )

    async def wait_until_ready(
        self, deadline_seconds: float, told: Callable[[str], None] = lambda _: None
    ) -> None:
        """Wait for the server, then for the model; `told` hears why the last attempt was in vain.

        Raises ServerNotReadyError past the deadline, ModelRefusedError where the server knows no
        such model, RedirectedError where it sends its askers elsewhere, TlsRefusedError where
        TLS cannot be spoken with it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_seconds
        what = f"The server at {self._endpoint.address}"
        await self._until(self._server_ready, deadline, deadline_seconds, what, told)
        await self._metadata()
        what += f" was ready, but its model {self._model[0]!r}"
        await self._until(self._model_ready, deadline, deadline_seconds, what, told)

    async def describe(self) -> Described:
        """Return what the server says of itself and of the model."""
        server = _plain(await self._asked(self._client.get_server_metadata))
        model = await self._metadata()
        return Described(
            server_name=server.get("name", ""),
            server_version=server.get("version", ""),
            extensions=list(server.get("extensions", [])),
            versions=list(model.get("versions", [])),
            inputs=[_tensor(each) for each in model.get("inputs", [])],
            outputs=[_tensor(each) for each in model.get("outputs", [])],
            settings=await self.settings(),
        )

    async def settings(self) -> dict[str, str]:
        """Return the parameters of the model's configuration; empty where there is none."""
        with suppress(*_FAULTS, ValueError):
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                config = _plain(await self._client.get_model_config(*self._model))
            parameters = config.get("config", config).get("parameters", {})
            return {
                name.removeprefix(FACT_PREFIX): str(value.get("string_value", ""))
                for name, value in parameters.items()
            }
        return {}

    async def close(self) -> None:
        """Close the connection."""
        with suppress(*_FAULTS):
            await self._client.close()

    async def _server_ready(self) -> bool:
        if not self._is_let_in:
            await self._knock()
            self._is_let_in = True
        return bool(await self._client.is_server_ready())

    async def _knock(self) -> None:
        at = self._endpoint
        if at.tls is None:
            return
        try:
            await knock(at.protocol, at.host, at.port, at.tls)
        except ClosedBehindError:
            self._knocks += 1
            if self._knocks < _KNOCKS:
                raise
            raise refused_client(f"{at.host}:{at.port}", at.tls) from None
        except OSError:
            self._knocks = 0
            raise

    async def _model_ready(self) -> bool:
        return bool(await self._client.is_model_ready(*self._model))

    async def _until(
        self,
        ready: Callable[[], Awaitable[bool]],
        deadline: float,
        deadline_seconds: float,
        what: str,
        told: Callable[[str], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        last = ""
        while True:
            told(last)
            try:
                left = max(0.1, deadline - loop.time())
                async with asyncio.timeout(min(_ATTEMPT_SECONDS, left)):
                    if await ready():
                        return
                last = "it answered that it is not ready"
            except _FAULTS as fault:
                last = _said(fault)
            pause = (loop.time() - deadline + deadline_seconds) * _POLL_SHARE
            pause = min(_LONGEST_POLL_SECONDS, max(_SHORTEST_POLL_SECONDS, pause))
            if loop.time() + pause > deadline:
                raise ServerNotReadyError(
                    f"{what} was not ready within {deadline_seconds:g} s "
                    f"(server.readyDeadlineSeconds): {last}."
                )
            await asyncio.sleep(pause)

    async def _metadata(self) -> dict[str, Any]:
        try:
            return _plain(await self._asked(self._client.get_model_metadata, *self._model))
        except InferenceServerException as error:
            name, version = self._model
            asked = f"{name!r}, version {version!r}" if version else repr(name)
            raise ModelRefusedError(
                f"The server at {self._endpoint.address} does not serve the model {asked}: "
                f"{_said(error)}."
            ) from error

    async def _asked(self, call: Callable[..., Awaitable[Any]], *words: str) -> Any:
        """Ask once; only a server's own error is passed on as such."""
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                return await call(*words)
        except InferenceServerException as error:
            if error.status() in {"StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"}:
                raise self._lost(error) from error
            raise
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> ServerNotReadyError:
        return ServerNotReadyError(
            f"The server at {self._endpoint.address} was ready, but did not describe itself: "
            f"{_said(error)}."
        )


def _plain(answer: Any) -> dict[str, Any]:
    """Return an answer as a dict: HTTP's are, gRPC's are messages."""
    if isinstance(answer, dict):
        return answer
    return MessageToDict(answer, preserving_proto_field_name=True)


def _tensor(told: dict[str, Any]) -> Tensor:
    datatype = str(told.get("datatype", ""))
    if datatype not in DTYPES:
        raise ModelRefusedError(
            f"The tensor {told.get('name')!r} of the model has the datatype {datatype!r}, which is "
            f"none that can be sent ({', '.join(DTYPES)})."
        )
    # protobuf's JSON form writes 64-bit integers as strings.
    return Tensor(
        name=told["name"], datatype=datatype, shape=[int(axis) for axis in told.get("shape", [])]
    )


def _said(fault: BaseException) -> str:
    if isinstance(fault, TimeoutError):
        return f"it did not answer within {_ATTEMPT_SECONDS:g} s"
    if isinstance(fault, aiohttp.ClientConnectorError):
        return f"there is no connection to it ({fault.os_error.strerror or fault.os_error})"
    if isinstance(
        fault, (aiohttp.ClientConnectionError, aiohttp.ClientResponseError, ConnectionError)
    ):
        return (
            "it gave no answer in HTTP; this may be its gRPC port (grpc://), or one with TLS "
            "(https://)"
        )
    words = fault.message() if isinstance(fault, InferenceServerException) else str(fault)
    if "Failed parsing HTTP/2" in (words or ""):
        return "it gave no answer in gRPC; this may be its HTTP port (http://)"
    return concealed(words or type(fault).__name__).strip().rstrip(".")
