"""Comparisons and gates keep the rates of false alarms that the documentation promises.

Simulations of thousands of series with fixed seeds; the tests of single rules are in tests/unit.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from bench.ab_record import CSV, section
from bench.alarm_rules import PAGE
from bench.alarm_rules import section as rules_section

from inferometer_api.judgement import Judgement, judge_groups
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.suite.progress import RunOutcome
from support.judged_series import GROUPED, SERIES, count, judged_pairs
from support.noise_models import (
    ALL_NOISE,
    Noise,
    autoregressive,
    independent,
    processes,
    sticky_node,
    two_nodes,
)
from support.suite_gates import ARMED, AXIS, noisy, of_anchor
from support.suites import a_suite, an_axis, outcomes, parsed, planned, sweeps

_CELL = r" (\d+), (\d+), (\d+) \|"
_TABLE = re.compile(rf"^\| [^|]+ \|{_CELL * 3}$", re.MULTILINE)


@pytest.mark.parametrize("noise", ALL_NOISE)
def test_rounds_added_again_and_again_show_no_difference(noise: Noise) -> None:
    """At most 2 of 1,000 series, if more rounds are added as long as they are inconclusive."""
    looks = (3, 4, 6, 8, 12, 16, 24)
    assert count(judged_pairs(noise, 0.0, looks=looks), "better", "worse") <= 2


def judged_repeats(noise: Noise, repeats: int, change: float) -> list[Judgement]:
    """Judge 1,000 pairs of results with so many repeats, the second measured after the first."""
    chance = np.random.default_rng(20261124)
    found = []
    for _ in range(SERIES):
        runs = noise(chance, 2 * repeats)
        before, after = np.exp(runs[:repeats]), np.exp(runs[repeats:]) * (1 + change)
        found.append(judge_groups(list(before), list(after), GROUPED, more_is_better=False))
    return found


def test_the_table_of_the_documentation_is_what_repeats_show() -> None:
    """Each row has the alarms and the power for one kind of noise; at most 1 % are alarms."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "compare.md"
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


def test_equal_variants_of_many_steps_fail_as_seldom() -> None:
    """Each step counts as a comparison: 300 A/A suites of 8 cells with 16 steps, at most 3 fail."""
    axes = [an_axis("stack", "old", "new"), an_axis("a", *"abcd", path="spec.load.seed")]
    data = a_suite(repeats=5, axes=axes, **AXIS)
    suite, plan = parsed(data), planned(data)

    def found(seed: int) -> list[RunOutcome]:
        latency = noisy(seed, spread=0.03)
        return sweeps(plan, lambda run, _: latency(run), [2**at for at in range(16)])

    gates = [judge_suite(suite.spec, plan, found(seed), ()) for seed in range(300)]
    assert {each.judged for each in gates} == {4 * 16 * 2}
    assert sum(each.outcome == "FAIL" for each in gates) <= 3


def test_equal_variants_fail_at_most_one_suite_in_a_hundred() -> None:
    """500 A/A suites of 20 cells against an axis: at most 5 fail, and none because of its size."""
    data = a_suite(
        repeats=5,
        axes=[an_axis("stack", "old", "new"), an_axis("a", *"abcdefghij", path="spec.load.seed")],
        **AXIS,
    )
    plan: SuitePlan = planned(data)
    suite, armed = parsed(data), of_anchor(plan, ARMED)
    failed = sum(
        judge_suite(suite.spec, plan, outcomes(plan, noisy(seed, spread=0.04)), armed).outcome
        == "FAIL"
        for seed in range(500)
    )
    assert failed <= 5


def test_the_page_has_the_recorded_series() -> None:
    """Both tables are what the recorded runs give."""
    page = PAGE.read_text(encoding="utf-8")
    assert section(CSV) in page
    assert rules_section(CSV) in page
