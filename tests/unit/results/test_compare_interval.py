"""Confidence intervals of figures and of their ratios hold what they promise."""

import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.record.order_statistics import confidence_ranks, rank_of
from inferometer_results.compare.interval import (
    Estimate,
    by_batch_means,
    change,
    over_repeats,
)

_POSITIVE = st.floats(min_value=1e-3, max_value=1e9)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    """Return any positive figure with bounds round it."""
    low, value, high = sorted(draw(st.tuples(_POSITIVE, _POSITIVE, _POSITIVE)))
    return Estimate(value, low, high)


@given(estimates(), estimates())
def test_a_ratio_lies_within_its_bounds(before: Estimate, after: Estimate) -> None:
    """And turning the comparison round turns the ratio and its bounds round."""
    there, back = change(before, after), change(after, before)
    assert there is not None
    assert back is not None
    assert there.low is not None
    assert there.high is not None
    assert back.high is not None
    assert there.low <= there.ratio * (1 + 1e-9)
    assert there.ratio <= there.high * (1 + 1e-9)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


@given(estimates(), st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_does_not_matter(before: Estimate, factor: float) -> None:
    """The same figures in another unit have the same ratio, and a figure equals itself."""
    assert before.low is not None
    assert before.high is not None
    scaled = Estimate(before.value * factor, before.low * factor, before.high * factor)
    found = change(before, scaled)
    assert found is not None
    assert found.ratio == pytest.approx(factor)
    same = change(before, before)
    assert same is not None
    assert not same.is_real


def test_one_bound_that_leaves_no_room_is_enough() -> None:
    """A tail without an upper bound is worse all the same, once its lower bound is above."""
    before = Estimate(23.0, 22.7, 24.7)
    found = change(before, Estimate(230.0, 227.0, None))
    assert found is not None
    assert found.high is None
    assert found.is_real
    close = change(before, Estimate(24.0, 23.0, None))
    assert close is not None
    assert not close.is_known
    assert not close.is_real


def test_without_bounds_no_difference_is_called_real() -> None:
    """A figure without bounds leaves those of the change unknown, whichever side it stands on."""
    known = Estimate(100.0, 99.0, 101.0)
    for found in (change(known, Estimate(200.0)), change(Estimate(200.0), known)):
        assert found is not None
        assert (found.low, found.high) == (None, None)
        assert not found.is_known
    assert change(Estimate(0.0), known) is None
    assert change(known, Estimate(0.0)) is None


def test_bounds_that_reach_zero_give_one_bound_of_the_ratio() -> None:
    """A rate that may be zero may be any number of times smaller, but not any times larger."""
    found = change(Estimate(10.0, 9.0, 11.0), Estimate(10.0, -1.0, 21.0))
    assert found is not None
    assert found.low is None
    assert found.high is not None


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


@pytest.mark.parametrize("percentile", [50.0, 90.0, 99.0])
def test_a_difference_of_percentiles_is_covered_as_often_as_it_says(percentile: float) -> None:
    """Of 1,000 pairs of lognormal runs at least 94 % have the true ratio within their bounds."""
    chance = np.random.default_rng(99)
    count, ratio = 2000, 1.1

    def a_run(scale: float) -> Estimate:
        times = np.sort(chance.lognormal(math.log(scale), 0.5, count))
        ranks = confidence_ranks(percentile, count)
        assert ranks.low is not None
        assert ranks.high is not None
        at = [times[rank - 1] for rank in (rank_of(percentile, count), ranks.low, ranks.high)]
        return Estimate(*map(float, at))

    covered = shown = 0
    for _ in range(1000):
        found = change(a_run(10.0), a_run(10.0 * ratio))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= ratio <= found.high
        same = change(a_run(10.0), a_run(10.0))
        shown += same is not None and same.is_real
    assert covered / 1000 >= 0.94
    assert shown / 1000 <= 0.06
