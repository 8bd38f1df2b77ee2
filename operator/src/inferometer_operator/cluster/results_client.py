"""HTTP client of the cluster's results service."""

import asyncio
import gzip
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import ValidationError

from inferometer_api.results.service_paths import (
    EXPLORER,
    ingest_path,
    node_ingest_path,
    reuse_path,
    suite_ingest_path,
)
from inferometer_api.suite.reuse import ReuseAnswer, ReuseRequest
from inferometer_operator.settings import ResultsServiceSettings

_TIMEOUT = aiohttp.ClientTimeout(total=30.0, sock_connect=5.0)
_QUIET_SECONDS = 10.0
"""After a failure no run tries: hundreds that wait would keep others from their turn."""
_AT_A_TIME = 1
"""A document takes some megabytes, and a service that returns meets all runs that waited for it."""
_LIMIT_BYTES = 64 << 10
_MOST_ANSWER_BYTES = 16 << 20
_PASSING = frozenset({408, 429})


class DeliveryError(Exception):
    """The service did not take a document; the message is a sentence."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused
        """Whether it answered that it will not take this document."""


@dataclass(slots=True)
class ResultsClient:
    """Delivers documents with the operator's token for the service."""

    session: aiohttp.ClientSession
    service: ResultsServiceSettings
    check_write: Callable[[], None] = lambda: None
    """Called before each delivery; it raises if this operator must not write."""
    clock: Callable[[], float] = time.monotonic
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_A_TIME))
    _quiet_until: float = 0.0
    _fault: str = ""
    """The last failure, until `_quiet_until`."""

    async def deliver(
        self, namespace: str, read: Callable[[], Awaitable[bytes | bytearray]]
    ) -> str:
        """Send a gzipped result of a namespace; return its ID. Raises DeliveryError.

        It is read when its turn comes, so that few documents are in memory.
        """
        return await self._deliver(ingest_path(namespace), read)

    async def deliver_outcome(self, namespace: str, outcome: bytes) -> str:
        """Send the outcome of a suite in JSON; return its ID. Raises DeliveryError."""
        return await self._deliver(suite_ingest_path(namespace), _compressed(outcome))

    async def deliver_characteristics(self, namespace: str, document: bytes) -> str:
        """Send what a node gives, in JSON; return its ID. Raises DeliveryError."""
        return await self._deliver(node_ingest_path(namespace), _compressed(document))

    async def find_reusable(self, namespace: str, request: ReuseRequest) -> ReuseAnswer:
        """Return the stored results that may stand for runs of a suite. Raises DeliveryError."""
        question = _compressed(request.model_dump_json(exclude_none=True).encode())
        text = await self._post(reuse_path(namespace), question, _MOST_ANSWER_BYTES)
        try:
            return ReuseAnswer.read_json(text)
        except ValidationError as error:
            message = f"The results service at {self.service.url} answers with something else."
            raise DeliveryError(message, refused=True) from error

    async def _deliver(self, path: str, read: Callable[[], Awaitable[bytes | bytearray]]) -> str:
        return _id(await self._post(path, read, _LIMIT_BYTES), self.service.url)

    async def _post(
        self, path: str, read: Callable[[], Awaitable[bytes | bytearray]], most_bytes: int
    ) -> bytes:
        """Send a document when its turn comes; return the answer."""
        async with self._room:
            if self.clock() < self._quiet_until:
                raise DeliveryError(self._fault, refused=False)
            try:
                return await self._send(path, await read(), most_bytes)
            except DeliveryError as error:
                if not error.refused:
                    self._quiet_until, self._fault = self.clock() + _QUIET_SECONDS, str(error)
                raise

    async def _send(self, path: str, gz: bytes | bytearray, most_bytes: int) -> bytes:
        self.check_write()
        url = f"{self.service.url.rstrip('/')}{EXPLORER}{path}"
        try:
            token = _read(self.service.token_file)
            tls = ssl.create_default_context(cafile=self.service.authority_file)
            async with self.session.post(
                url,
                data=gz,
                ssl=tls,
                allow_redirects=False,
                timeout=_TIMEOUT,
                headers={
                    "Authorization": f"Bearer {token}",
                    "Content-Type": "application/json",
                    "Content-Encoding": "gzip",
                },
            ) as answer:
                text = await _read_limited(answer.content, most_bytes)
                _check(answer.status, text, url)
                return text
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = (str(error) or type(error).__name__).rstrip(".")
            message = f"The results service at {self.service.url} does not answer: {reason}."
            raise DeliveryError(message, refused=False) from error


async def _read_limited(content: aiohttp.StreamReader, most_bytes: int) -> bytes:
    """Return a body, cut after so many bytes."""
    body = bytearray()
    async for piece in content.iter_any():
        body += piece
        if len(body) >= most_bytes:
            break
    return bytes(body[:most_bytes])


def _compressed(document: bytes) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        return gzip.compress(document)

    return read


def _read(token_file: str) -> str:
    return Path(token_file).read_text(encoding="utf-8").strip()


def _check(status: int, text: bytes, url: str) -> None:
    """Raise DeliveryError unless the service has done what was sent."""
    if status in {200, 201}:
        return
    words = str(_fields(text).get("error") or f"It answers with status {status}.")[:1000]
    refused = 400 <= status < 500 and status not in _PASSING
    what = "refuses the request" if refused else "cannot serve the request now"
    raise DeliveryError(f"The results service at {url} {what}: {words}", refused=refused)


def _id(text: bytes, url: str) -> str:
    found = _fields(text).get("id")
    if not isinstance(found, str):
        message = f"The results service at {url} cannot keep the result now: it names no ID."
        raise DeliveryError(message, refused=False)
    return found


def _fields(text: bytes) -> dict[str, Any]:
    try:
        content: Any = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
