"""At which rate does the share of overshoots cross what a percentile allows?

Near the crossing the log-odds of an overshoot rise evenly with the rate. Overshoots come in
bursts, as a queue is long or is not, so that their number spreads more than the binomial's: the
model is a quasi-binomial regression, its dispersion estimated from how much whole probes differ
(McCullagh and Nelder, Generalized Linear Models, 1989, §4.5), with Firth's penalty against the
bias of few counts (Biometrika 80, 1993), the counts divided by the dispersion. The bounds of the
crossing are Fieller's (Finney, Probit Analysis, 1971, §4.6), by Student's t.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer_loadgen.search.student import student_quantile

CONFIDENCE = 0.95
_FIRST_SLOPE = 8.0
_FIRST_DISPERSION = 5.0
_FEWEST_FOR_DISPERSION = 4
_NEWTON_STEPS = 60
_REFINEMENTS = 2
_ALMOST_ZERO = 1e-9
_FARTHEST_LOG_ODDS = 30.0
_LEAST_EXPECTED = 0.05
_BURSTS_OF_ONE_FREEDOM = 4
LEAST_BURSTS = 4
"""With fewer bursts of overshoots neither their spread nor, by it, the bounds are known."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a probe counted that ran to its last query."""

    qps: float
    queries: int
    overshoots: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """The rate at which the share is crossed, with its bounds at `CONFIDENCE`."""

    qps: float
    bounds_qps: tuple[float, float] | None
    """None where the probes do not bound it to both sides, or saw too few bursts to know."""
    slope: float
    """By how much the log-odds of an overshoot rise where the rate rises by `qps`, relatively."""
    dispersion: float
    """How many times the variance of the number of overshoots is the binomial's; at least 1."""


@dataclass(frozen=True, slots=True)
class _Fit:
    at_centre: float
    """The log-odds at the centre, less the target's."""
    slope: float
    covariance: Floats


def crossing(counted: Sequence[Counted], share: float) -> Crossing | None:
    """Return where the share of overshoots is `share`; None where the probes do not tell.

    That is where none of them is below it or none above, or where it does not rise with the rate.
    """
    shares = [each.overshoots / each.queries for each in counted]
    if not counted or min(shares) > share or max(shares) <= share:
        return None
    centre = math.exp(math.fsum(math.log(each.qps) for each in counted) / len(counted))
    rates = np.array([each.qps / centre - 1 for each in counted])
    queries = np.array([each.queries for each in counted], dtype=np.float64)
    overshoots = np.array([each.overshoots for each in counted], dtype=np.float64)
    target = math.log(share / (1 - share))
    dispersion = _FIRST_DISPERSION
    fit = None
    for _ in range(_REFINEMENTS + 1):
        fit = _fitted(rates, queries / dispersion, overshoots / dispersion, target)
        if len(counted) >= _FEWEST_FOR_DISPERSION:
            dispersion = _dispersion(fit, rates, queries, overshoots, target)
    if fit is None or fit.slope <= 0:
        return None
    root = min(max(-fit.at_centre / fit.slope, rates.min() - 0.1), rates.max() + 0.1)
    bursts = float(overshoots.sum()) / dispersion
    bounds = _bounds(fit, _quantile(len(counted), bursts))
    is_known = bounds is not None and bounds[0] > -1 and bursts >= LEAST_BURSTS
    return Crossing(
        qps=centre * (1 + root),
        bounds_qps=(
            (centre * (1 + bounds[0]), centre * (1 + bounds[1])) if bounds and is_known else None
        ),
        slope=fit.slope * (1 + root),
        dispersion=dispersion,
    )


def _quantile(probes: int, bursts: float) -> float:
    # A spread that few bursts of overshoots tell of is not better known than they are many.
    freedom = min(probes - 2, int(bursts / _BURSTS_OF_ONE_FREEDOM))
    return student_quantile((1 + CONFIDENCE) / 2, max(1, freedom))


def _fitted(rates: Floats, queries: Floats, overshoots: Floats, target: float) -> _Fit:
    """Fit by Newton's method with halved steps, under Firth's penalty."""
    design = np.column_stack((np.ones_like(rates), rates))
    found = np.array([target, _FIRST_SLOPE])
    level = _penalised(found, design, queries, overshoots)
    inverse: Floats = np.eye(2)
    for _ in range(_NEWTON_STEPS):
        chance = _chance(design @ found)
        weights = queries * chance * (1 - chance)
        information = design.T @ (design * weights[:, None]) + _ALMOST_ZERO * np.eye(2)
        inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
        leverage = np.einsum("ij,jk,ik->i", design, inverse, design) * weights
        step = inverse @ (design.T @ (overshoots - queries * chance + leverage * (0.5 - chance)))
        reached = _penalised(found + step, design, queries, overshoots)
        while reached < level and np.abs(step).max() > _ALMOST_ZERO:
            step = step / 2
            reached = _penalised(found + step, design, queries, overshoots)
        found = found + step
        if abs(reached - level) < _ALMOST_ZERO:
            break
        level = reached
    return _Fit(float(found[0]) - target, float(found[1]), inverse)


def _penalised(found: Floats, design: Floats, queries: Floats, overshoots: Floats) -> float:
    log_odds = design @ found
    chance = _chance(log_odds)
    weights = queries * chance * (1 - chance)
    information = design.T @ (design * weights[:, None]) + 1e-12 * np.eye(2)
    likelihood = float(np.sum(overshoots * log_odds - queries * np.logaddexp(0, log_odds)))
    return likelihood + 0.5 * float(np.linalg.slogdet(information)[1])


def _chance(log_odds: Floats) -> Floats:
    clipped = np.clip(log_odds, -_FARTHEST_LOG_ODDS, _FARTHEST_LOG_ODDS)
    chance: Floats = 1 / (1 + np.exp(-clipped))
    return chance


def _dispersion(
    fit: _Fit, rates: Floats, queries: Floats, overshoots: Floats, target: float
) -> float:
    """Return Pearson's statistic over its degrees of freedom, at least 1."""
    chance = _chance(target + fit.at_centre + fit.slope * rates)
    expected = queries * chance
    variance = np.maximum(expected * (1 - chance), _LEAST_EXPECTED)
    statistic = float(np.sum((overshoots - expected) ** 2 / variance))
    return max(1.0, statistic / (len(rates) - 2))


def _bounds(fit: _Fit, quantile: float) -> tuple[float, float] | None:
    """Return the rates, from the centre, whose log-odds differ from the target's by chance alone.

    None where they reach without end to one side.
    """
    spread = quantile * quantile * fit.covariance
    a = fit.slope**2 - spread[1, 1]
    b = 2 * (fit.at_centre * fit.slope - spread[0, 1])
    c = fit.at_centre**2 - spread[0, 0]
    discriminant = b * b - 4 * a * c
    if a <= 0 or discriminant < 0:
        return None
    root = math.sqrt(discriminant)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
