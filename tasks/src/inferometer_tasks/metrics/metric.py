"""Interface of a measure, its value, and bounds of shares and means."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from inferometer_api.statistics import student_quantile
from inferometer_tasks.sample import Prediction

_Z95 = 1.959963984540054
_PSEUDO_VALUES = 2
"""Values at each end of the range that the bounds of a mean of scores count in addition."""
_MOST_FREEDOM = 1000
"""Of Student's t: more degrees of freedom narrow it by less than 0.2 %, and take long."""


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
        """Return the mean of errors, which are not negative; None without values.

        The bounds are Student's t and end at 0. They are None if the values do not scatter, because
        such a sample says nothing about the errors of others.
        """
        if not self.count:
            return None
        if self.count < 2 or not self._squares:
            return MetricValue(self.mean, self.count)
        half = _half_width(self._squares, self.count)
        if not math.isfinite(half):  # the squares are beyond the numbers of a float
            return MetricValue(self.mean, self.count)
        low = max(0.0, self.mean - half)
        return MetricValue(self.mean, self.count, None, low, self.mean + half)

    def result_of_scores(self) -> MetricValue | None:
        """Return the mean of scores from 0 to 1; None without values.

        The bounds count two more values of 0 and of 1, as Agresti and Coull's of a share do
        (American Statistician 52, 1998). So they have a width if all values are equal, and they are
        Student's t of all these values within 0 and 1.
        """
        if not self.count:
            return None
        count = self.count + 2 * _PSEUDO_VALUES
        middle = (self.count * self.mean + _PSEUDO_VALUES) / count
        added = _PSEUDO_VALUES * (self.mean**2 + (1 - self.mean) ** 2)
        half = _half_width(self._squares + added - count * (middle - self.mean) ** 2, count)
        low, high = max(0.0, middle - half), min(1.0, middle + half)
        return MetricValue(self.mean, self.count, None, min(low, self.mean), max(high, self.mean))


def _half_width(squares: float, count: int) -> float:
    """Return half of the 95 % interval of a mean, from the sum of squared deviations from it."""
    error = math.sqrt(squares / (count - 1) / count)
    return student_quantile(0.975, min(count - 1, _MOST_FREEDOM)) * error
