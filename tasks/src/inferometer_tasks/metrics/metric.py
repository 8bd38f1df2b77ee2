"""Interface of a measure, its value, and bounds of shares and means."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from inferometer_tasks.sample import Prediction

_Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of a measure over the samples so far."""

    value: float
    samples: int
    correct: int | None = None
    """How many samples are right, if each is right or wrong."""
    low: float | None = None
    """Lower 95 % bound; None if it is not known."""
    high: float | None = None


class AccuracyMeasure(Protocol):
    """A measure of accuracy. Its memory does not grow with the samples, but for mAP."""

    def add(self, prediction: Prediction, label: Any) -> bool | None:
        """Count a prediction; return whether it is right, None if it is neither.

        Raises SampleError if the label cannot be compared with the prediction.
        """

    def result(self) -> MetricValue | None:
        """Return the value; None without samples."""


def share(correct: int, samples: int) -> MetricValue:
    """Return a share with its bounds by Wilson's score interval (1927)."""
    p, n, z2 = correct / samples, samples, _Z95**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    low = 0.0 if correct == 0 else max(0.0, centre - half)
    high = 1.0 if correct == samples else min(1.0, centre + half)
    return MetricValue(p, n, correct, low, high)


class RunningMean:
    """Mean and variance of values, one at a time (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self._squares += delta * (value - self.mean)

    def result(self) -> MetricValue | None:
        """Return the mean with bounds by the normal distribution; None without values."""
        if not self.count:
            return None
        if self.count < 2:
            return MetricValue(self.mean, self.count)
        error = math.sqrt(self._squares / (self.count - 1) / self.count)
        half = _Z95 * error
        if not math.isfinite(half):  # the squares are beyond the numbers of a float
            return MetricValue(self.mean, self.count)
        return MetricValue(self.mean, self.count, None, self.mean - half, self.mean + half)
