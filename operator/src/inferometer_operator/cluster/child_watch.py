"""Watches of the objects that the operator created.

One watch for each kind, with a label selector on the server, so that no other pods are streamed,
and for metadata alone. An event only says that it is worth to look; the worker reads the current
state.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import structlog

from inferometer_api.plan.cluster_objects import MANAGED_BY_LABEL, MANAGER
from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.connection import METADATA_ONLY, ApiConnection
from inferometer_operator.cluster.errors import ApiError, UnreachableError

WATCH_SECONDS: Final = 290
"""How long the server keeps a watch open; then it is opened again."""
SILENCE_SECONDS: Final = 90.0
"""A watch without data for longer is opened again, because it may be dead. The server sends a
bookmark every minute."""
_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

Metadata = dict[str, Any]
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ChildChange:
    """An object was created, changed or deleted, or existed when the watch began."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    metadata: Metadata


class ChildWatch:
    """A watch of all children of one kind that is opened again after each end."""

    def __init__(
        self,
        connection: ApiConnection,
        kind: str,
        namespace: str | None,
        *,
        changed: Callable[[ChildChange], None],
        on_event: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._kind = kind
        self._path = api_path(kind, namespace)
        self._changed = changed
        self._on_event = on_event
        self._version: str | None = None

    async def run(self) -> None:
        """Watch until cancelled; reopen after an error with a growing pause."""
        failures = 0
        while True:
            try:
                async for change in self._once():
                    self._changed(change)
                failures = 0
            except (ApiError, UnreachableError) as error:
                if isinstance(error, ApiError) and error.code == 410:
                    # Events were lost: the next watch starts with all objects.
                    self._version = None
                else:
                    _log.warning("watch_broken", kind=self._kind, error=str(error))
                pause = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
                failures += 1
                await asyncio.sleep(pause)

    async def _once(self) -> AsyncIterator[ChildChange]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": f"{MANAGED_BY_LABEL}={MANAGER}",
            "timeoutSeconds": str(WATCH_SECONDS),
            **({} if self._version is None else {"resourceVersion": self._version}),
        }
        async with self._connection.stream(
            self._path, query=query, accept=METADATA_ONLY, silence_seconds=SILENCE_SECONDS
        ) as stream:
            self._on_event()
            async for line in _lines(stream):
                self._on_event()
                event = json.loads(line)
                metadata = event["object"].get("metadata", {})
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(
                        int(status.get("code", 500)),
                        str(status.get("reason", "")),
                        str(status.get("message", "")),
                        what=f"watch {self._path}",
                    )
                self._version = metadata.get("resourceVersion", self._version)
                if event["type"] != "BOOKMARK":
                    yield ChildChange(event["type"], metadata)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length; aiohttp's own line reader has a limit."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
