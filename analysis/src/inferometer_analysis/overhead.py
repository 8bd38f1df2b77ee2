"""Overhead of each rung of a ladder: what a server, a pod, a Service add to one inference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from inferometer_api.statistics import half_width

FEWEST_ROUNDS = 3
CLOSES_WITHIN = 0.05
"""The sum of the steps may differ by this fraction of the direct difference from it."""

Pair = tuple[float, float]
"""Median latencies of two neighbouring rungs that were measured one after the other."""


@dataclass(frozen=True, slots=True)
class OverheadStep:
    """What a rung adds to the one below it, with its 95 % interval; in the unit of the pairs."""

    name: str
    added: float
    margin: float
    below: float
    """The latency of the rung below: the mean over the same rounds, so that both add up."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """All steps, and whether they explain the whole."""

    steps: tuple[OverheadStep, ...]
    direct: float
    """What the last rung adds to the first, measured against each other."""
    direct_margin: float
    whole: float
    """The latency of the last rung."""

    @property
    def gap(self) -> float:
        """What the steps leave unexplained; negative if they explain too much."""
        return self.direct - sum(each.added for each in self.steps)

    @property
    def gap_margin(self) -> float:
        """Half of the 95 % interval of the gap: all differences come from rounds of their own."""
        margins = [self.direct_margin, *(each.margin for each in self.steps)]
        return float(np.linalg.norm(margins))

    @property
    def unexplained(self) -> float:
        """The gap as a fraction of the overhead, which is the direct difference."""
        if not self.gap:
            return 0.0
        return abs(self.gap / self.direct) if self.direct else float("inf")

    @property
    def outcome(self) -> Literal["closes", "does not close", "undecided"]:
        """Whether the gap is small next to the overhead, by the whole 95 % interval of the gap."""
        limit = CLOSES_WITHIN * abs(self.direct)
        if abs(self.gap) + self.gap_margin <= limit:
            return "closes"
        return "undecided" if abs(self.gap) - self.gap_margin <= limit else "does not close"


def ladder(
    names: Sequence[str], neighbours: Sequence[Sequence[Pair]], ends: Sequence[Pair]
) -> Ladder:
    """Return the steps of the rungs `names`, from the lowest up.

    `neighbours` has the rounds of each rung with the one above it, `ends` those of the first with
    the last. Raises ValueError if there are too few rounds.
    """
    steps = []
    for name, rounds in zip(names[1:], neighbours, strict=True):
        added, margin = difference(rounds)
        below = float(np.mean([pair[0] for pair in rounds]))
        steps.append(OverheadStep(name, added, margin, below))
    direct, direct_margin = difference(ends)
    whole = float(np.mean([pair[1] for pair in ends]))
    return Ladder(tuple(steps), direct, direct_margin, whole)


def difference(rounds: Sequence[Pair]) -> tuple[float, float]:
    """Return the mean difference within rounds, and half of its 95 % interval (Student's t).

    Raises ValueError if there are fewer than FEWEST_ROUNDS.
    """
    if len(rounds) < FEWEST_ROUNDS:
        raise ValueError(f"An overhead needs at least {FEWEST_ROUNDS} rounds, not {len(rounds)}.")
    found = np.array([after - before for before, after in rounds])
    return float(found.mean()), half_width(float(found.std(ddof=1)), len(found))
