"""Change points are found where a level changes, seldom elsewhere, and stay where they are.

The series are simulated by the noise models of `support.noise_models`; recorded ones are judged by
tests/unit/bench/test_history_record.py.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_results.history.change_points import (
    FEWEST_AFTER,
    FEWEST_BEFORE,
    MOST_AFTER,
    MOST_BEFORE,
    PROMISED_CHANGE,
    find_change_points,
)
from support.noise_models import (
    ALL_NOISE,
    Logarithms,
    Noise,
    autoregressive,
    independent,
    resampled,
    sticky_node,
)
from support.replayed_history import replay_equal_runs, share_found

_SERIES = 200


def calm(runs: int, level: float = 0.0) -> list[float]:
    """Return runs that differ by 0.2 % in turn."""
    return [math.exp(level + 0.002 * (at % 2)) for at in range(runs)]


def test_a_step_of_five_percent_is_found_within_ten_runs_in_eight_of_ten_series() -> None:
    """Simulated series that scatter by 3 %, with 40 runs before the step."""
    assert share_found(independent, PROMISED_CHANGE, _SERIES) >= 0.8


def test_a_correlated_series_shows_a_larger_step() -> None:
    """Neighbours that resemble each other prove less: a change of 10 % is still found in half."""
    assert share_found(autoregressive, 0.1, _SERIES) >= 0.5


@pytest.mark.parametrize("noise", ALL_NOISE)
def test_equal_runs_raise_at_most_one_alert_in_a_thousand_judgements(noise: Noise) -> None:
    """Suites of five simulated series: candidates that interleaved pairs of equal runs confirm."""
    assert replay_equal_runs([noise] * 5, judgements=400).alerts_in_1000 <= 1


def test_resampled_blocks_of_a_series_raise_no_more_alerts() -> None:
    """The block bootstrap that judges recorded series, on a simulated one with regimes."""
    recorded = sticky_node(np.random.default_rng(3), 200)

    def noise(chance: np.random.Generator, runs: int) -> Logarithms:
        return resampled(recorded, runs, chance)

    assert replay_equal_runs([noise] * 5, judgements=400).alerts_in_1000 <= 1


def test_independent_runs_are_seldom_candidates() -> None:
    """At most 1 in 100 judgements of a single series, before any confirmation."""
    assert replay_equal_runs([independent] * 5, judgements=400).candidates <= 20


def test_runs_that_resemble_each_other_are_seldom_candidates() -> None:
    """Correlation of neighbours (0.6) gives at most 10 in 1,000 judgements, not 30."""
    assert replay_equal_runs([autoregressive] * 5, judgements=400).candidates <= 20


def test_a_step_is_located_and_measured() -> None:
    """Its index, its ratio with bounds, and when it was found."""
    found = find_change_points([*calm(30), *calm(12, math.log(1.2))])
    (change,) = found.changes
    assert (change.at, change.seen_at) == (30, 30 + FEWEST_AFTER - 1)
    assert change.low < 1.2 < change.high
    assert change.ratio == pytest.approx(1.2, rel=0.001)
    assert found.runs == 12


def test_a_change_within_the_margin_is_none() -> None:
    """`ab` would not confirm it."""
    assert find_change_points([*calm(40), *calm(20, math.log(1.02))]).changes == ()


@pytest.mark.parametrize("factor", [0.2, 1.5, 50.0])
def test_a_single_outlier_is_no_change(factor: float) -> None:
    """However large it is, and wherever among the newest runs."""
    values = list(np.exp(np.random.default_rng(5).normal(0, 0.01, 60)))
    values[50] *= factor
    assert find_change_points(values).changes == ()


def test_an_outlier_hides_no_change() -> None:
    """A run that took five times as long does not make the series look noisy for weeks."""
    values = list(np.exp(np.random.default_rng(5).normal(0, 0.01, 50)))
    values[25] *= 5
    values[40:] = [1.1 * each for each in values[40:]]
    assert [each.at for each in find_change_points(values).changes] == [40]


def test_a_few_runs_cannot_be_judged() -> None:
    """With fewer runs than show what is usual, nothing is said about changes."""
    found = find_change_points(calm(FEWEST_BEFORE - 1))
    assert (found.changes, found.detectable, found.can_judge) == ((), None, False)


@pytest.mark.parametrize(("scatter", "can_judge"), [(0.01, True), (0.02, True), (0.06, False)])
def test_noisy_series_cannot_be_judged(scatter: float, *, can_judge: bool) -> None:
    """A series that varies by much more than 3 % does not show a change of 5 %."""
    chance = np.random.default_rng(2)
    found = [find_change_points(list(np.exp(chance.normal(0, scatter, 40)))) for _ in range(40)]
    assert sum(each.can_judge == can_judge for each in found) >= 36


@pytest.mark.parametrize("scatter", [0.01, 0.03, 0.08])
def test_the_detectable_change_is_found_in_about_eight_of_ten(scatter: float) -> None:
    """The smallest change that a series reports is the one that it shows."""

    def noise(chance: np.random.Generator, runs: int) -> Logarithms:
        return chance.normal(0, scatter, runs)

    chance = np.random.default_rng(4)
    reported = [find_change_points(list(np.exp(noise(chance, 40)))).detectable for _ in range(40)]
    middle = float(np.median([each for each in reported if each is not None]))
    assert 0.72 <= share_found(noise, middle, _SERIES) <= 0.97


def test_a_known_change_begins_the_series_anew() -> None:
    """It is no second candidate a run later, however far that is from where it would be found."""
    values = [*calm(30), *calm(30, math.log(1.2))]
    assert [each.at for each in find_change_points(values, {31}).changes] == [31]
    assert [each.at for each in find_change_points(values, {29}).changes] == [29]


_VALUES = st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=0, max_size=40)


@given(_VALUES, _VALUES)
def test_later_runs_change_nothing_that_was_found(before: list[float], after: list[float]) -> None:
    """A candidate stays where it is."""
    first = [(each.at, each.seen_at) for each in find_change_points(before).changes]
    both = [(each.at, each.seen_at) for each in find_change_points(before + after).changes]
    assert both[: len(first)] == first
    assert all(seen_at >= len(before) for _, seen_at in both[len(first) :])


@given(st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=15, max_size=40))
def test_the_unit_does_not_matter(values: list[float]) -> None:
    """Milliseconds and nanoseconds have the same change points."""
    one, other = (find_change_points([size * each for each in values]) for size in (1.0, 2.0**20))
    assert [each.at for each in one.changes] == [each.at for each in other.changes]


def test_a_change_has_enough_runs_on_both_sides() -> None:
    """Ten before, three after; a window of 50 runs decides."""
    assert FEWEST_BEFORE + FEWEST_AFTER <= MOST_BEFORE + MOST_AFTER
    short = [*calm(FEWEST_BEFORE), *calm(FEWEST_AFTER, math.log(1.2))]
    assert [each.at for each in find_change_points(short).changes] == [FEWEST_BEFORE]
    assert find_change_points(short[1:]).changes == ()
    assert find_change_points(short[:-1]).changes == ()


@pytest.mark.parametrize("place", range(12, 40, 3))
def test_a_large_step_is_found_where_it_is(place: int) -> None:
    """A run next to it that is low or high by chance belongs to the level that it is near."""
    chance = np.random.default_rng(place)
    for _ in range(20):
        values = chance.normal(1.0, 0.005, place + 10)
        values[place:] *= 1.5
        assert [each.at for each in find_change_points(list(values)).changes][:1] == [place]
