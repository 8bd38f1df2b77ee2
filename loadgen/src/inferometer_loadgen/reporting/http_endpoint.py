"""HTTP endpoint for a few small requests during a measurement."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from inferometer_api.metrics.exposition import CONTENT_TYPE

_MOST_HEADER_BYTES = 4096
_LAST_ANSWERS_SECONDS = 0.1
"""How long open requests may take on close; 0 would mean forever."""
_SILENT = logging.getLogger(__name__)
"""Malformed requests are answered as such and must not fill the log with tracebacks."""
_SILENT.disabled = True

Responder = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpEndpoint:
    """Answers HTTP requests.

    It shares the loop with the measurement: `respond` must take a fraction of a millisecond.
    """

    def __init__(self, respond: Responder) -> None:
        self._respond = respond
        self._server: asyncio.Server | None = None
        self._protocols: web.Server | None = None

    async def listen(self, host: str | None, port: int) -> int:
        """Listen and return the port. Host None is every address, port 0 any free port.

        Raises OSError.
        """
        self._protocols = web.Server(
            self._handle,
            access_log=None,
            logger=_SILENT,
            keepalive_timeout=15.0,
            lingering_time=0.0,
            max_line_size=_MOST_HEADER_BYTES,
            max_field_size=_MOST_HEADER_BYTES,
            max_headers=64,
            auto_decompress=False,  # it hides that a compressed body ended early
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocols, host, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.close()
        if self._protocols is not None:
            await self._protocols.shutdown(_LAST_ANSWERS_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._respond(request)


def metrics_response(text: bytes) -> web.Response:
    """Return the response to GET /metrics."""
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


def text_response(status: int, text: str) -> web.Response:
    """Return a response of one line."""
    # An unread request body must not be taken for the next request.
    response = web.Response(status=status, text=f"{text}\n")
    response.force_close()
    return response
