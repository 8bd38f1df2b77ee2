"""Repeated measurements are merged by trimmed means and medians with intervals."""

import numpy as np
import pytest

from inferometer_analysis.samples import (
    Interval,
    difference,
    median_interval,
    minus,
    next_interval,
    rest,
    share,
    spread_interval,
    total,
    trimmed_mean,
)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([3.0], 3.0),
        ([1.0, 3.0], 2.0),
        ([1.0, 2.0, 9.0], 4.0),
        ([1.0, 2.0, 3.0, 90.0], 24.0),
        ([0.0, 2.0, 3.0, 4.0, 90.0], 3.0),
        ([-50.0, -40.0, *([5.0] * 6), 80.0, 90.0], 5.0),
    ],
)
def test_a_fifth_is_dropped_at_each_end(values: list[float], mean: float) -> None:
    """A fifth, rounded down, is dropped at each end; with fewer than 5 values nothing is."""
    assert trimmed_mean(values) == pytest.approx(mean)


def test_no_values_have_no_mean() -> None:
    """Nothing is merged out of nothing."""
    with pytest.raises(ValueError, match="no values"):
        trimmed_mean([])


@pytest.mark.parametrize(
    ("count", "low", "high"), [(5, None, None), (6, 0, 5), (10, 1, 8), (30, 9, 20), (100, 39, 60)]
)
def test_the_interval_of_a_median_is_of_order_statistics(
    count: int, low: int | None, high: int | None
) -> None:
    """The ranks are those of the binomial tail: for 10 values the second and the last but one."""
    found = median_interval(list(range(count)))
    assert (found.low, found.high) == (low, high)
    assert found.value == (count - 1) / 2


def test_a_difference_is_paired() -> None:
    """What affects both runs of a round does not widen the interval of their difference."""
    drift = [10.0, 50.0, 20.0, 90.0, 30.0, 70.0]
    assert difference([each + 2 for each in drift], drift) == Interval(2.0, 2.0, 2.0)


def test_the_interval_of_a_spread_is_that_of_one_round() -> None:
    """Quartiles of a normal distribution are 1.349 standard deviations apart."""
    found = spread_interval(100.0, 13.49)
    assert (found.low, found.high) == pytest.approx((100 - 19.6, 100 + 19.6))
    assert spread_interval(1.0, 13.49).low == 0.0
    assert spread_interval(1.0, None) == Interval(1.0)


def test_intervals_of_sums_and_shares_have_the_worst_ends() -> None:
    """They cover the figure also if all errors are one."""
    one, other = Interval(10.0, 8.0, 12.0), Interval(20.0, 19.0, 22.0)
    assert total([one, other]) == Interval(30.0, 27.0, 34.0)
    assert minus(other, one) == Interval(10.0, 7.0, 14.0)
    assert share(one, other) == Interval(0.5, 8 / 22, 12 / 19)
    assert rest(share(one, other)) == Interval(0.5, 1 - 12 / 19, 1 - 8 / 22)
    assert total([]) == Interval(0.0, 0.0, 0.0)


def test_a_figure_without_bounds_takes_them_from_all_that_follows() -> None:
    """No bounds are made up."""
    one, other = Interval(10.0), Interval(20.0, 19.0, 22.0)
    assert total([one, other]) == Interval(30.0)
    assert minus(other, one) == Interval(10.0)
    assert share(one, other) == Interval(0.5)
    assert share(other, one) == Interval(2.0)
    assert rest(one) == Interval(-9.0)


def test_the_next_value_lies_within_the_interval_of_those_before() -> None:
    """Of 5 and one more normal values the last lies within in 95 %, however they spread."""
    generator = np.random.default_rng(1)
    drawn = generator.normal(100.0, 7.0, size=(4_000, 6))
    found = [next_interval(list(row[:5])) for row in drawn]
    within = [
        each.low is not None and each.high is not None and each.low <= row[5] <= each.high
        for each, row in zip(found, drawn, strict=True)
    ]
    assert np.mean(within) == pytest.approx(0.95, abs=0.01)
    assert next_interval([1.0, 3.0]) == Interval(2.0)
    with pytest.raises(ValueError, match="no values"):
        next_interval([])
