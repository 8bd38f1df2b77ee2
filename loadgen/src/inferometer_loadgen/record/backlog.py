"""Growth of the number of unanswered queries over a window.

The number is sampled at even intervals, in memory that does not grow with the window.
"""

from dataclasses import dataclass
from statistics import median

MIN_INTERVAL_NS = 10_000_000
_MAX_SAMPLES = 128
_MIN_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Median number of unanswered queries in the first and the last quarter of a window."""

    early: int = 0
    late: int = 0


class Backlog:
    """Samples of the number of unanswered queries, due every `interval_ns`, which grows."""

    def __init__(self) -> None:
        self.interval_ns = MIN_INTERVAL_NS
        self._samples: list[int] = []

    def add(self, unanswered: int) -> None:
        """Add a sample: the number of unanswered queries now."""
        self._samples.append(unanswered)
        if len(self._samples) == _MAX_SAMPLES:
            self._samples = self._samples[1::2]
            self.interval_ns *= 2

    def medians(self) -> Unanswered:
        """Return the medians of the first and the last quarter; 0 with too few samples."""
        if len(self._samples) < _MIN_SAMPLES:
            return Unanswered()
        quarter = len(self._samples) // 4
        early, late = self._samples[:quarter], self._samples[-quarter:]
        return Unanswered(round(median(early)), round(median(late)))
