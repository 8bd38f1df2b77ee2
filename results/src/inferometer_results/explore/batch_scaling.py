"""The optimal batch size of a model, by two rules that may disagree.

XSP (Li et al., IPDPS 2020) states the knee as its rule and reports the maximum in its table; both
are named here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

KNEE_GAIN = 0.05
"""A doubling of the batch that gains no more throughput than this is not worth it."""


@dataclass(frozen=True, slots=True)
class BatchScaling:
    """Throughput by batch size, with the optimal size by each rule."""

    rates: Mapping[int, float]
    """Inferences per second by batch size, ascending."""
    most: int
    """The batch size with the most throughput; of equal ones the smallest."""
    knee: int | None
    """The smallest batch size whose doubling gains no more than 5 %; None if none was doubled, or
    if every doubling gains more."""


def batch_scaling(rates: Mapping[int, float]) -> BatchScaling | None:
    """Return the scaling over measured batch sizes; None if there are fewer than two."""
    ordered = dict(sorted(rates.items()))
    if len(ordered) < 2:
        return None
    most = max(ordered, key=lambda size: (ordered[size], -size))
    doubled = (size for size in ordered if size * 2 in ordered)
    knee = next(
        (size for size in doubled if ordered[size * 2] <= ordered[size] * (1 + KNEE_GAIN)), None
    )
    return BatchScaling(ordered, most, knee)
