"""Replays series as their runs arrive: which changes are found, and which alerts are raised."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    PAIRED_FALSE_ALARMS,
    MarginRule,
    judge_pairs,
)
from inferometer_results.history.change_points import MOST_AFTER, MOST_BEFORE, find_change_points
from support.noise_models import Noise

_ROUNDS = 12
_CONFIRMATIONS = 50
"""Each candidate is confirmed so often, and counts by the share that raised an alert."""
_RULE = MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS)


def share_found(noise: Noise, change: float, series: int, seed: int = 20261124) -> float:
    """Return the share of series in which a candidate is seen within ten runs of a step."""
    chance = np.random.default_rng(seed)
    found = 0
    for _ in range(series):
        logs = noise(chance, MOST_BEFORE + MOST_AFTER)
        logs[MOST_BEFORE:] += math.log1p(change)
        changes = find_change_points(list(np.exp(logs))).changes
        found += any(each.seen_at >= MOST_BEFORE for each in changes)
    return found / series


@dataclass(frozen=True, slots=True)
class EqualRuns:
    """What a suite of equal runs raises."""

    judgements: int
    """Executions of the suite: a new run of each of its series."""
    candidates: int
    alerts: float
    """The candidates that interleaved rounds of equal variants confirm, each by its probability."""

    @property
    def alerts_in_1000(self) -> float:
        """The alerts in 1,000 executions of the suite."""
        return 1000 * self.alerts / self.judgements


def replay_equal_runs(
    suite: Sequence[Noise], *, judgements: int, seed: int = 20261124
) -> EqualRuns:
    """Execute a suite of equal runs so often, with one series for each noise."""
    chance = np.random.default_rng(seed)
    candidates, alerts = 0, 0.0
    for noise in suite:
        values = list(np.exp(noise(chance, MOST_BEFORE + judgements)))
        for each in find_change_points(values).changes:
            if each.seen_at >= MOST_BEFORE:
                candidates += 1
                alerts += _confirmed(noise, chance, is_slower=each.ratio > 1)
    return EqualRuns(judgements, candidates, alerts)


def _confirmed(noise: Noise, chance: np.random.Generator, *, is_slower: bool) -> float:
    """Return the share of confirmations by interleaved equal runs that agree with a candidate."""
    wanted = "worse" if is_slower else "better"
    agreed = 0
    for _ in range(_CONFIRMATIONS):
        runs = np.exp(noise(chance, 2 * _ROUNDS))
        first = [2 * each + each % 2 for each in range(_ROUNDS)]
        second = [2 * each + 1 - each % 2 for each in range(_ROUNDS)]
        judged = judge_pairs(list(runs[first]), list(runs[second]), _RULE, more_is_better=False)
        agreed += judged.outcome == wanted
    return agreed / _CONFIRMATIONS
