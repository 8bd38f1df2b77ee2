"""Series of bounded length: the longer it runs, the fewer of its entries are kept."""

from typing import Generic, TypeVar

MOST_ENTRIES = 600

T = TypeVar("T")


class BoundedSeries(Generic[T]):
    """Entries at even intervals; at the maximum every other is dropped and the interval doubles."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self.entries: list[T] = []
        self._most = most
        self._every = 1
        self._calls = 0

    def is_due(self) -> bool:
        """Return whether an entry is due now; called at even intervals."""
        self._calls += 1
        return self._calls % self._every == 0

    def add(self, entry: T) -> None:
        """Add an entry that was due."""
        self.entries.append(entry)
        if len(self.entries) > self._most:
            self.entries = self.entries[1::2]
            self._every *= 2
