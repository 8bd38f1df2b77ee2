"""How are a few small requests answered beside a measurement?"""

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from inferometer_api.metrics.exposition import CONTENT_TYPE

_MOST_HEADER_BYTES = 4096
_LAST_ANSWERS_SECONDS = 0.1
"""How long answers under way may take once there is nothing more to tell; 0 would be for ever."""
_SILENT = logging.getLogger(__name__)
"""Whoever sends what is no request is answered so, and must not fill the log with tracebacks."""
_SILENT.disabled = True

Answer = Callable[[web.BaseRequest], web.StreamResponse]


class HttpEndpoint:
    """Answers HTTP requests.

    It shares the loop with the measurement: `answer` takes a fraction of a millisecond.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._protocols: web.Server | None = None

    async def listen(self, host: str | None, port: int) -> int:
        """Listen at an address (None: at every one), port 0 being any; return the port.

        Raises OSError.
        """
        self._protocols = web.Server(
            self._answered,
            access_log=None,
            logger=_SILENT,
            keepalive_timeout=15.0,
            lingering_time=0.0,
            max_line_size=_MOST_HEADER_BYTES,
            max_field_size=_MOST_HEADER_BYTES,
            max_headers=64,
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocols, host, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
        if self._protocols is not None:
            await self._protocols.shutdown(_LAST_ANSWERS_SECONDS)

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        return self._answer(request)


def metrics_response(text: bytes) -> web.Response:
    """Return the answer to GET /metrics."""
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


def text_response(status: int, text: str) -> web.Response:
    """Return an answer of one sentence."""
    # What was not read of a request must not be taken for the next one.
    response = web.Response(status=status, text=f"{text}\n")
    response.force_close()
    return response
