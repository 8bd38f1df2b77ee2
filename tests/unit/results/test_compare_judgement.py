"""Differences are reported as seldom as promised where there are none, and found where they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    GROUPED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    judge_groups,
    judge_pairs,
    part_of_look,
)
from support.judged_series import GROUPED, LOOKS, count, judged_pairs, paired_rule
from support.noise_models import (
    ALL_NOISE,
    Logarithms,
    Noise,
    autoregressive,
    independent,
    sticky_node,
)


@pytest.mark.parametrize("noise", ALL_NOISE)
def test_interleaved_runs_of_equal_variants_show_no_difference(noise: Noise) -> None:
    """At most 2 of 1,000 series after both looks, whatever the noise of the machine."""
    assert count(judged_pairs(noise, 0.0, looks=LOOKS), "better", "worse") <= 2


def test_a_second_look_finds_what_the_first_one_could_not() -> None:
    """A change of 10 % where neighbouring runs scatter by 5 %: from half of them to nearly all."""

    def scattered(chance: np.random.Generator, runs: int) -> Logarithms:
        return chance.normal(0, 0.05, runs)

    one = count(judged_pairs(scattered, 0.1), "worse")
    two = count(judged_pairs(scattered, 0.1, looks=LOOKS), "worse")
    assert one < 700
    assert two > 950


def test_all_looks_together_spend_one_probability() -> None:
    """However many there are; each further look spends half of the rest."""
    parts = [part_of_look(look) for look in range(1, 50)]
    assert sum(parts) <= 1
    assert sum(parts[:2]) == pytest.approx(0.9)
    assert parts == sorted(parts, reverse=True)


@pytest.mark.parametrize("noise", [independent, autoregressive, sticky_node])
def test_interleaved_runs_show_a_change_of_ten_percent(noise: Noise) -> None:
    """At least 95 % of series, at a scatter of 3 %."""
    assert count(judged_pairs(noise, 0.1, looks=LOOKS), "worse") >= 950


def test_twelve_rounds_show_a_change_of_ten_percent_at_the_first_look() -> None:
    """At least 98 % of series whose runs scatter by 3 % need no second look."""
    assert count(judged_pairs(independent, 0.1), "worse") >= 980


def test_a_detectable_change_is_detected_in_eight_of_ten() -> None:
    """The printed smallest change is the one that is found with a probability of 0.8."""
    detectable = float(np.median([each.detectable for each in judged_pairs(independent, 0.0)]))
    assert 740 <= count(judged_pairs(independent, detectable, seed=2), "worse") <= 860


@pytest.mark.parametrize(("pairs", "figures", "scatter"), [(3, 4, 0.01), (8, 40, 0.03)])
def test_few_pairs_of_many_figures_find_their_detectable_change(
    pairs: int, figures: int, scatter: float
) -> None:
    """In eight of ten, although few runs say little of the scatter, and a gate is strict."""
    chance, rule = np.random.default_rng(5), MarginRule(0.05, 0.01, figures)

    def judged(change: float) -> list[Judgement]:
        return [
            judge_pairs(
                list(np.exp(chance.normal(0, scatter, pairs))),
                list(np.exp(chance.normal(0, scatter, pairs)) * (1 + change)),
                rule,
                more_is_better=False,
            )
            for _ in range(1000)
        ]

    detectable = float(np.median([each.detectable for each in judged(0.0)]))
    assert 740 <= count(judged(detectable), "worse") <= 860


def test_equality_is_seldom_claimed_of_variants_that_differ_by_the_margin() -> None:
    """At most 5 % of series after both looks, within chance."""
    found = judged_pairs(independent, DEFAULT_MARGIN, looks=LOOKS)
    assert count(found, "equal") <= 65
    assert sum(each.is_no_worse for each in found) <= 65


def test_the_bounds_of_equal_variants_are_within_the_margin() -> None:
    """`equal` never stands next to bounds that leave the margin."""
    equal = [each for each in judged_pairs(independent, 0.0) if each.outcome == "equal"]
    assert len(equal) > 150
    for each in equal:
        assert 1 / (1 + DEFAULT_MARGIN) <= each.low <= each.high <= 1 + DEFAULT_MARGIN
        assert each.confidence == pytest.approx(0.95)


@pytest.mark.parametrize("repeats", [3, 4, 5])
@pytest.mark.parametrize("scatter", [0.01, 0.03, 0.1, 0.2])
def test_repeats_of_equal_variants_show_no_difference(repeats: int, scatter: float) -> None:
    """At most 1 % of 1,000 comparisons."""
    chance = np.random.default_rng(7)
    found = [
        judge_groups(
            list(np.exp(chance.normal(0, scatter, repeats))),
            list(np.exp(chance.normal(0, scatter, repeats))),
            GROUPED,
            more_is_better=False,
        )
        for _ in range(1000)
    ]
    assert count(found, "better", "worse") <= 10


_FIGURES = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=3, max_size=8)


@given(before=_FIGURES, after=_FIGURES, more_is_better=st.booleans())
def test_turning_a_comparison_round_turns_its_outcome_round(
    before: list[float], after: list[float], *, more_is_better: bool
) -> None:
    """The ratio is within its bounds, and the same figures the other way round are the opposite."""
    there = judge_groups(before, after, GROUPED, more_is_better=more_is_better)
    back = judge_groups(after, before, GROUPED, more_is_better=more_is_better)
    assert there.low <= there.ratio * (1 + 1e-9)
    assert there.ratio <= there.high * (1 + 1e-9)
    assert there.ratio == pytest.approx(1 / back.ratio)
    opposite = {"better": "worse", "worse": "better"}
    assert back.outcome == opposite.get(there.outcome, there.outcome)


@given(_FIGURES, st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_does_not_matter(figures: list[float], factor: float) -> None:
    """The same figures in another unit have that ratio, without scatter between the pairs."""
    scaled = [each * factor for each in figures]
    found = judge_pairs(figures, scaled, paired_rule(1), more_is_better=True)
    assert found.ratio == pytest.approx(factor)


@pytest.mark.parametrize(("freedom", "beyond"), [(4, 2.776), (11, 2.201), (60, 2.000)])
def test_a_difference_is_judged_from_both_sides(freedom: int, beyond: float) -> None:
    """At 95 % the standard errors are those of the two-sided column of a printed table of t."""
    assert MarginRule(0.03, 0.05).standard_errors(freedom) == pytest.approx(beyond, abs=0.0005)


def test_a_rule_for_several_figures_is_stricter() -> None:
    """The probability of a false alarm is shared by the figures."""
    before, after = [1.0, 1.01, 1.02, 1.03], [1.07, 1.08, 1.09, 1.12]
    alone, together = (
        judge_groups(
            before,
            after,
            MarginRule(DEFAULT_MARGIN, GROUPED_FALSE_ALARMS, figures),
            more_is_better=False,
        )
        for figures in (1, 20)
    )
    assert together.low < alone.low < alone.high < together.high
    assert (alone.outcome, together.outcome) == ("worse", "inconclusive")
