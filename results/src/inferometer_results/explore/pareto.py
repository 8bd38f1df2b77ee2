"""The Pareto front of latency against throughput."""

from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that no other one beats, by rising throughput.

    A point is (throughput, latency). Another one beats it if it is at least as good in both and
    better in one: more throughput, less latency. Of equal points the first stands for all.
    """
    order = sorted(range(len(points)), key=lambda index: (-points[index][0], points[index][1]))
    front: list[int] = []
    least = float("inf")
    for index in order:
        if points[index][1] < least:
            least = points[index][1]
            front.append(index)
    return front[::-1]
