"""Decisions of the API server about callers, remembered for a minute."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sqlalchemy import or_, select, union

from inferometer_results.cluster.kubernetes_api import KubernetesApi
from inferometer_results.service.access.front_proxy import Identity
from inferometer_results.service.access.reviews import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    RunAccess,
    access_review,
    is_allowed,
    token_identity,
    token_review,
)
from inferometer_results.store.documents import RESULT_KIND
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT, RESULT
from inferometer_results.store.visibility import Readable

_GRANTED_SECONDS, _DENIED_SECONDS = 60.0, 5.0
"""A right that was taken away ends within a minute; one that was given counts at once, nearly."""
_NAMESPACES_SECONDS = 2.0
"""A namespace that was deleted and made anew belongs to others: its UID may not be an old one."""
_MOST_DECISIONS = 10_000
_REVIEWS_AT_A_TIME = 16

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class _Memory(Generic[Key, Value]):
    """Decisions until they expire, the oldest dropped first."""

    clock: Callable[[], float]
    _held: dict[Key, tuple[float, Value]] = field(default_factory=dict)

    def get(self, key: Key) -> Value | None:
        found = self._held.get(key)
        return found[1] if found is not None and self.clock() < found[0] else None

    def put(self, key: Key, value: Value, seconds: float) -> Value:
        self._held.pop(key, None)
        self._held[key] = (self.clock() + seconds, value)
        if len(self._held) > _MOST_DECISIONS:
            del self._held[next(iter(self._held))]
        return value


class ClusterAuthority:
    """Queries the API server: who a caller is, and what they may do."""

    def __init__(
        self, api: KubernetesApi, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take a store that is not limited: it knows the namespaces that have results."""
        self._api = api
        self._store = store
        self._rights: _Memory[tuple[Identity, RunAccess], bool] = _Memory(clock)
        self._bearers: _Memory[str, Identity] = _Memory(clock)
        self._namespaces: _Memory[str, dict[str, str]] = _Memory(clock)
        self._room = asyncio.Semaphore(_REVIEWS_AT_A_TIME)

    async def bearer(self, token: str) -> Identity | None:
        """Return the bearer of a token of our audience, None if it is none."""
        key = hashlib.sha256(token.encode()).hexdigest()
        known = self._bearers.get(key)
        if known is not None:
            return known
        found = token_identity(await self._api.post(TOKEN_REVIEWS, token_review(token)))
        return None if found is None else self._bearers.put(key, found, _GRANTED_SECONDS)

    async def may(self, identity: Identity, right: RunAccess) -> bool:
        """Return whether a caller has a right."""
        known = self._rights.get((identity, right))
        if known is not None:
            return known
        async with self._room:
            answer = await self._api.post(ACCESS_REVIEWS, access_review(identity, right))
        allowed = is_allowed(answer)
        seconds = _GRANTED_SECONDS if allowed else _DENIED_SECONDS
        return self._rights.put((identity, right), allowed, seconds)

    async def readable(self, identity: Identity) -> Readable:
        """Return the namespaces whose results a caller may read.

        Results of a namespace that is gone, or was made anew, need the right to all namespaces.
        """
        if await self.may(identity, RunAccess("get", "")):
            return None
        stored, existing = await asyncio.gather(
            asyncio.to_thread(self._stored_namespaces), self._existing_namespaces()
        )
        live = [(name, uid) for name, uid in stored if uid and existing.get(name) == uid]
        allowed = await asyncio.gather(
            *(self.may(identity, RunAccess("get", name)) for name, _ in live)
        )
        return frozenset(uid for (_, uid), may in zip(live, allowed, strict=True) if may)

    async def namespace_uid(self, name: str) -> str | None:
        """Return the UID of a namespace, None if it does not exist."""
        found = await self._api.get(f"/api/v1/namespaces/{name}")
        return None if found is None else str(found["metadata"]["uid"])

    async def _existing_namespaces(self) -> dict[str, str]:
        known = self._namespaces.get("")
        if known is not None:
            return known
        return self._namespaces.put("", await self._api.namespace_uids(), _NAMESPACES_SECONDS)

    def _stored_namespaces(self) -> Sequence[tuple[str, str]]:
        # A suite of which nothing was measured has an outcome, and no result; nodes have none.
        # Two ranges of an index: documents of other kinds are few.
        is_other = or_(DOCUMENT.c.kind < RESULT_KIND, DOCUMENT.c.kind > RESULT_KIND)
        query = union(
            select(RESULT.c.namespace, RESULT.c.namespace_uid),
            select(DOCUMENT.c.namespace, DOCUMENT.c.namespace_uid).where(is_other),
        )
        with self._store.engine.connect() as connection:
            rows = connection.execution_options(read_only=True).execute(query)
            return [(str(name), str(uid)) for name, uid in rows]
