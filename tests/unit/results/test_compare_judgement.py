"""Differences are reported as seldom as promised where there are none, and found where they are."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    GROUPED_FALSE_ALARMS,
    GROUPED_STANDARD_ERRORS,
    PAIRED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    judge_groups,
    judge_pairs,
    part_of_look,
)
from support.noise_models import (
    ALL_NOISE,
    Logarithms,
    Noise,
    autoregressive,
    independent,
    processes,
    sticky_node,
    two_nodes,
)

_LOOKS, _PAIRS = (12, 24), 1000
_GROUPED = MarginRule(
    DEFAULT_MARGIN, GROUPED_FALSE_ALARMS, least_standard_errors=GROUPED_STANDARD_ERRORS
)


def paired_rule(look: int) -> MarginRule:
    """Return the rule of `ab` at its n-th look at a series."""
    return MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS, part=part_of_look(look))


def judged_pairs(
    noise: Noise, change: float, seed: int = 20261124, looks: Sequence[int] = _LOOKS[:1]
) -> list[Judgement]:
    """Judge 1,000 interleaved series whose second variant is slower by a fraction.

    Each is judged after the first number of rounds; while it is inconclusive, after the next one.
    """
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(_PAIRS):
        runs = noise(chance, 2 * max(looks))
        # A B, B A, A B, ...
        first = [2 * each + each % 2 for each in range(max(looks))]
        second = [2 * each + 1 - each % 2 for each in range(max(looks))]
        before, after = list(np.exp(runs[first])), list(np.exp(runs[second]) * (1 + change))
        for look, rounds in enumerate(looks, 1):
            pairs = (before[:rounds], after[:rounds])
            judged = judge_pairs(*pairs, paired_rule(look), more_is_better=False)
            if judged.outcome != "inconclusive":
                break
        found.append(judged)
    return found


def count(found: list[Judgement], *outcomes: str) -> int:
    """Return how many have one of these outcomes."""
    return sum(each.outcome in outcomes for each in found)


@pytest.mark.parametrize("noise", ALL_NOISE)
def test_interleaved_runs_of_equal_variants_show_no_difference(noise: Noise) -> None:
    """At most 2 of 1,000 series after both looks, whatever the noise of the machine."""
    assert count(judged_pairs(noise, 0.0, looks=_LOOKS), "better", "worse") <= 2


@pytest.mark.parametrize("noise", ALL_NOISE)
def test_rounds_added_again_and_again_show_no_difference(noise: Noise) -> None:
    """At most 2 of 1,000 series, if more rounds are added as long as they are inconclusive."""
    looks = (3, 4, 6, 8, 12, 16, 24)
    assert count(judged_pairs(noise, 0.0, looks=looks), "better", "worse") <= 2


def test_a_second_look_finds_what_the_first_one_could_not() -> None:
    """A change of 10 % where neighbouring runs scatter by 5 %: from half of them to nearly all."""

    def scattered(chance: np.random.Generator, runs: int) -> Logarithms:
        return chance.normal(0, 0.05, runs)

    one = count(judged_pairs(scattered, 0.1), "worse")
    two = count(judged_pairs(scattered, 0.1, looks=_LOOKS), "worse")
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
    assert count(judged_pairs(noise, 0.1, looks=_LOOKS), "worse") >= 950


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
    found = judged_pairs(independent, DEFAULT_MARGIN, looks=_LOOKS)
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
            _GROUPED,
            more_is_better=False,
        )
        for _ in range(1000)
    ]
    assert count(found, "better", "worse") <= 10


def judged_repeats(noise: Noise, repeats: int, change: float) -> list[Judgement]:
    """Judge 1,000 pairs of results with so many repeats, the second measured after the first."""
    chance = np.random.default_rng(20261124)
    found = []
    for _ in range(_PAIRS):
        runs = noise(chance, 2 * repeats)
        before, after = np.exp(runs[:repeats]), np.exp(runs[repeats:]) * (1 + change)
        found.append(judge_groups(list(before), list(after), _GROUPED, more_is_better=False))
    return found


_CELL = r" (\d+), (\d+), (\d+) \|"
_TABLE = re.compile(rf"^\| [^|]+ \|{_CELL * 3}$", re.MULTILINE)


def test_the_table_of_the_documentation_is_what_repeats_show() -> None:
    """Each row has the alarms and the power for one kind of noise; at most 1 % are alarms."""
    page = Path(__file__).parents[3] / "docs" / "how-to" / "compare.md"
    rows = [tuple(map(int, row)) for row in _TABLE.findall(page.read_text())]
    assert rows == [
        tuple(
            count(judged_repeats(noise, repeats, change), "better", "worse")
            for change in (0.0, 0.1, 0.2)
            for repeats in (3, 4, 5)
        )
        for noise in (independent, processes, two_nodes, autoregressive, sticky_node)
    ]
    assert all(max(row[:3]) <= 10 for row in rows)


_FIGURES = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=3, max_size=8)


@given(before=_FIGURES, after=_FIGURES, more_is_better=st.booleans())
def test_turning_a_comparison_round_turns_its_outcome_round(
    before: list[float], after: list[float], *, more_is_better: bool
) -> None:
    """The ratio is within its bounds, and the same figures the other way round are the opposite."""
    there = judge_groups(before, after, _GROUPED, more_is_better=more_is_better)
    back = judge_groups(after, before, _GROUPED, more_is_better=more_is_better)
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
