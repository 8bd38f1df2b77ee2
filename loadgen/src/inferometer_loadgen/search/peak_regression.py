"""Estimate of the peak: the rate at which the share of overshoots reaches what a percentile allows.

If queueing makes queries late, the logarithm of that share rises linearly with the rate (exactly at
M/M/1, nearly at others: Kingman, Proc. Camb. Phil. Soc. 57, 1961). Overshoots come in bursts, so
their number varies more than Poisson's. The model is a quasi-Poisson regression. Its dispersion is
estimated from the differences of whole probes, each of which is one independent sample, however
many queries it has (McCullagh and Nelder, Generalized Linear Models, 1989, section 6.2). Firth's
penalty removes the bias of few counts (Biometrika 80, 1993), with counts divided by the dispersion.
The bounds are Fieller's (Finney, Probit Analysis, 1971, section 4.6), by Student's t with two
degrees of freedom fewer than probes.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from inferometer_api.statistics import student_quantile

CONFIDENCE = 0.95
LEAST_BURSTS = 12
"""Fewest bursts of overshoots in all probes for bounds. So many must remain if the dispersion was
estimated too low by chance, as in one of fifty cases (`_dispersion_quantile`): with few probes that
error is large, and they would seem to have seen many bursts."""
LEAST_SEEN = 0.7
"""Fewest probes with any overshoot, as a share: 1.2 bursts a probe (Poisson). With fewer, a small
dispersion may only have missed the long bursts."""
_FIRST_SLOPE = 8.0
_FIRST_DISPERSION = 5.0
_FEWEST_FOR_DISPERSION = 4
_NEWTON_STEPS = 40
_REFINEMENTS = 2
_ALMOST_ZERO = 1e-9
_NEAR = 1e-7
_MOST_LOG = 2.0
"""Largest change of the logarithm of a share in a step of Newton's method."""
_FIFTIETH = NormalDist().inv_cdf(0.98)
_FARTHEST_LOG = 100.0
"""Far above the logarithm of any share, and still finite after squaring and exponentiation."""
_LEAST_EXPECTED = 0.05
_BEYOND = 1.1
"""Factor by which an estimate may lie beyond the rates that were tried."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ProbeCount:
    """Counts of a probe that ran to its last query."""

    qps: float
    queries: int
    overshoots: int

    @property
    def share(self) -> float:
        """Share of queries beyond the bound."""
        return self.overshoots / self.queries


@dataclass(frozen=True, slots=True)
class PeakEstimate:
    """Estimated rate of the peak, with its bounds at `CONFIDENCE`."""

    qps: float
    bounds_qps: tuple[float, float] | None
    """None if the probes do not bound it on both sides, or saw too few bursts."""
    slope: float
    """Rise of the logarithm of the share for a relative rise of the rate by 1."""
    dispersion: float
    """Variance of the number of overshoots as a multiple of Poisson's; at least 1."""
    bursts: float
    """Number of independent bursts: the overshoots divided by the dispersion."""


@dataclass(frozen=True, slots=True)
class _Data:
    rates: Floats
    """Rates relative to their centre, minus 1."""
    allowed: Floats
    """Number of overshoots that would be exactly the allowed share."""
    overshoots: Floats

    def expected(self, fit: "_Fit") -> Floats:
        """Return the expected number of overshoots of each probe."""
        logs = np.minimum(fit.at_centre + fit.slope * self.rates, _FARTHEST_LOG)
        expected: Floats = self.allowed * np.exp(logs)
        return expected


@dataclass(frozen=True, slots=True)
class _Fit:
    at_centre: float
    """Logarithm of the share at the centre, divided by the allowed share."""
    slope: float
    variance: tuple[float, float, float]
    """Variance of `at_centre`, covariance, variance of `slope`."""


@lru_cache(maxsize=16)
def estimate_peak(counted: tuple[ProbeCount, ...], share: float) -> PeakEstimate | None:
    """Return the rate at which the share of overshoots is `share`; None if it is not determined.

    It is not if no probe is below it or none above, or if the share does not rise with the rate.
    """
    shares = [each.share for each in counted]
    if not counted or min(shares) > share or max(shares) <= share:
        return None
    centre = math.exp(math.fsum(math.log(each.qps) for each in counted) / len(counted))
    data = _Data(
        np.array([each.qps / centre - 1 for each in counted]),
        np.array([each.queries * share for each in counted]),
        np.array([each.overshoots for each in counted], dtype=np.float64),
    )
    dispersion = _FIRST_DISPERSION
    fit = _fitted(data, dispersion)
    if len(counted) >= _FEWEST_FOR_DISPERSION:
        for _ in range(_REFINEMENTS):
            dispersion = _dispersion(fit, data)
            fit = _fitted(data, dispersion)
    if fit.slope <= 0:
        return None
    lowest, highest = (1 + data.rates.min()) / _BEYOND - 1, (1 + data.rates.max()) * _BEYOND - 1
    root = min(max(-fit.at_centre / fit.slope, lowest), highest)
    bursts = float(data.overshoots.sum()) / dispersion
    bounds = _bounds(fit, len(counted) - 2)
    is_many = bursts * _dispersion_quantile(len(counted) - 2) >= LEAST_BURSTS
    is_known = is_many and np.mean(data.overshoots > 0) >= LEAST_SEEN
    return PeakEstimate(
        qps=centre * (1 + root),
        bounds_qps=(
            (centre * (1 + bounds[0]), centre * (1 + bounds[1]))
            if bounds and bounds[0] > -1 and is_known
            else None
        ),
        slope=fit.slope * (1 + root),
        dispersion=dispersion,
        bursts=bursts,
    )


def _fitted(data: _Data, dispersion: float) -> _Fit:
    """Fit by Newton's method with bounded steps, under Firth's penalty."""
    rates = data.rates
    farthest = float(np.abs(rates).max()) + _ALMOST_ZERO
    at_centre = math.log((data.overshoots.sum() + 0.5) / data.allowed.sum())
    fit = _Fit(at_centre, _FIRST_SLOPE, (0.0, 0.0, 0.0))
    for _ in range(_NEWTON_STEPS):
        expected = data.expected(fit)
        weights = expected / dispersion
        own = float(weights.sum()) + _ALMOST_ZERO
        middle = float(weights @ rates) / own
        # Around the mean: a difference of products would be 0 if one rate had all the weight.
        spread = float(weights @ (rates - middle) ** 2) + _ALMOST_ZERO
        variance = 1 / own + middle**2 / spread, -middle / spread, 1 / spread
        leverage = weights * (variance[0] + rates * (2 * variance[1] + rates * variance[2]))
        left = data.overshoots / dispersion - weights + leverage / 2
        up, tilt = float(left.sum()), float(left @ rates)
        step = variance[0] * up + variance[1] * tilt
        turn = variance[1] * up + variance[2] * tilt
        size = abs(step) + abs(turn) * farthest
        part = min(1.0, _MOST_LOG / (size + _ALMOST_ZERO))
        fit = _Fit(fit.at_centre + part * step, fit.slope + part * turn, variance)
        if size < _NEAR:
            break
    return fit


def _dispersion(fit: _Fit, data: _Data) -> float:
    """Return Pearson's statistic over its degrees of freedom, at least 1."""
    expected = data.expected(fit)
    squares = (data.overshoots - expected) ** 2 / np.maximum(expected, _LEAST_EXPECTED)
    return max(1.0, float(squares.sum()) / (len(expected) - 2))


def _dispersion_quantile(freedom: int) -> float:
    """Return the 2 % quantile of an estimated dispersion, as a share of the true one.

    It is that of chi-squared over its degrees of freedom (Wilson and Hilferty, PNAS 17, 1931).
    """
    if freedom < 1:
        return 0.0
    variance = 2 / (9 * freedom)
    return max(0.0, 1 - variance - _FIFTIETH * math.sqrt(variance)) ** 3


def _bounds(fit: _Fit, freedom: int) -> tuple[float, float] | None:
    """Return Fieller's bounds of the estimate, relative to the centre, minus 1.

    None if they are infinite on one side.
    """
    if freedom < 1:
        return None
    spread = student_quantile((1 + CONFIDENCE) / 2, freedom) ** 2
    own, both, turned = (spread * each for each in fit.variance)
    a = fit.slope**2 - turned
    b = 2 * (fit.at_centre * fit.slope - both)
    c = fit.at_centre**2 - own
    discriminant = b * b - 4 * a * c
    if a <= 0 or discriminant < 0:
        return None
    root = math.sqrt(discriminant)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
