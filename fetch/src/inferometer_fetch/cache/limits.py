"""Limits of what one namespace, and all of them together, may hold at a time."""

import threading
from collections import Counter


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
