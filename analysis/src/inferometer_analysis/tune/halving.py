"""Successive halving: short runs of every candidate, then longer ones of the better third.

After K. Jamieson and A. Talwalkar, Non-stochastic best arm identification, AISTATS 2016: every rung
spends about the same time, so that fewer candidates are measured longer.

Other work on the machine makes candidates equal: with one of two CPUs taken, two instances are no
faster than one. The rate of a disturbed measurement is therefore only a lower bound, and candidates
without an undisturbed one are measured again after the others of their rung.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

FINALISTS = 3
"""Candidates that are measured in full at the end."""
_DIVISOR = 3
"""Of the candidates of a rung, one in so many reaches the next."""
_LEAST_SECONDS = 1.0
_UNBOUND_SECONDS = 3.0
"""The same if the finalists alone take more than the share of the time."""
_INTERLEAVED_SECONDS = 6.0
"""From this length on a measurement is divided into two, with all others between them."""
_MOST_REPEATS = 2
"""How often a rung returns to candidates whose measurements were all disturbed."""


@dataclass(frozen=True, slots=True)
class Rung:
    """How many candidates are measured, and how long each."""

    count: int
    seconds: float
    rounds: int = 1
    """How often each candidate is visited, for a part of the seconds."""


def plan_rungs(
    count: int, *, full_seconds: float, start_seconds: float, share: float = 0.2
) -> tuple[Rung, ...]:
    """Return the rungs for `count` candidates.

    All of them and the full measurement of the finalists take at most the `share` of the time in
    which every candidate could be measured in full: `full_seconds`, and `start_seconds` for each
    start of a server. Few candidates may take more: each is measured for a second at least, and for
    three if the finalists alone take more than that.
    """
    counts = []
    left = count
    while left > FINALISTS:
        counts.append(left)
        left = -(-left // _DIVISOR)
    if not counts:
        return ()
    whole = start_seconds + full_seconds
    budget = share * count * whole - FINALISTS * whole
    rungs = _of_equal_time(counts, [1] * len(counts), budget, start_seconds, full_seconds)
    # Longer runs are divided, which needs further starts, which take time from all.
    rounds = [2 if each.seconds >= _INTERLEAVED_SECONDS else 1 for each in rungs]
    return _of_equal_time(counts, rounds, budget, start_seconds, full_seconds)


def _of_equal_time(
    counts: Sequence[int],
    rounds: Sequence[int],
    budget: float,
    start_seconds: float,
    full_seconds: float,
) -> tuple[Rung, ...]:
    visits = zip(counts, rounds, strict=True)
    starts = start_seconds * sum(count * each for count, each in visits)
    seconds = (budget - starts) / len(counts)
    least = _LEAST_SECONDS if budget > 0 else _UNBOUND_SECONDS
    return tuple(
        Rung(count, min(full_seconds, max(least, seconds / count)), each)
        for count, each in zip(counts, rounds, strict=True)
    )


def seconds_of(rungs: Sequence[Rung], start_seconds: float) -> float:
    """Return how long the rungs take."""
    return sum(each.count * (each.rounds * start_seconds + each.seconds) for each in rungs)


@dataclass(frozen=True, slots=True)
class _Observation:
    """One measurement of a candidate."""

    rate: float
    seconds: float
    is_disturbed: bool


@dataclass(slots=True)
class Halving:
    """The state of one search; it chooses what to measure next."""

    count: int
    rungs: Sequence[Rung]
    seed: int = 0
    _observations: dict[int, list[_Observation]] = field(default_factory=dict)
    _excluded: set[int] = field(default_factory=set)
    _rung: int = 0
    _round: int = 0
    _chosen: list[int] = field(default_factory=list)
    _undisturbed: set[int] = field(default_factory=set)
    """Those of the rung that have an undisturbed measurement in it."""

    def next_round(self) -> tuple[list[int], float]:
        """Return which candidates to measure in this order, and how long each; none at the end."""
        while self._rung < len(self.rungs):
            rung = self.rungs[self._rung]
            if not self._round:
                self._chosen = self.ranking()[: rung.count] if self._rung else self._allowed()
                self._undisturbed = set()
            chosen = [each for each in self._chosen if each not in self._excluded]
            if self._round >= rung.rounds:
                chosen = [each for each in chosen if each not in self._undisturbed]
            if chosen and self._round < rung.rounds + _MOST_REPEATS:
                self._round += 1
                # Another order in each round: what changes slowly affects all alike.
                order = np.random.default_rng([self.seed, self._rung, self._round])
                shuffled = [int(each) for each in order.permutation(chosen)]
                return shuffled, rung.seconds / rung.rounds
            self._rung, self._round = self._rung + 1, 0
        return [], 0.0

    @property
    def is_repeating(self) -> bool:
        """Whether the round returns to candidates whose measurements were all disturbed."""
        return self._rung < len(self.rungs) and self._round > self.rungs[self._rung].rounds

    def observe(
        self, candidate: int, rate: float, seconds: float, *, is_disturbed: bool = False
    ) -> None:
        """Take the rate of a candidate within the bound; 0 if it does not keep the bound.

        `is_disturbed`: other work took CPUs meanwhile, so that the candidate may be faster.
        """
        found = self._observations.setdefault(candidate, [])
        found.append(_Observation(rate, seconds, is_disturbed))
        if not is_disturbed:
            self._undisturbed.add(candidate)

    def exclude(self, candidate: int) -> None:
        """Take a candidate out: it cannot be measured, or computes something else."""
        self._excluded.add(candidate)

    def ranking(self) -> list[int]:
        """Return the candidates that were measured and not excluded, the best first."""
        rates = self.rates()
        return sorted(rates, key=lambda each: (-rates[each], each))

    def rates(self) -> Mapping[int, float]:
        """Return the rate of each candidate.

        It is the mean of the undisturbed measurements, weighted by their time. Without any, it is
        the highest of the disturbed ones.
        """
        return {
            each: _rate_of(measured)
            for each, observations in self._observations.items()
            if each not in self._excluded
            and (measured := [one for one in observations if one.seconds > 0])
        }

    def finalists(self) -> list[int]:
        """Return the best candidates that keep the bound at all; all, if few need no search."""
        if not self.rungs:
            return self._allowed()
        rates = self.rates()
        return [each for each in self.ranking() if rates[each] > 0][:FINALISTS]

    def _allowed(self) -> list[int]:
        return [each for each in range(self.count) if each not in self._excluded]


def _rate_of(observations: Sequence[_Observation]) -> float:
    undisturbed = [each for each in observations if not each.is_disturbed]
    if not undisturbed:
        return max(each.rate for each in observations)
    seconds = sum(each.seconds for each in undisturbed)
    return sum(each.rate * each.seconds for each in undisturbed) / seconds
