"""A queue of keys to work on, each at its time.

It keeps the promises of controller-runtime's work queue: a key is never handed out twice at once,
what is added meanwhile is handed out afterwards, and however often a key is added, it is worked on
once, at the earliest of the times.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush

_MAX_VOID = 64
"""Entries of the heap that are kept although their key is due at another time."""


class WorkQueue:
    """Keys and the times at which they are due; among those due, the urgent ones go first."""

    def __init__(
        self,
        is_urgent: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_urgent = is_urgent
        self._clock = clock
        self._times: dict[str, float] = {}
        """When each key is due that waits, also of those in work."""
        self._later: list[tuple[float, str]] = []
        """A heap by time; an entry whose time is not the key's in `_times` is void."""
        self._urgent: dict[str, None] = {}
        self._others: dict[str, None] = {}
        """Keys that are due, in order; both are ordered sets."""
        self._in_work: set[str] = set()
        self._added = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._times)

    def add(self, key: str, after_seconds: float = 0.0) -> None:
        """Hand a key out after so many seconds, or earlier if it is due earlier already."""
        at = self._clock() + after_seconds
        if at < self._times.get(key, float("inf")):
            self._times[key] = at
            if key not in self._in_work:
                self._schedule(key, at)

    def discard(self, key: str) -> None:
        """Do not hand out a key, unless it is added again."""
        self._times.pop(key, None)
        self._urgent.pop(key, None)
        self._others.pop(key, None)

    def take(self) -> str | None:
        """Hand out a key that is due, None if there is none; `done` must follow."""
        while self._later and self._later[0][0] <= self._clock():
            at, key = heappop(self._later)
            if self._times.get(key) == at and key not in self._in_work:
                (self._urgent if self._is_urgent(key) else self._others)[key] = None
        for due in (self._urgent, self._others):
            if due:
                key = next(iter(due))
                self.discard(key)
                self._in_work.add(key)
                return key
        return None

    async def get(self) -> str:
        """Hand out a key as soon as one is due; `done` must follow."""
        while (key := self.take()) is None:
            self._added.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._next_seconds()):
                    await self._added.wait()
        return key

    def done(self, key: str) -> None:
        """End the work on a key; it is handed out again if it was added meanwhile."""
        self._in_work.discard(key)
        if key in self._times:
            self._schedule(key, self._times[key])

    def _schedule(self, key: str, at: float) -> None:
        if key in self._urgent or key in self._others:
            return
        heappush(self._later, (at, key))
        if len(self._later) > 2 * len(self._times) + _MAX_VOID:
            self._later = [each for each in self._later if self._times.get(each[1]) == each[0]]
            heapify(self._later)
        self._added.set()

    def _next_seconds(self) -> float | None:
        while self._later and self._times.get(self._later[0][1]) != self._later[0][0]:
            heappop(self._later)
        return max(0.0, self._later[0][0] - self._clock()) if self._later else None
