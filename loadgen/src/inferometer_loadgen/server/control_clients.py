"""Control-plane clients of tritonclient, one per protocol.

Each is imported only when its protocol is used: the import takes a tenth of a second, in which a
pod could have sent its first query.
"""

from typing import TYPE_CHECKING, Any, Literal

from inferometer_loadgen.server.headers import Headers
from inferometer_loadgen.wire.contract import redact
from inferometer_loadgen.wire.tls import ClientTls

if TYPE_CHECKING:
    import aiohttp

_MOST_MESSAGE_BYTES = 2**31 - 1
_LOCATION_CHARACTERS = 200
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


class RedirectedError(RuntimeError):
    """A server answered with a redirect."""


def control_client(
    protocol: Literal["HTTP", "GRPC"],
    address: str,
    *,
    tls: ClientTls | None,
    headers: Headers,
    timeout_seconds: float,
) -> Any:
    """Return a client for a server at host, port and path; it follows no redirect."""
    if protocol == "GRPC":
        return _grpc_client(address, tls, headers)
    return _http_client(address, tls, headers, timeout_seconds)


def _grpc_client(address: str, tls: ClientTls | None, headers: Headers) -> Any:
    from tritonclient.grpc import (  # type: ignore[import-untyped]  # noqa: PLC0415 - see above; it has no types
        aio,
    )

    metadata = {name.lower(): value for name, value in headers}

    class GrpcControlClient(aio.InferenceServerClient):  # type: ignore[misc]  # has no types
        """The library's client, with our headers."""

        def _get_metadata(self, headers: None) -> tuple[tuple[str, str], ...]:
            del headers  # never given here
            return tuple(metadata.items())

    options: list[tuple[str, str | int]] = list(_CHANNEL_OPTIONS)
    if tls is None:
        return GrpcControlClient(address, channel_args=options)
    # The library then uses this name in `:authority`, too.
    options.append(("grpc.ssl_target_name_override", tls.server_name))
    files = tls.files
    return GrpcControlClient(
        address,
        ssl=True,
        root_certificates=files.authority,
        certificate_chain=files.certificate,
        private_key=files.key or files.certificate,
        channel_args=options,
    )


def _http_client(
    address: str, tls: ClientTls | None, headers: Headers, timeout_seconds: float
) -> Any:
    from tritonclient.http import (  # type: ignore[import-untyped]  # noqa: PLC0415 - see above; it has no types
        aio,
    )
    from yarl import URL  # noqa: PLC0415 - see above

    class HttpControlClient(aio.InferenceServerClient):  # type: ignore[misc]  # has no types
        """The library's client, but it follows no redirect and leaves the path as it is."""

        async def _get(
            self, request_uri: str, headers: None, query_params: None
        ) -> "aiohttp.ClientResponse":
            del headers, query_params  # never given here
            response: aiohttp.ClientResponse = await self._stub.get(
                # Measured requests use the path as it was written, too.
                URL(f"{self._url}/{request_uri}", encoded=True),
                allow_redirects=False,
                headers=own,
                server_hostname=None if tls is None else tls.server_name,
            )
            if 300 <= response.status < 400:
                response.release()
                where = redact(response.headers.get("Location", ""))[:_LOCATION_CHARACTERS]
                raise RedirectedError(
                    f"The server at {address} answered {response.status} to GET /{request_uri}, "
                    f"which leads to {where!r}. Redirects are never followed: name the address of "
                    f"the server itself."
                )
            return response

    own = dict(headers)
    context = None if tls is None else tls.context
    return HttpControlClient(
        address, conn_timeout=timeout_seconds, ssl=tls is not None, ssl_context=context
    )
