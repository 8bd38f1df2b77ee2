"""The batcher: selects the requests that a free instance computes next, and when.

Pure: time comes in as a number. A group of requests that may be joined is ready once it fills a
batch, or once its oldest request has waited for the longest delay. Of the groups that are ready the
one with the oldest request goes first, so that none starves; within a group all keep their order.
"""

from collections import deque
from collections.abc import Hashable
from itertools import count
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _Waiting(NamedTuple, Generic[T]):
    number: int
    item: T
    samples: int
    since_ns: int


class _Group(Generic[T]):
    """Requests that may be joined, in the order in which they came."""

    __slots__ = ("samples", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting[T]] = deque()
        self.samples = 0


class Batcher(Generic[T]):
    """Requests that wait for an instance.

    A batch has `max_samples` at most, and its oldest request waits for others for `max_delay_ns`
    at most. The wait for a free instance is not included.
    """

    def __init__(self, max_samples: int, max_delay_ns: int) -> None:
        self._max_samples = max_samples
        self._max_delay_ns = max_delay_ns
        self._groups: dict[Hashable, _Group[T]] = {}
        self._count = 0
        self._numbers = count()
        self.ready_ns = 0
        """When the batch that was taken last was whole, or due."""

    def __len__(self) -> int:
        return self._count

    def put(self, item: T, key: Hashable, samples: int, now_ns: int) -> bool:
        """Let a request wait; say whether that makes a batch ready, or the next one due, earlier.

        Requests are joined if their keys are equal; one of more than `max_samples` goes alone.
        """
        was_empty = not self._count
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        counted = max(samples, 1)  # else requests of nothing would be joined without end
        group.waiting.append(_Waiting(next(self._numbers), item, counted, now_ns))
        group.samples += counted
        self._count += 1
        return was_empty or self._is_full(group)

    def drop(self, item: T) -> bool:
        """Drop a request whose client has gone; return whether it was still waiting."""
        for key, group in self._groups.items():
            for waiting in group.waiting:
                if waiting.item is item:
                    group.waiting.remove(waiting)
                    self._remove(key, group, waiting)
                    return True
        return False

    def stop_delaying(self) -> None:
        """Stop delaying incomplete batches: no further request will come."""
        self._max_delay_ns = 0

    def take(self, now_ns: int) -> list[T]:
        """Return the batch to compute now; nothing if none is ready."""
        ready = [
            (group.waiting[0].number, key)
            for key, group in self._groups.items()
            if self._is_full(group) or group.waiting[0].since_ns + self._max_delay_ns <= now_ns
        ]
        return self._take_batch(min(ready, key=lambda each: each[0])[1]) if ready else []

    def due_ns(self) -> int | None:
        """Return from when on a batch is ready, which may be long ago; None if none waits."""
        due: int | None = None
        for group in self._groups.values():
            oldest_ns = group.waiting[0].since_ns
            ready_ns = oldest_ns if self._is_full(group) else oldest_ns + self._max_delay_ns
            due = ready_ns if due is None else min(due, ready_ns)
        return due

    def _take_batch(self, key: Hashable) -> list[T]:
        group = self._groups[key]
        batch: list[T] = []
        room = self._max_samples
        is_full, due_ns = self._is_full(group), group.waiting[0].since_ns + self._max_delay_ns
        while group.waiting and (not batch or group.waiting[0].samples <= room):
            first = group.waiting.popleft()
            room -= first.samples
            batch.append(first.item)
            self._remove(key, group, first)
            self.ready_ns = min(first.since_ns, due_ns) if is_full else due_ns
        return batch

    def _remove(self, key: Hashable, group: _Group[T], waiting: _Waiting[T]) -> None:
        group.samples -= waiting.samples
        self._count -= 1
        if not group.waiting:
            del self._groups[key]

    def _is_full(self, group: _Group[T]) -> bool:
        return group.samples >= self._max_samples
