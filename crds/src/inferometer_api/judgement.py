"""Judgement of a difference between two variants, by independent runs of each.

Figures are compared as ratios, so all statistics are of logarithms. A difference is reported only
if its interval excludes no change and its size exceeds the margin. Equality within the margin is
shown by two one-sided tests (Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance
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
"""The same of runs that were not interleaved: an hour between them may hide more."""
_EQUALITY_ERRORS = 0.05
EQUALITY_CONFIDENCE = 1 - 2 * _EQUALITY_ERRORS
"""The confidence of the two-sided bounds that two one-sided tests compare with the margin."""
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class MarginRule:
    """When a difference counts."""

    margin: float
    """Changes up to this fraction do not matter."""
    false_alarms: float
    """The two-sided probability of a difference between equal variants, over all figures."""
    figures: int = 1
    """How many figures are judged together; each gets its part of the probability (Bonferroni)."""

    @property
    def confidence(self) -> float:
        """Return the confidence of the interval of one figure."""
        return 1 - self.false_alarms / self.figures


@dataclass(frozen=True, slots=True)
class Judgement:
    """The ratio of the second variant to the first, and what it shows."""

    outcome: Outcome
    ratio: float
    """The ratio of the geometric means."""
    low: float
    high: float
    """The bounds of the ratio that judge: of `equal` the 90 % bounds, which are within the margin;
    else those at the rule's confidence."""
    confidence: float
    """That of the bounds."""
    is_no_worse: bool
    """Whether the second variant is shown to be worse by no more than the margin."""
    detectable: float
    """The smallest true change, as a fraction, that such runs show with a probability of 0.8."""


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
    half = student_quantile((1 + rule.confidence) / 2, freedom) * error
    margin = math.log1p(rule.margin)
    equal_within = student_quantile(1 - _EQUALITY_ERRORS, freedom) * error
    outcome: Outcome = "inconclusive"
    confidence = rule.confidence
    if abs(change) > max(half, margin):
        outcome = "better" if (change > 0) == more_is_better else "worse"
    elif abs(change) + equal_within <= margin:
        outcome, half, confidence = "equal", equal_within, EQUALITY_CONFIDENCE
    return Judgement(
        outcome,
        math.exp(change),
        math.exp(change - half),
        math.exp(change + half),
        confidence,
        is_no_worse=(-change if more_is_better else change) + equal_within <= margin,
        detectable=detectable_change(error, freedom, rule),
    )


def detectable_change(error: float, freedom: int, rule: MarginRule) -> float:
    """Return the smallest true change, as a fraction, that is shown with a probability of 0.8.

    `error` is the standard error of the logarithmic change, with `freedom` degrees of freedom.
    """
    shown = student_quantile((1 + rule.confidence) / 2, freedom) * error
    threshold = max(shown, math.log1p(rule.margin))
    return math.expm1(threshold + student_quantile(_POWER, freedom) * error)
