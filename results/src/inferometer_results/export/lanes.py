"""Lanes of a timeline: things that overlap lie on different ones."""

from collections.abc import Sequence
from heapq import heappop, heappush


def fewest_lanes(extents: Sequence[tuple[int, int]]) -> list[int]:
    """Return a lane, from 0, for each begin and end, so that those of a lane do not overlap."""
    found = [0] * len(extents)
    ends: list[tuple[int, int]] = []
    free: list[int] = []
    count = 0
    for at in sorted(range(len(extents)), key=lambda at: extents[at]):
        begin, end = extents[at]
        while ends and ends[0][0] <= begin:
            heappush(free, heappop(ends)[1])
        if free:
            lane = heappop(free)
        else:
            lane, count = count, count + 1
        found[at] = lane
        heappush(ends, (end, lane))
    return found
