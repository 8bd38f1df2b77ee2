"""When was no query of a closed loop answered well, and when by nobody of a fleet?"""

from collections.abc import Iterator, Sequence

Silence = tuple[int, int]
"""Its begin and its end, in nanoseconds of one monotonic clock."""

NOTABLE_NS = 500_000_000
"""So long ones are all kept: what is told of a fleet is what they have in common."""


class Silences:
    """The times without a good answer: all that are notable, else the longest."""

    def __init__(self) -> None:
        self.found: list[Silence] = []
        """In their order."""
        self.threshold_ns = 0
        """Only longer ones than this need be added."""

    def add(self, begin_ns: int, end_ns: int) -> None:
        """Take note of one that came after all that were added."""
        length_ns = end_ns - begin_ns
        if length_ns <= self.threshold_ns:
            return
        if self.threshold_ns < NOTABLE_NS - 1:
            self.found.clear()
        self.found.append((begin_ns, end_ns))
        self.threshold_ns = min(length_ns, NOTABLE_NS - 1)


def longest_ns(silences: Sequence[Silence]) -> int:
    """Return how long the longest of them is; 0 of none."""
    return max((end_ns - begin_ns for begin_ns, end_ns in silences), default=0)


def common_silences(of_each: Sequence[Sequence[Silence]]) -> list[Silence]:
    """Return when all were silent. What each has must be in order and apart; of nobody: never."""
    if not of_each:
        return []
    first, *others = of_each
    found = list(first)
    for other in others:
        found = list(_of_both(found, other))
    return found


def _of_both(first: Sequence[Silence], second: Sequence[Silence]) -> Iterator[Silence]:
    at, its = 0, 0
    while at < len(first) and its < len(second):
        (begin_ns, end_ns), (its_begin_ns, its_end_ns) = first[at], second[its]
        if max(begin_ns, its_begin_ns) < min(end_ns, its_end_ns):
            yield max(begin_ns, its_begin_ns), min(end_ns, its_end_ns)
        if end_ns < its_end_ns:
            at += 1
        else:
            its += 1
