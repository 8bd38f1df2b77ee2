"""Limits of what one namespace, and all of them together, may hold or repeat."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from inferometer_fetch.cache.errors import RefusedContentError

REFUSED_SECONDS = 600.0
_MOST_REFUSALS = 1000
EVICTIONS_SECONDS = 3600.0


class NamespaceLimit:
    """Counts what is held, by namespace; safe for threads."""

    def __init__(self, at_once: int, of_a_namespace: int) -> None:
        self._at_once = at_once
        self._of_a_namespace = of_a_namespace
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    def take(self, namespace: str) -> bool:
        """Hold one more, unless a limit is reached; return whether it is held."""
        with self._lock:
            is_full = (
                self._held.total() >= self._at_once or self._held[namespace] >= self._of_a_namespace
            )
            self._held[namespace] += not is_full
            return not is_full

    def release(self, namespace: str) -> None:
        """Hold one less."""
        with self._lock:
            self._held[namespace] -= 1
            if not self._held[namespace]:
                del self._held[namespace]


class RefusedDownloads:
    """Downloads that were refused for their content: for a while, no call repeats them.

    The oldest ones go if they are many. Safe for threads.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._lock = threading.Lock()
        self._refused: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def note(self, source: str, error: RefusedContentError) -> None:
        """Remember why a download was refused."""
        with self._lock:
            self._refused[source] = (self._timer(), str(error))
            self._refused.move_to_end(source)
            while len(self._refused) > _MOST_REFUSALS:
                self._refused.popitem(last=False)

    def check(self, source: str) -> None:
        """Raise RefusedContentError if a download was refused less than REFUSED_SECONDS ago."""
        with self._lock:
            refused_at, reason = self._refused.get(source, (0.0, ""))
            left_seconds = refused_at + REFUSED_SECONDS - self._timer()
            if not reason or left_seconds <= 0:
                self._refused.pop(source, None)
                return
        raise RefusedContentError(
            f"{reason} The download was refused, and is not repeated for {left_seconds:.0f} s."
        )


@dataclass(frozen=True, slots=True)
class _Eviction:
    """What a download had evicted that is not an entry yet."""

    source: str
    namespace: str
    count_bytes: int
    evicted_at: float
    is_running: bool = True


class EvictionBudget:
    """Bounds what a namespace evicts by downloads that are no entries yet, or never become one.

    One download of a namespace may evict what it needs. Further ones may, while all of them
    together stay within a number of bytes. A failed one counts for EVICTIONS_SECONDS. Safe for
    threads.
    """

    def __init__(self, most_bytes: int, timer: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._timer = timer
        self._lock = threading.Lock()
        self._evicted: list[_Eviction] = []

    def take(self, source: str, namespace: str, count_bytes: int) -> bool:
        """Count evicted bytes of a download, unless that is too much; return whether they count."""
        with self._lock:
            now = self._timer()
            self._evicted = [
                each
                for each in self._evicted
                if each.is_running or 0 <= now - each.evicted_at < EVICTIONS_SECONDS
            ]
            of_namespace = [each for each in self._evicted if each.namespace == namespace]
            total_bytes = count_bytes + sum(each.count_bytes for each in of_namespace)
            has_others = any(each.source != source or not each.is_running for each in of_namespace)
            if has_others and total_bytes > self._most_bytes:
                return False
            self._evicted.append(_Eviction(source, namespace, count_bytes, now))
            return True

    def end(self, source: str, *, is_entry: bool) -> None:
        """End a download: what it evicted no longer counts if it became an entry."""
        with self._lock:
            self._evicted = [
                replace(each, is_running=False) if each.source == source else each
                for each in self._evicted
                if each.source != source or not is_entry
            ]
