"""One request to the API server, by the official client's configuration and plain JSON.

The official client supports every way to log in. Objects pass through the operator as plain JSON,
as the cluster sent them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from inferometer_operator.cluster.errors import ApiUnreachableError, api_error
from inferometer_operator.cluster.server_clock import ApiServerClock

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Only an object's metadata travel: no content of a Secret, no spec of a pod."""
METADATA_LIST: Final = METADATA_ONLY.replace("Metadata;", "MetadataList;")
UNREACHABLE: Final = "unreachable"
_TIMEOUT_SECONDS = 15.0
_AUTHENTICATION = ["BearerToken"]

Query = Mapping[str, str]


class ConfigurationError(Exception):
    """There is no kubeconfig and no service account."""


async def configuration(kubeconfig: Path | None) -> Configuration:
    """Return how to reach the cluster: by this file, else by the pod's service account."""
    found = Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(found)  # type: ignore[no-untyped-call]  # the library's own
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]  # the library's own
                str(kubeconfig), client_configuration=found
            )
    except (config.ConfigException, OSError) as error:
        where = "this pod's service account" if kubeconfig is None else f"the file {kubeconfig}"
        raise ConfigurationError(
            f"Cannot reach the cluster by {where}: {error} Outside a cluster, set "
            "--kubeconfig FILE."
        ) from error
    # The caller decides on a retry, because it knows the purpose of the request.
    found.retries = None
    # Each of the five watches and of the 16 steps of runs holds one; every further connection costs
    # a third of a megabyte.
    found.connection_pool_maxsize = 24
    return found


class ApiConnection:
    """A connection to the API server; an async context manager that closes it."""

    def __init__(
        self,
        settled: Configuration,
        failed: Callable[[str], None] = lambda _: None,
        check_write: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `failed` with the status of each error answer, "unreachable" if none came.

        `check_write` is called before each request that writes; it raises if none may be sent.
        """
        self._settled = settled
        self._failed = failed
        self._check_write = check_write
        self._client = ApiClient(settled)
        self.clock = ApiServerClock()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        await self._client.close()  # type: ignore[no-untyped-call]  # the library's own

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return str(self._settled.host)

    def session(self, trace: aiohttp.TraceConfig) -> aiohttp.ClientSession:
        """Return a session with this connection's login, for another library."""

        async def log_in(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            # Read each time: a service account's token changes while the operator runs.
            logins: Any = await self._settled.auth_settings()
            for each in logins.values():
                request.headers[each["key"]] = each["value"]
            return await handler(request)

        tls = self._client.rest_client.ssl_context
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls),
            trace_configs=[trace, self._failures()],
            middlewares=(log_in,),
        )

    def _failures(self) -> aiohttp.TraceConfig:
        """Return a trace that counts failed requests of other libraries."""
        trace = aiohttp.TraceConfig()

        async def count_refusal(
            _: object, __: object, request: aiohttp.TraceRequestEndParams
        ) -> None:
            if request.response.status >= 400:
                self._failed(str(request.response.status))

        async def count_break(
            _: object, __: object, request: aiohttp.TraceRequestExceptionParams
        ) -> None:
            # An operator that ends cancels its own requests.
            if not isinstance(request.exception, asyncio.CancelledError):
                self._failed(UNREACHABLE)

        trace.on_request_end.append(count_refusal)
        trace.on_request_exception.append(count_break)
        return trace

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Send one request and return the JSON of the answer.

        Raises ApiError for an error answer, UnreachableError if none came.
        """
        async with self._open_response(
            method,
            path,
            query=query,
            body=body,
            headers={"Content-Type": content_type, "Accept": accept},
            limits=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
        ) as answer:
            return json.loads(await answer.read() or b"null")

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query, accept: str, silence_seconds: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Yield the body of a GET as it arrives; raise after `silence_seconds` without data."""
        async with self._open_response(
            "GET",
            path,
            query=query,
            headers={"Accept": accept},
            limits=aiohttp.ClientTimeout(
                total=None, sock_connect=_TIMEOUT_SECONDS, sock_read=silence_seconds
            ),
        ) as answer:
            yield answer.content

    @asynccontextmanager
    async def _open_response(
        self,
        method: str,
        path: str,
        *,
        query: Query | None,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
        body: Any = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        what = f"{method} {path}"
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=_AUTHENTICATION,
            )
            if method != "GET":
                self._check_write()
            requested_at = self.clock.monotonic()
            answer = (await self._client.call_api(*request, _request_timeout=limits)).response
            async with answer:
                self.clock.hear(answer.headers.get("Date"), requested_at)
                if answer.status >= 400:
                    # "Not found" is a normal answer to a GET.
                    if (method, answer.status) != ("GET", 404):
                        self._failed(str(answer.status))
                    raise await _refusal(answer, what)
                yield answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._failed(UNREACHABLE)
            reason = str(error) or type(error).__name__
            raise ApiUnreachableError(f"{what}: no answer: {reason}") from error


async def _refusal(answer: aiohttp.ClientResponse, what: str) -> Exception:
    text = await answer.text(errors="replace")
    try:
        body = json.loads(text)
    except ValueError:  # a proxy's page
        body = None
    return api_error(answer.status, body, answer.headers, what=what, text=text)
