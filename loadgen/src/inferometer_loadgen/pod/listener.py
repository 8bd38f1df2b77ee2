"""Who may ask a load generator in a pod how far it is, and who may end it?"""

import asyncio
import hmac
import logging
from collections.abc import Callable

from aiohttp import web

from inferometer_api.handover import PROGRESS_BYTES, LoadReport, report_within

_MOST_BODY_BYTES = 4096
_MOST_HEADER_BYTES = 4096
_BEARER = "Bearer "
_LAST_ANSWERS_SECONDS = 0.1
"""How long answers under way may take once there is nothing more to tell; 0 would be for ever."""
_SILENT = logging.getLogger(__name__)
"""Whoever sends what is no request is answered so, and must not fill the log with tracebacks."""
_SILENT.disabled = True


class Listener:
    """Answers GET /progress with a LoadReport and POST /stop, to who knows the token, by ending.

    It shares the loop with the measurement: an answer takes a fraction of a millisecond.
    """

    def __init__(
        self, report: Callable[[], LoadReport], stop: Callable[[], None], stop_token: str
    ) -> None:
        self._report = report
        self._stop = stop
        self._stop_token = stop_token.encode()
        self._server: asyncio.Server | None = None
        self._protocols: web.Server | None = None

    async def listen(self, host: str | None, port: int) -> int:
        """Listen at an address (None: at every one), port 0 being any; return the port.

        Raises OSError.
        """
        self._protocols = web.Server(
            self._answer,
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

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        match (request.method, request.path):
            case ("GET", "/progress"):
                body = report_within(self._report(), PROGRESS_BYTES)
                return web.Response(body=body, content_type="application/json")
            case ("POST", "/stop"):
                return self._stopped(request)
            case _:
                return _sentence(404, "Only GET /progress and POST /stop are answered here.")

    def _stopped(self, request: web.BaseRequest) -> web.Response:
        if (request.content_length or 0) > _MOST_BODY_BYTES:
            return _sentence(413, f"A body of at most {_MOST_BODY_BYTES} bytes is taken.")
        given = request.headers.get("Authorization", "")
        token = given.removeprefix(_BEARER).encode("utf-8", "surrogateescape")
        known = hmac.compare_digest(token, self._stop_token)
        if not (known and self._stop_token and given.startswith(_BEARER)):
            return _sentence(403, "The token of this load generator's plan was not given.")
        self._stop()
        return _sentence(202, "The load generator ends, and hands over what it measured.")


def _sentence(status: int, text: str) -> web.Response:
    # What was not read of a request must not be taken for the next one.
    response = web.Response(status=status, text=f"{text}\n")
    response.force_close()
    return response
