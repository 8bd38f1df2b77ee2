"""Control plane over HTTP: GET requests that follow no redirect and change no path."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from inferometer_loadgen.server.control_calls import (
    AnswerError,
    AnswerKind,
    NotJsonError,
    RedirectedError,
    UnintelligibleError,
    UnreachableError,
    UnreadableBodyError,
    answer_clause,
    first_line,
)
from inferometer_loadgen.server.headers import Headers
from inferometer_loadgen.server.port_probe import WANTS_TLS
from inferometer_loadgen.wire.content_coding import UndecodableError, decode_body
from inferometer_loadgen.wire.contract import connection_error_text, redact
from inferometer_loadgen.wire.tls import ClientTls

_LOCATION_CHARACTERS = 200
_MOST_BODY_BYTES = 64 * 1024 * 1024
"""The profile of a graph of 100,000 nodes takes half of it."""
_NO_SUCH_PATH = frozenset({404, 405, 410, 501})
_DENIED = frozenset({401, 403, 407})
_TLS_STATUSES = frozenset({400, 426, 497})
_PASSING = frozenset({408, 425, 429, 502, 503, 504})


class HttpControlClient:
    """Control plane of one server over HTTP; see ControlClient.

    `address` is host, port and path. Raises RedirectedError if the server redirects.
    """

    def __init__(
        self,
        address: str,
        model_name: str,
        model_version: str,
        *,
        tls: ClientTls | None,
        headers: Headers,
    ) -> None:
        self._address = address
        self._tls = tls
        self._model = f"v2/models/{quote(model_name, safe='')}"
        if model_version:
            self._model += f"/versions/{quote(model_version, safe='')}"
        # Every coding costs both sides time, and a proxy that cannot do without is still read.
        self._headers = {"Accept-Encoding": "identity", **dict(headers)}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=True if tls is None else tls.context),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )

    async def server_ready(self) -> None:
        """Return once the server answers that it is ready."""
        await self._get("v2/health/ready")

    async def model_ready(self) -> None:
        """Return once the server answers that the model is ready."""
        await self._get(f"{self._model}/ready")

    async def server_metadata(self) -> Any:
        """Return the server's metadata as JSON values."""
        return await self._document("v2")

    async def model_metadata(self) -> Any:
        """Return the model's metadata as JSON values."""
        return await self._document(self._model)

    async def model_config(self) -> Any:
        """Return the model's configuration as JSON values."""
        return await self._document(f"{self._model}/config")

    async def model_statistics(self) -> Any:
        """Return the model's statistics as JSON values."""
        return await self._document(f"{self._model}/stats")

    async def model_measurement(self, what: str, request: Mapping[str, Any]) -> Any:
        """Return a profile, or timings of layers, as JSON values; takes as long as its runs."""
        return await self._document(f"{self._model}/{what}", request)

    async def trace_settings(self, change: Mapping[str, Any] | None = None) -> Any:
        """Return the model's settings of Triton's trace extension, after a change of them."""
        return await self._document(f"{self._model}/trace/setting", change)

    async def take_spans(self) -> bytes:
        """Return spans of traced requests as OTLP in JSON, which the server then forgets."""
        return await self._body("POST", "v2/spans", {})

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _document(self, path: str, request: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a GET, or to a POST of `request`."""
        method = "GET" if request is None else "POST"
        body = await self._body(method, path, request)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            words = first_line(body.decode("utf-8", "replace"))
            raise NotJsonError(
                f"it answered 200 OK to {method} /{path}, but with no JSON"
                + (f": {words}" if words else "")
            ) from None

    async def _get(self, path: str) -> bytes:
        return await self._body("GET", path)

    async def _body(
        self, method: str, path: str, request: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the body of a good answer."""
        scheme, call = "http" if self._tls is None else "https", f"{method} /{path}"
        try:
            async with self._session.request(
                method,
                # Measured requests use the path as it was written, too.
                URL(f"{scheme}://{self._address}/{path}", encoded=True),
                json=request,
                allow_redirects=False,
                headers=self._headers,
                server_hostname=None if self._tls is None else self._tls.server_name,
            ) as response:
                body = await _read(response)
        except aiohttp.ClientConnectorError as error:
            why = connection_error_text(error.os_error)
            raise UnreachableError(f"there is no connection to it ({why})") from error
        except aiohttp.ClientError as error:
            raise UnintelligibleError("it gave no answer in HTTP") from error
        except UndecodableError as error:
            if response.status == HTTPStatus.OK:
                why = str(error).rstrip(".")
                raise UnreadableBodyError(
                    f"it answered 200 OK to {call}, but {why[0].lower()}{why[1:]}"
                ) from error
            body = b""  # the status says enough
        if response.status == HTTPStatus.OK:
            return body
        raise self._error(response, call, body)

    def _error(self, response: aiohttp.ClientResponse, call: str, body: bytes) -> Exception:
        """Return the error of an answer that is not 200."""
        status = response.status
        if 300 <= status < 400:
            where = redact(response.headers.get("Location", ""))[:_LOCATION_CHARACTERS]
            return RedirectedError(
                f"The server at {self._address} answered {status} to {call}, which leads to "
                f"{where!r}. Redirects are never followed: name the address of the server itself."
            )
        words = _words(body)
        named = f"{status} {response.reason or ''}".strip()
        kind = _kind(status, body, self._tls)
        return AnswerError(kind, answer_clause(named, call, words))


def _kind(status: int, body: bytes, tls: ClientTls | None) -> AnswerKind:
    if status in _NO_SUCH_PATH:
        return AnswerKind.ABSENT
    if status in _DENIED:
        return AnswerKind.DENIED
    if status in _TLS_STATUSES and tls is None and WANTS_TLS.search(body):
        return AnswerKind.WANTS_TLS
    if status == HTTPStatus.BAD_REQUEST:
        return AnswerKind.BAD_REQUEST
    return AnswerKind.NOT_READY if status in _PASSING else AnswerKind.REJECTED


def _words(body: bytes) -> str:
    """Return the message of an error's body: the protocol's own field, or else the text."""
    text = body.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = document
    if isinstance(document, dict):
        keys = ("error", "detail", "message")
        found = next((document[key] for key in keys if key in document), text)
    return found if isinstance(found, str) else text


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the decoded body; raises UndecodableError if it is too long or badly coded."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(65_536):
        parts.append(part)
        size += len(part)
        if size > _MOST_BODY_BYTES:
            raise UndecodableError(f"The answer is longer than {_MOST_BODY_BYTES} bytes.")
    codings = response.headers.getall("Content-Encoding", [])
    names = [name.strip().lower() for each in codings for name in each.split(",")]
    return decode_body(
        b"".join(parts), [name.encode("latin-1", "replace") for name in names], _MOST_BODY_BYTES
    )
