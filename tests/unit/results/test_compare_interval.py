"""Confidence intervals of figures cover the truth as often as they say."""

from statistics import fmean

import numpy as np
import pytest

from inferometer_results.compare.interval import (
    Estimate,
    by_batch_means,
    over_repeats,
)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_repeats_cover_the_truth_as_often_as_they_say(count: int) -> None:
    """Of 2,000 sets of repeats 93 to 97 % have the true mean within their bounds."""
    chance = np.random.default_rng(20261121)
    covered = 0
    for _ in range(2000):
        found = over_repeats(list(chance.normal(100.0, 5.0, count)))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 100.0 <= found.high
    assert 0.93 <= covered / 2000 <= 0.97


def a_series(chance: np.random.Generator, windows: int, alike: float) -> list[float]:
    """Return rates round 100 of which each resembles the one before."""
    noise = list(chance.normal(0.0, 1.0, windows + 50))
    for at in range(1, len(noise)):
        noise[at] += alike * noise[at - 1]
    return [100.0 + each for each in noise[50:]]


@pytest.mark.parametrize(
    ("windows", "alike", "least"),
    [
        *((windows, 0.0, 0.93) for windows in (10, 20, 60, 600)),
        *((20, 0.5, 0.91), (60, 0.5, 0.92), (600, 0.5, 0.92), (60, 0.8, 0.87)),
    ],
)
def test_batch_means_cover_the_true_rate(windows: int, alike: float, least: float) -> None:
    """Nearly as often as they say, also where a second resembles the one before it."""
    chance = np.random.default_rng(11)
    covered = 0
    for _ in range(1000):
        rates = a_series(chance, windows, alike)
        found = by_batch_means(fmean(rates), rates, 1.0)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 100.0 <= found.high
    assert covered / 1000 >= least


def test_a_few_seconds_tell_no_bounds() -> None:
    """Below ten windows a rate stands without bounds."""
    assert by_batch_means(10.0, [10.0] * 9, 1.0) == Estimate(10.0)
    assert by_batch_means(10.0, [], 1.0) == Estimate(10.0)


def test_every_window_counts() -> None:
    """Whichever one is changed, the bounds change with it."""
    calm = [5.0 + at % 3 for at in range(39)]
    plain = by_batch_means(5.0, calm, 1.0)
    for at in range(39):
        other = [*calm[:at], 50.0, *calm[at + 1 :]]
        assert by_batch_means(5.0, other, 1.0) != plain


def test_a_paced_rate_is_known_to_one_query() -> None:
    """Seconds that are all alike leave one query more or less in the whole time."""
    found = by_batch_means(40.0, [40.0] * 20, 1.0)
    assert (found.low, found.high) == (40.0 - 1 / 20, 40.0 + 1 / 20)
