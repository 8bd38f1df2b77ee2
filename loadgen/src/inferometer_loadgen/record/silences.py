"""Times without a successful answer in a closed loop, of one process or of a whole fleet."""

from collections.abc import Iterator, Sequence

Silence = tuple[int, int]
"""Start and end, in nanoseconds of one monotonic clock."""

NOTABLE_NS = 500_000_000
"""All silences of this length are kept: those of a fleet are the intersection of its workers'."""


class Silences:
    """Times without a successful answer: all notable ones, or else the longest."""

    def __init__(self) -> None:
        self.found: list[Silence] = []
        """In order of time."""
        self.threshold_ns = 0
        """Shorter ones need not be added."""

    def add(self, begin_ns: int, end_ns: int) -> None:
        """Add one that came after all that were added."""
        length_ns = end_ns - begin_ns
        if length_ns <= self.threshold_ns:
            return
        if self.threshold_ns < NOTABLE_NS - 1:
            self.found.clear()
        self.found.append((begin_ns, end_ns))
        self.threshold_ns = min(length_ns, NOTABLE_NS - 1)


def longest_ns(silences: Sequence[Silence]) -> int:
    """Return the length of the longest, in nanoseconds; 0 if there is none."""
    return max((end_ns - begin_ns for begin_ns, end_ns in silences), default=0)


def common_silences(of_each: Sequence[Sequence[Silence]]) -> list[Silence]:
    """Return when all were silent; each list must be in order and without overlaps."""
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
