"""Differences are reported as seldom as promised where there are none, and found where they are."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.judgement import (
    DEFAULT_MARGIN,
    GROUPED_FALSE_ALARMS,
    PAIRED_FALSE_ALARMS,
    Judgement,
    MarginRule,
    judge_groups,
    judge_pairs,
)
from support.noise_models import (
    ALL_NOISE,
    Noise,
    autoregressive,
    independent,
    processes,
    sticky_node,
    two_nodes,
)

_ROUNDS, _PAIRS = 12, 1000
_PAIRED = MarginRule(DEFAULT_MARGIN, PAIRED_FALSE_ALARMS)
_GROUPED = MarginRule(DEFAULT_MARGIN, GROUPED_FALSE_ALARMS)


def judged_pairs(noise: Noise, change: float, seed: int = 20261124) -> list[Judgement]:
    """Judge 1,000 interleaved series of 12 rounds whose second variant is slower by a fraction."""
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(_PAIRS):
        runs = noise(chance, 2 * _ROUNDS)
        # A B, B A, A B, ...
        first = [2 * each + each % 2 for each in range(_ROUNDS)]
        second = [2 * each + 1 - each % 2 for each in range(_ROUNDS)]
        before, after = np.exp(runs[first]), np.exp(runs[second]) * (1 + change)
        found.append(judge_pairs(list(before), list(after), _PAIRED, more_is_better=False))
    return found


def count(found: list[Judgement], *outcomes: str) -> int:
    """Return how many have one of these outcomes."""
    return sum(each.outcome in outcomes for each in found)


@pytest.mark.parametrize("noise", ALL_NOISE)
def test_interleaved_runs_of_equal_variants_show_no_difference(noise: Noise) -> None:
    """At most 2 of 1,000 series, whatever the noise of the machine."""
    assert count(judged_pairs(noise, 0.0), "better", "worse") <= 2


@pytest.mark.parametrize("noise", [independent, autoregressive, sticky_node])
def test_interleaved_runs_show_a_change_of_ten_percent(noise: Noise) -> None:
    """At least 95 % of series of 12 rounds, at a scatter of 3 %."""
    assert count(judged_pairs(noise, 0.1), "worse") >= 950


def test_a_detectable_change_is_detected_in_eight_of_ten() -> None:
    """The printed smallest change is the one that is found with a probability of 0.8."""
    detectable = float(np.median([each.detectable for each in judged_pairs(independent, 0.0)]))
    assert 740 <= count(judged_pairs(independent, detectable, seed=2), "worse") <= 860


def test_equality_is_seldom_claimed_of_variants_that_differ_by_the_margin() -> None:
    """At most 5 % of series, within chance."""
    found = judged_pairs(independent, DEFAULT_MARGIN)
    assert count(found, "equal") <= 65
    assert sum(each.is_no_worse for each in found) <= 65


def test_the_bounds_of_equal_variants_are_within_the_margin() -> None:
    """`equal` never stands next to bounds that leave the margin."""
    equal = [each for each in judged_pairs(independent, 0.0) if each.outcome == "equal"]
    assert len(equal) > 300
    for each in equal:
        assert 1 / (1 + DEFAULT_MARGIN) <= each.low <= each.high <= 1 + DEFAULT_MARGIN
        assert each.confidence == pytest.approx(0.9)


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


_TABLE = re.compile(r"^\| [^|]+ \| (\d+), (\d+), (\d+) \| (\d+), (\d+), (\d+) \|$", re.MULTILINE)


def test_the_table_of_the_documentation_is_what_repeats_show() -> None:
    """Each row has the alarms and the power for one kind of noise, drifting machines too."""
    page = Path(__file__).parents[3] / "docs" / "how-to" / "compare.md"
    rows = [tuple(map(int, row)) for row in _TABLE.findall(page.read_text())]
    assert rows == [
        tuple(
            count(judged_repeats(noise, repeats, change), "better", "worse")
            for change in (0.0, 0.1)
            for repeats in (3, 4, 5)
        )
        for noise in (independent, processes, two_nodes, autoregressive, sticky_node)
    ]
    # Where the machine does not drift, at most 1 %.
    assert all(max(row[:3]) <= 10 for row in rows[:3])


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
    found = judge_pairs(figures, scaled, _PAIRED, more_is_better=True)
    assert found.ratio == pytest.approx(factor)


def test_a_rule_for_several_figures_is_stricter() -> None:
    """The probability of a false alarm is shared by the figures."""
    before, after = [1.0, 1.01, 1.02, 1.03], [1.07, 1.08, 1.09, 1.12]
    alone = judge_groups(before, after, _GROUPED, more_is_better=False)
    together = judge_groups(
        before, after, MarginRule(DEFAULT_MARGIN, GROUPED_FALSE_ALARMS, 20), more_is_better=False
    )
    assert together.low < alone.low < alone.high < together.high
    assert (alone.outcome, together.outcome) == ("worse", "inconclusive")
