"""Do the bounds of a comparison hold what they promise?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_cli.compare.interval import (
    Change,
    Estimate,
    by_batch_means,
    change,
    over_repeats,
    student_975,
)
from inferometer_loadgen.statistics import confidence_ranks, rank_of

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


def test_without_bounds_nothing_is_said_to_be_real() -> None:
    """One bound that is not known, on either side, leaves the change's bounds unknown."""
    known = Estimate(100.0, 99.0, 101.0)
    for other in (Estimate(200.0), Estimate(200.0, 199.0), Estimate(200.0, None, 201.0)):
        for found in (change(known, other), change(other, known)):
            assert found is not None
            assert not found.is_known
            assert not found.is_real
    assert change(Estimate(0.0), known) is None
    assert change(known, Estimate(0.0)) is None


def test_bounds_that_reach_zero_tell_no_ratio() -> None:
    """A rate that may be zero may be any number of times another one."""
    assert change(Estimate(10.0, -1.0, 21.0), Estimate(10.0, 9.0, 11.0)) == Change(1.0)


def test_students_quantiles_are_those_of_the_tables() -> None:
    """Abramowitz and Stegun, table 26.10, and the expansion beyond it."""
    for degrees, quantile in ((1, 12.706), (4, 2.776), (19, 2.093), (30, 2.042)):
        assert student_975(degrees) == quantile
    assert student_975(60) == pytest.approx(2.000, rel=5e-3)
    assert student_975(10_000) == pytest.approx(1.960, rel=1e-3)


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


@pytest.mark.parametrize("windows", [10, 60, 600])
def test_batch_means_cover_the_true_rate_as_often_as_they_say(windows: int) -> None:
    """Also where a second resembles the one before it, once there are many seconds."""
    chance = np.random.default_rng(11)
    covered = 0
    for _ in range(1000):
        noise = chance.normal(0.0, 1.0, windows)
        if windows == 600:
            for at in range(1, windows):
                noise[at] += 0.5 * noise[at - 1]
        rates = 100.0 + noise
        found = by_batch_means(float(rates.mean()), list(rates))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 100.0 <= found.high
    # Three standard errors of 1,000 trials round the 95 % that are said, and the 94.5 % that twenty
    # batches of seconds with a correlation of 0.5 leave of them.
    assert 0.923 <= covered / 1000 <= 0.972


def test_a_few_seconds_tell_no_bounds() -> None:
    """Below five windows a rate stands without bounds."""
    assert by_batch_means(10.0, [10.0] * 4) == Estimate(10.0)
    assert by_batch_means(10.0, []) == Estimate(10.0)


def test_what_fills_no_batch_is_left_out_at_the_begin() -> None:
    """Of 39 windows the first 19 belong to no batch of one."""
    found = by_batch_means(5.0, [1000.0] * 19 + [5.0] * 20)
    assert (found.low, found.high) == (5.0, 5.0)


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
