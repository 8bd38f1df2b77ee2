"""With which client of tritonclient is a server's control plane asked?

Each is imported only where its protocol is asked for: they take a tenth of a second, in which a pod
could have sent its first query.
"""

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import aiohttp

_MOST_MESSAGE_BYTES = 2**31 - 1
_LOCATION_CHARACTERS = 200
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", _MOST_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
    # A server that is just starting is asked again soon, not a second or more later.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
    # Requests that are measured pass no proxy either.
    ("grpc.enable_http_proxy", 0),
)


class RedirectedError(RuntimeError):
    """A server answered that something else should be asked; the message is a sentence."""


def control_client(protocol: Literal["HTTP", "GRPC"], address: str, timeout_seconds: float) -> Any:
    """Return a client for a server at host, port and path; it follows no redirect."""
    if protocol == "GRPC":
        return _grpc_client(address)
    return _http_client(address, timeout_seconds)


def _grpc_client(address: str) -> Any:
    from tritonclient.grpc import (  # type: ignore[import-untyped]  # noqa: PLC0415 - see above; it has no types
        aio,
    )

    return aio.InferenceServerClient(address, channel_args=list(_CHANNEL_OPTIONS))


def _http_client(address: str, timeout_seconds: float) -> Any:
    from tritonclient.http import (  # type: ignore[import-untyped]  # noqa: PLC0415 - see above; it has no types
        aio,
    )

    class Client(aio.InferenceServerClient):  # type: ignore[misc]  # has no types
        """Its own client, whose one way to ask would follow redirects."""

        async def _get(
            self, request_uri: str, headers: dict[str, str] | None, query_params: None
        ) -> "aiohttp.ClientResponse":
            del headers, query_params  # never given here
            url = f"{self._url}/{request_uri}"
            response: aiohttp.ClientResponse = await self._stub.get(url, allow_redirects=False)
            if 300 <= response.status < 400:
                response.release()
                where = response.headers.get("Location", "")[:_LOCATION_CHARACTERS]
                raise RedirectedError(
                    f"The server at {address} answered {response.status} to GET /{request_uri}, "
                    f"which leads to {where!r}. Redirects are never followed: name the address of "
                    f"the server itself."
                )
            return response

    return Client(address, conn_timeout=timeout_seconds)
