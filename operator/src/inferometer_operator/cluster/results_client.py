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

from inferometer_api.results.service_paths import (
    EXPLORER,
    ingest_path,
    node_ingest_path,
    suite_ingest_path,
)
from inferometer_operator.settings import ResultsServiceSettings

_TIMEOUT = aiohttp.ClientTimeout(total=30.0, sock_connect=5.0)
_QUIET_SECONDS = 10.0
"""After a failure no run tries: hundreds that wait would keep others from their turn."""
_AT_A_TIME = 1
"""A document takes some megabytes, and a service that returns meets all runs that waited for it."""
_LIMIT_BYTES = 64 << 10
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

    async def _deliver(self, path: str, read: Callable[[], Awaitable[bytes | bytearray]]) -> str:
        async with self._room:
            if self.clock() < self._quiet_until:
                raise DeliveryError(self._fault, refused=False)
            try:
                return await self._send(path, await read())
            except DeliveryError as error:
                if not error.refused:
                    self._quiet_until, self._fault = self.clock() + _QUIET_SECONDS, str(error)
                raise

    async def _send(self, path: str, gz: bytes | bytearray) -> str:
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
                return _id(answer.status, await answer.content.read(_LIMIT_BYTES), url)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = (str(error) or type(error).__name__).rstrip(".")
            message = f"The results service at {self.service.url} does not answer: {reason}."
            raise DeliveryError(message, refused=False) from error


def _compressed(document: bytes) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        return gzip.compress(document)

    return read


def _read(token_file: str) -> str:
    return Path(token_file).read_text(encoding="utf-8").strip()


def _id(status: int, text: bytes, url: str) -> str:
    try:
        content: Any = json.loads(text)
    except ValueError:
        content = None
    fields = content if isinstance(content, dict) else {}
    if status in {200, 201} and isinstance(fields.get("id"), str):
        return str(fields["id"])
    words = str(fields.get("error") or f"It answers with status {status}.")[:1000]
    refused = 400 <= status < 500 and status not in _PASSING
    what = "refuses the result" if refused else "cannot keep the result now"
    raise DeliveryError(f"The results service at {url} {what}: {words}", refused=refused)
