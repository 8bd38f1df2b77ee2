"""Judgements of simulated series: thousands of A/B comparisons whose truth is known."""

from collections.abc import Sequence

import numpy as np

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    GROUPED_FALSE_ALARMS,
    GROUPED_STANDARD_ERRORS,
    PAIRED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    judge_pairs,
    part_of_look,
)
from support.noise_models import Noise

SERIES = 1000
LOOKS = (12, 24)
GROUPED = MarginRule(
    DEFAULT_MARGIN, GROUPED_FALSE_ALARMS, least_standard_errors=GROUPED_STANDARD_ERRORS
)


def paired_rule(look: int) -> MarginRule:
    """Return the rule of `ab` at its n-th look at a series."""
    return MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS, part=part_of_look(look))


def judged_pairs(
    noise: Noise, change: float, seed: int = 20261124, looks: Sequence[int] = LOOKS[:1]
) -> list[Judgement]:
    """Judge 1,000 interleaved series whose second variant is slower by a fraction.

    Each is judged after the first number of rounds; while it is inconclusive, after the next one.
    """
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(SERIES):
        runs = noise(chance, 2 * max(looks))
        # A B, B A, A B, ...
        first = [2 * each + each % 2 for each in range(max(looks))]
        second = [2 * each + 1 - each % 2 for each in range(max(looks))]
        before, after = list(np.exp(runs[first])), list(np.exp(runs[second]) * (1 + change))
        for look, rounds in enumerate(looks, 1):
            pairs = (before[:rounds], after[:rounds])
            judged = judge_pairs(*pairs, paired_rule(look), more_is_better=False)
            if judged.outcome != "inconclusive":
                break
        found.append(judged)
    return found


def count(found: list[Judgement], *outcomes: str) -> int:
    """Return how many have one of these outcomes."""
    return sum(each.outcome in outcomes for each in found)
