"""Watches of the objects that the operator created.

One list and one watch for each kind, with a label selector on the server, so that no other pods are
streamed. They feed the store from which a run's children are read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import aiohttp
import structlog

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, MANAGED_BY_LABEL, MANAGER, RESULT
from inferometer_operator.cluster.api_paths import api_path
from inferometer_operator.cluster.child_store import ChildStore, run_uid
from inferometer_operator.cluster.connection import (
    JSON,
    METADATA_LIST,
    METADATA_ONLY,
    ApiConnection,
)
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError, api_error
from inferometer_operator.reconcile.children import METADATA_KINDS, OPTIONAL_KINDS
from inferometer_operator.reconcile.observed import Json

WATCH_SECONDS: Final = 290
"""How long the server keeps a watch open; then it is opened again."""
SILENCE_SECONDS: Final = 90.0
"""A watch without data for longer is opened again, because it may be dead. The server sends a
bookmark every minute."""
PAGE: Final = 100
"""Objects in one answer of a list: reading them takes milliseconds, and the Lease must be renewed
meanwhile."""
_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
_UNSERVED = 2
"""Answers in a row that an optional kind is not served, before it counts as absent: an API server
that starts may not serve it yet."""
_MANAGED = f"{MANAGED_BY_LABEL}={MANAGER}"

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ChildChange:
    """An object was created, changed or deleted, or existed when the watch began."""

    type: ChangeType
    kind: str
    run_uid: str


class ChildWatch:
    """A list and a watch of all children of one kind; it is opened again after each end.

    Of ConfigMaps only the metadata travels, and nothing of those with results, which stay for as
    long as their runs: they may have a megabyte each.
    """

    def __init__(
        self,
        connection: ApiConnection,
        kind: str,
        namespace: str | None,
        store: ChildStore,
        *,
        changed: Callable[[ChildChange], None],
        on_event: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._kind = kind
        self._path = api_path(kind, namespace)
        self._store = store
        self._changed = changed
        self._on_event = on_event
        self._version: str | None = None
        slim = kind in METADATA_KINDS
        self._accept = (METADATA_LIST, METADATA_ONLY) if slim else (JSON, JSON)
        self._selector = f"{_MANAGED},{COMPONENT_LABEL}!={RESULT}" if slim else _MANAGED
        self.listed = asyncio.Event()
        """Set once the store holds all that there is."""

    async def run(self) -> None:
        """Watch until cancelled; reopen after an error with a growing pause."""
        failures = 0
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                    self._store.unserved.discard(self._kind)
                    self._store.forbidden.pop(self._kind, None)
                    self.listed.set()
                async for kind, found in self._events():
                    self._hear(kind, found)
                    failures = 0
                failures = 0
            except (ApiError, ApiUnreachableError) as error:
                retry_after = 0.0
                if isinstance(error, ApiError) and error.code == 410:
                    # Events were lost: all objects are listed again.
                    self._version = None
                elif self._is_optional(error, 404):
                    self._version = None
                    self._note_unserved(failures)
                elif self._is_optional(error, 403):
                    self._version = None
                    self._note_forbidden(str(error))
                else:
                    _log.warning("watch_broken", kind=self._kind, error=str(error))
                    retry_after = getattr(error, "retry_after_seconds", None) or 0.0
                pause = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
                failures += 1
                await asyncio.sleep(max(pause, retry_after))

    def _is_optional(self, error: Exception, code: int) -> bool:
        return self._kind in OPTIONAL_KINDS and isinstance(error, ApiError) and error.code == code

    def _note_forbidden(self, refusal: str) -> None:
        """Take in that the operator may not see the kind: the others must not wait for it."""
        self._on_event()
        if self._kind not in self._store.forbidden:
            _log.warning("kind_not_readable", kind=self._kind, error=refusal)
        self._store.forbidden[self._kind] = refusal
        self.listed.set()

    def _note_unserved(self, failures: int) -> None:
        """Take in that the API server does not know the kind: none of it can exist."""
        self._on_event()
        if failures + 1 < _UNSERVED:
            return
        if self._kind not in self._store.unserved:
            self._store.unserved.add(self._kind)
            _log.warning("kind_not_served", kind=self._kind)
        for gone in self._store.retain(self._kind, ()):
            self._changed(ChildChange("DELETED", self._kind, run_uid(gone)))
        self.listed.set()

    async def _list(self) -> str:
        """Put all that there is into the store, page by page; return the list's version.

        The list is consistent: a new leader must not decide by what its API server held before the
        last leader's writes.
        """
        uids: set[str] = set()
        query = {"labelSelector": self._selector, "limit": str(PAGE)}
        while True:
            answer = await self._connection.request(
                "GET", self._path, query=query, accept=self._accept[0]
            )
            self._on_event()
            for found in answer["items"] or ():  # null in an empty list of metadata
                uids.add(found["metadata"].get("uid", ""))
                self._hear("ADDED", found)
            going_on = answer["metadata"].get("continue")
            if not going_on:
                break
            query["continue"] = going_on
        version = str(answer["metadata"]["resourceVersion"])
        for gone in self._store.retain(self._kind, uids, version):
            self._changed(ChildChange("DELETED", self._kind, run_uid(gone)))
        return version

    def _hear(self, kind: ChangeType, found: Json) -> None:
        if kind == "DELETED":
            # The object that comes with it has the version of the deletion.
            news = self._store.remove(
                self._kind, found, int(found["metadata"].get("resourceVersion") or 0)
            )
        else:
            news = self._store.put(self._kind, found)
        if news:
            self._changed(ChildChange(kind, self._kind, run_uid(found)))

    async def _events(self) -> AsyncIterator[tuple[ChangeType, Json]]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": self._selector,
            "timeoutSeconds": str(WATCH_SECONDS),
            "resourceVersion": str(self._version),
        }
        async with self._connection.stream(
            self._path, query=query, accept=self._accept[1], silence_seconds=SILENCE_SECONDS
        ) as stream:
            self._on_event()
            async for line in _lines(stream):
                self._on_event()
                event: dict[str, Any] = json.loads(line)
                found = event["object"]
                if event["type"] == "ERROR":
                    code = int(found.get("code", 500))
                    raise api_error(code, found, {}, what=f"watch {self._path}")
                self._version = found["metadata"].get("resourceVersion", self._version)
                if event["type"] != "BOOKMARK":
                    yield event["type"], found


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length; aiohttp's own line reader has a limit."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
