"""Does the number of unanswered queries grow over a window?

It is looked at in even intervals, in memory that does not grow with the window.
"""

from dataclasses import dataclass
from statistics import median

LEAST_INTERVAL_NS = 10_000_000
_MOST = 128
_LEAST = 16


@dataclass(frozen=True, slots=True)
class Unanswered:
    """How many queries were usually unanswered in the first quarter of a window, and the last."""

    early: int = 0
    late: int = 0


class Backlog:
    """The numbers seen so far; whoever looks does so every `interval_ns`, which grows."""

    def __init__(self) -> None:
        self.interval_ns = LEAST_INTERVAL_NS
        self._seen: list[int] = []

    def add(self, unanswered: int) -> None:
        """Note how many queries are unanswered now."""
        self._seen.append(unanswered)
        if len(self._seen) == _MOST:
            self._seen = self._seen[1::2]
            self.interval_ns *= 2

    def usual(self) -> Unanswered:
        """Return the medians of the first and the last quarter; 0 where too little was seen."""
        if len(self._seen) < _LEAST:
            return Unanswered()
        quarter = len(self._seen) // 4
        early, late = self._seen[:quarter], self._seen[-quarter:]
        return Unanswered(round(median(early)), round(median(late)))
