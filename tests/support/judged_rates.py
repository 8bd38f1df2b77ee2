"""Rates of a probe and of an outside judge, measured in turn, and whether they agree."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from inferometer_analysis.samples import Interval, median_interval
from support.quiet import INCONCLUSIVE, disturbance, read_counters

TOLERANCE = 0.05
MeasureRates = Callable[[], Mapping[str, float]]
"""Returns rates by name."""


@dataclass(frozen=True, slots=True)
class RateRatio:
    """The rate of the probe over the judge's, and the judge's over its own: medians of rounds."""

    probe: Interval
    judge: Interval

    @property
    def is_conclusive(self) -> bool:
        """Return whether the judge repeats itself within the tolerance, with 95 % confidence."""
        return _is_within(self.judge.low) and _is_within(self.judge.high)

    @property
    def agrees(self) -> bool:
        """Return whether the rates are equal within the tolerance."""
        return _is_within(self.probe.value)

    @property
    def differs(self) -> bool:
        """Return whether they are not, with 95 % confidence."""
        low, high = self.probe.low, self.probe.high
        if low is None or high is None:
            return False
        return low > 1 + TOLERANCE or high < 1 - TOLERANCE

    def describe(self) -> str:
        """Return both ratios, with their intervals."""
        return f"{_text(self.probe)} of the judge, which is {_text(self.judge)} of itself"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the rounds found."""

    ratios: Mapping[str, RateRatio]
    disturbance: str | None
    """How much others disturbed the rounds."""

    def require(self) -> None:
        """Fail if a rate differs from the judge's; end as inconclusive if that is not certain."""
        __tracebackhide__ = True
        figures = "; ".join(f"{name}: {ratio.describe()}" for name, ratio in self.ratios.items())
        if self.disturbance is not None:
            pytest.skip(f"{INCONCLUSIVE}: {self.disturbance}; {figures}")
        certain = [each for each in self.ratios.values() if each.is_conclusive]
        if any(each.differs for each in certain):
            pytest.fail(f"more than {TOLERANCE:.0%} apart: {figures}", pytrace=False)
        if not all(each.is_conclusive and each.agrees for each in self.ratios.values()):
            pytest.skip(f"{INCONCLUSIVE}: the rates scatter; {figures}")


def compare_in_turn(probe: MeasureRates, judge: MeasureRates, rounds: int) -> Agreement:
    """Measure the probe, the judge twice and the probe again in each round.

    What changes steadily within a round affects both alike. The judge's names are compared.
    """
    before = read_counters()
    ratios: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(rounds):
        first, judged, judged_again, second = probe(), judge(), judge(), probe()
        for name, rate in judged.items():
            own, others = ratios.setdefault(name, ([], []))
            again = judged_again[name]
            own.append(math.sqrt(first[name] * second[name] / (rate * again)))
            others.append(again / rate)
    found = disturbance(before, read_counters())
    intervals = {
        name: RateRatio(median_interval(own), median_interval(others))
        for name, (own, others) in ratios.items()
    }
    return Agreement(intervals, found)


def _is_within(ratio: float | None) -> bool:
    return ratio is not None and abs(ratio - 1) <= TOLERANCE


def _text(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.value:.3f}"
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"
