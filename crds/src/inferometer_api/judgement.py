"""Judgement of a difference between two variants, by independent runs of each.

Figures are compared as ratios, so all statistics are of logarithms. A difference is reported only
if its interval excludes no change and its size exceeds the margin. Equality within the margin is
shown by two one-sided tests (Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987).

A series that grows can be judged at several looks. Each look spends its part of the probabilities
of error (Lan and DeMets, Biometrika 70, 1983), so the bounds of all looks hold together (repeated
confidence intervals: Jennison and Turnbull, J. Royal Statistical Society B 51, 1989).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, stdev, variance
from typing import Literal

from inferometer_api.statistics import student_quantile

Outcome = Literal["better", "worse", "equal", "inconclusive"]
"""What is shown: a change by more than the margin, none by more than it, or neither."""

FEWEST_RUNS = 3
"""With fewer runs of a variant, what differs from run to run is not known."""
DEFAULT_MARGIN = 0.03
PAIRED_FALSE_ALARMS = 0.001
"""The probability that interleaved pairs of equal variants show a difference."""
GROUPED_FALSE_ALARMS = 0.005
"""The same of runs that were not interleaved, if each is independent of the one before."""
GROUPED_STANDARD_ERRORS = 7.0
"""Such a difference counts beyond so many standard errors. Runs in a row resemble each other, so
their scatter says too little about other runs. Found by simulation of machines that drift: with 3
to 5 repeats at most 1 % of equal results differ."""
_EQUALITY_ERRORS = 0.05
_POWER = 0.8
_NORMAL = NormalDist()
_POINTS = 48
"""At which the distribution of a standard error is taken."""
_PRECISION = 1e-3
"""Of a detectable change, relative to it."""
_PLANNED_PARTS = (0.5, 0.4)
"""What the first two looks at a series spend. The rest is for rounds that are added later."""
_LARGEST_LOGARITHM = 700.0
"""Bounds of a few runs that scatter much may be beyond the largest float."""


@dataclass(frozen=True, slots=True)
class MarginRule:
    """When a difference counts."""

    margin: float
    """Changes up to this fraction do not matter."""
    false_alarms: float
    """The two-sided probability of a difference between equal variants, over all figures."""
    figures: int = 1
    """How many figures are judged together; each gets its part of the probability (Bonferroni)."""
    part: float = 1.0
    """The part of the probabilities of error that this look at the runs spends."""
    least_standard_errors: float = 0.0
    """A difference counts only beyond so many standard errors, whatever the probability."""

    @property
    def confidence(self) -> float:
        """Return the confidence of the interval of one figure."""
        return 1 - self.part * self.false_alarms / self.figures

    def standard_errors(self, freedom: int) -> float:
        """Return beyond how many standard errors a difference counts."""
        return max(student_quantile((1 + self.confidence) / 2, freedom), self.least_standard_errors)

    @property
    def equality_errors(self) -> float:
        """Return the probability of each of the one-sided tests for equality."""
        return self.part * _EQUALITY_ERRORS

    @property
    def equality_confidence(self) -> float:
        """Return the confidence of the two-sided bounds that those compare with the margin."""
        return 1 - 2 * self.equality_errors


def part_of_look(look: int) -> float:
    """Return the part of the probabilities of error that a look at a series spends.

    `look` counts from 1. The parts of any number of looks add up to less than 1. By Boole's
    inequality the probability that any of them errs is less than that of a single judgement,
    however the looks correlate and whatever the reason for the next one.
    """
    if look <= len(_PLANNED_PARTS):
        return _PLANNED_PARTS[look - 1]
    rest: float = 1 - sum(_PLANNED_PARTS)
    return rest * math.pow(2, len(_PLANNED_PARTS) - look)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The ratio of the second variant to the first, and what it shows."""

    outcome: Outcome
    ratio: float
    """The ratio of the geometric means."""
    low: float
    high: float
    """The bounds of the ratio that judge: of `equal` those at the rule's confidence for equality,
    which are within the margin; else those at its confidence."""
    confidence: float
    """That of the bounds."""
    is_no_worse: bool
    """Whether the second variant is shown to be worse by no more than the margin."""
    detectable: float
    """The smallest true change, as a fraction, that such runs show with a probability of 0.8, if
    their scatter is the median estimate of the true one. Few runs estimate it roughly."""


def judge_pairs(
    before: Sequence[float], after: Sequence[float], rule: MarginRule, *, more_is_better: bool
) -> Judgement:
    """Judge runs that were interleaved: each run of A has a neighbour of B.

    At least `FEWEST_RUNS` pairs of positive figures. Student's t of the logarithms of the pairs'
    ratios: what changes slowly on the machine affects both runs of a pair alike.
    """
    ratios = [math.log(b / a) for a, b in zip(before, after, strict=True)]
    error = stdev(ratios) / math.sqrt(len(ratios))
    return _judge(fmean(ratios), error, len(ratios) - 1, rule, more_is_better=more_is_better)


def judge_groups(
    before: Sequence[float], after: Sequence[float], rule: MarginRule, *, more_is_better: bool
) -> Judgement:
    """Judge the repeats of two results that were measured one after the other.

    At least `FEWEST_RUNS` positive figures of each. Welch's t of the logarithms, with its degrees
    of freedom rounded down (Welch, Biometrika 34, 1947).
    """
    groups = [[math.log(value) for value in group] for group in (before, after)]
    errors = [variance(group) / len(group) for group in groups]
    spread = sum(errors**2 / (len(group) - 1) for errors, group in zip(errors, groups, strict=True))
    freedom = max(1, math.floor(sum(errors) ** 2 / spread)) if spread else 1
    first, second = (fmean(group) for group in groups)
    error = math.sqrt(sum(errors))
    return _judge(second - first, error, freedom, rule, more_is_better=more_is_better)


def _judge(
    change: float, error: float, freedom: int, rule: MarginRule, *, more_is_better: bool
) -> Judgement:
    """Return the judgement of a logarithmic change with this standard error."""
    half = rule.standard_errors(freedom) * error
    margin = math.log1p(rule.margin)
    equal_within = student_quantile(1 - rule.equality_errors, freedom) * error
    outcome: Outcome = "inconclusive"
    confidence = rule.confidence
    if abs(change) > max(half, margin):
        outcome = "better" if (change > 0) == more_is_better else "worse"
    elif abs(change) + equal_within <= margin:
        outcome, half, confidence = "equal", equal_within, rule.equality_confidence
    return Judgement(
        outcome,
        math.exp(change),
        math.exp(max(change - half, -_LARGEST_LOGARITHM)),
        math.exp(min(change + half, _LARGEST_LOGARITHM)),
        confidence,
        is_no_worse=(-change if more_is_better else change) + equal_within <= margin,
        detectable=detectable_change(error / _median_of_estimates(freedom), freedom, rule),
    )


def detectable_change(error: float, freedom: int, rule: MarginRule) -> float:
    """Return the smallest true change, as a fraction, that is shown with a probability of 0.8.

    `error` is the true standard error of the logarithmic change. A judgement estimates it with
    `freedom` degrees of freedom, so a change counts with the probability that a noncentral t
    exceeds the rule's standard errors, and the change the margin.
    """
    margin = math.log1p(rule.margin)
    if error == 0:
        return rule.margin
    bound = rule.standard_errors(freedom)
    needed = [
        (max(bound * estimate, margin / error), weight) for estimate, weight in _estimates(freedom)
    ]

    def power(change: float) -> float:
        return sum(weight * _NORMAL.cdf(change - least) for least, weight in needed)

    low, high = 0.0, 2 + max(least for least, _ in needed)
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < _POWER else (low, middle)
    return math.expm1(min(high * error, _LARGEST_LOGARITHM))


@lru_cache(maxsize=256)
def _estimates(freedom: int) -> list[tuple[float, float]]:
    """Return estimates of a standard error of 1, each with its probability.

    Their square by the degrees of freedom has a chi-square distribution.
    """
    spread = 1 / math.sqrt(2 * freedom)
    least, most = max(0.0, 1 - 5 * spread), 1 + 6 * spread
    points = [least + (at + 0.5) * (most - least) / _POINTS for at in range(_POINTS)]
    logs = [(freedom - 1) * math.log(each) - freedom * each * each / 2 for each in points]
    densities = [math.exp(each - max(logs)) for each in logs]
    whole = sum(densities)
    return [(each, one / whole) for each, one in zip(points, densities, strict=True)]


def _median_of_estimates(freedom: int) -> float:
    """Return the median of the estimates of a standard error of 1, within 2 %.

    The median of chi-square by its degrees of freedom (Wilson and Hilferty, PNAS 17, 1931).
    """
    return math.pow(1 - 2 / (9 * freedom), 1.5)
