"""Statistics of repeated figures, and their comparison with a goal.

Pure arithmetic: nothing is measured here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, assert_never


@dataclass(frozen=True, slots=True)
class Summary:
    """What repeats of one figure amount to."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Bound:
    """One way to reach a goal: a limit of the figure itself, or of its ratio to the peer's."""

    of: Literal["figure", "ratio"]
    sense: Literal["at most", "at least"]
    limit: float
    over: Literal["median", "every repeat"] = "median"
    """What must keep the limit: the median of the repeats, or each of them."""

    def holds(self, values: Sequence[float]) -> bool:
        """Return whether the repeats keep the limit, which itself is within."""
        match self.over:
            case "median":
                return self._keeps(summary(values).median)
            case "every repeat":
                return all(map(self._keeps, values))
            case _:
                assert_never(self.over)

    def _keeps(self, value: float) -> bool:
        match self.sense:
            case "at most":
                return value <= self.limit
            case "at least":
                return value >= self.limit
            case _:
                assert_never(self.sense)


Goal = tuple[Bound, ...]
"""Reached where any of its bounds holds; no goal where there is none."""


def summary(values: Sequence[float]) -> Summary:
    """Return the median of the repeats, the least and the most. Raises ValueError without any."""
    if not values:
        raise ValueError("There is no repeat to summarise: measure at least once.")
    return Summary(median(values), min(values), max(values))


def ratios(ours: Sequence[float], peers: Sequence[float]) -> list[float]:
    """Return each repeat's own ratio to the peer.

    Its two figures were taken one after the other, so that both were disturbed alike by what else
    the machine did. Raises ValueError if the repeats do not pair.
    """
    return [own / peer for own, peer in zip(ours, peers, strict=True)]


def is_reached(
    goal: Goal, figures: Sequence[float], each_ratio: Sequence[float] = ()
) -> bool | None:
    """Return whether any bound of a goal holds for what the repeats found.

    None: that is not known, since the peer was not run and no bound that needs none holds.
    """
    judged = [
        bound.holds(values) if values else None
        for bound in goal
        for values in [figures if bound.of == "figure" else each_ratio]
    ]
    if True in judged:
        return True
    return None if None in judged else False
