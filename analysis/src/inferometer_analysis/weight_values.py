"""Describes how a model's weights are distributed, and what rounding them to few bits leaves."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
EDGES: Floats = np.linspace(-1.0, 1.0, 102)
"""Of the bins of a histogram: weights as shares of the largest magnitude in their tensor."""
BITS = (8, 4)


@dataclass(frozen=True, slots=True)
class WeightValues:
    """The weights of one model; shares are of `count` and between 0 and 1."""

    tensors: int
    count: int
    not_finite: int
    """Weights that are no numbers, which count nowhere else."""
    zero_share: float
    rounded_to_zero_share: dict[int, float]
    """By number of bits: symmetric rounding with one scale for each tensor."""
    histogram: Floats
    """The share of the weights in each bin of `EDGES`."""


def weight_values(tensors: Iterable[npt.NDArray[np.floating]]) -> WeightValues:
    """Return how the values of some tensors are distributed; each tensor is read once."""
    number = count = not_finite = zeros = 0
    rounded = dict.fromkeys(BITS, 0)
    histogram = np.zeros(len(EDGES) - 1)
    for tensor in tensors:
        finite = tensor[np.isfinite(tensor)].astype(np.float32)
        number += 1
        count += finite.size
        not_finite += tensor.size - finite.size
        magnitudes = np.abs(finite)
        largest = float(magnitudes.max(initial=0.0))
        zeros += int((magnitudes == 0).sum())
        for bits in BITS:
            half_a_step = largest / (2 ** (bits - 1) - 1) / 2
            rounded[bits] += int((magnitudes <= half_a_step).sum())
        histogram += np.histogram(finite / (largest or 1.0), EDGES)[0]
    whole = max(count, 1)
    return WeightValues(
        tensors=number,
        count=count,
        not_finite=not_finite,
        zero_share=zeros / whole,
        rounded_to_zero_share={bits: each / whole for bits, each in rounded.items()},
        histogram=histogram / whole,
    )
