"""Which entries of a series that goes on for long are kept?"""

from typing import Generic, TypeVar

MOST_ENTRIES = 600

T = TypeVar("T")


class Thinned(Generic[T]):
    """Entries at even intervals, at most so many: then every other goes and half as many come."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self.entries: list[T] = []
        self._most = most
        self._every = 1
        self._calls = 0

    def is_due(self) -> bool:
        """Say whether an entry is to be taken now; called at even intervals."""
        self._calls += 1
        return self._calls % self._every == 0

    def add(self, entry: T) -> None:
        """Take an entry that was due."""
        self.entries.append(entry)
        if len(self.entries) > self._most:
            self.entries = self.entries[1::2]
            self._every *= 2
