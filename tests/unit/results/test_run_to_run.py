"""Figures of several runs: how far they differ, and how many runs show a difference."""

import numpy as np
import pytest

from inferometer_api.judgement import (
    GROUPED_FALSE_ALARMS,
    PAIRED_FALSE_ALARMS,
    MarginRule,
    judge_groups,
    judge_pairs,
)
from inferometer_api.results.result import Finding, ResultDocument, Verdict
from inferometer_results.compare.run_to_run import Spread, name_spread, needed_runs, noise_of
from support.results import a_result, a_run
from support.steps import Load, a_step

_FIGURES = 5
_SINGLE = [{"name": "latency", "singleStream": {}}]


def a_spread(scatter: float, runs: int = 100) -> Spread:
    """Return a median that scatters by exactly this from run to run."""
    logs = np.random.default_rng(3).normal(0, 1, runs)
    logs = (logs - logs.mean()) / logs.std(ddof=1) * scatter
    return Spread("p50", "time", tuple(np.exp(logs) * 2e6))


def a_single_run(service_milliseconds: float, state: str = "VALID") -> ResultDocument:
    """Return a run of one scenario, measured once, whose server takes so long."""
    caution = Finding(rule="SingleWindow", message="once", figure="1 repeat", limit="2 repeats")
    document = a_result(run=a_run(_SINGLE))
    step = a_step(Load(service_milliseconds=service_milliseconds))
    verdict = Verdict.model_validate({"state": state, "cautions": [caution]})
    scenario = document.scenarios[0].model_copy(update={"steps": [step], "verdict": verdict})
    return document.model_copy(update={"scenarios": [scenario]})


@pytest.mark.parametrize(("scatter", "change"), [(0.03, 0.10), (0.03, 0.05), (0.01, 0.02)])
def test_the_needed_rounds_show_the_difference(scatter: float, change: float) -> None:
    """Of 1,000 interleaved series as long as advised at least 80 % show it, within chance."""
    needed = needed_runs(a_spread(scatter), change, figures=_FIGURES)
    assert needed.rounds is not None
    rule = MarginRule(needed.margin, PAIRED_FALSE_ALARMS, _FIGURES)
    chance = np.random.default_rng(11)
    found = 0
    for _ in range(1000):
        before, after = np.exp(chance.normal(0, scatter, (2, needed.rounds)))
        judged = judge_pairs(list(before), list(after * (1 + change)), rule, more_is_better=False)
        found += judged.outcome == "worse"
    assert found >= 770


def test_the_needed_repeats_show_the_difference() -> None:
    """Of 1,000 comparisons of so many repeats at least 80 % show it, within chance."""
    needed = needed_runs(a_spread(0.03), 0.10, figures=_FIGURES)
    assert needed.repeats is not None
    rule = MarginRule(needed.margin, GROUPED_FALSE_ALARMS, _FIGURES)
    chance = np.random.default_rng(11)
    found = 0
    for _ in range(1000):
        before, after = np.exp(chance.normal(0, 0.03, (2, needed.repeats)))
        judged = judge_groups(list(before), list(after * 1.1), rule, more_is_better=False)
        found += judged.outcome == "worse"
    assert found >= 770


def test_more_scatter_needs_more_runs() -> None:
    """Smaller differences and larger scatter need more, and too many are not planned."""
    few, more = (needed_runs(a_spread(scatter), 0.1).rounds for scatter in (0.02, 0.06))
    assert few is not None
    assert more is not None
    assert few < more
    assert needed_runs(a_spread(0.2), 0.02).rounds is None


def test_a_small_difference_needs_a_small_margin() -> None:
    """A difference below the usual margin cannot be shown with it: half of it is advised."""
    margins = [needed_runs(a_spread(0.01), change).margin for change in (0.02, 0.05, 0.10)]
    assert margins == [0.01, 0.03, 0.03]


def test_slow_drift_does_not_count_between_neighbours() -> None:
    """A figure that rises by 20 % over 40 runs differs little from one run to the next."""
    drifting = Spread("p50", "time", tuple(np.exp(np.linspace(0, 0.2, 40)) * 2e6))
    assert drifting.variation > 0.05
    assert drifting.neighbour_variation < 0.005


def test_noise_has_every_figure_once() -> None:
    """Rates of queries, the percentiles, and for each how wide one window's bounds are."""
    found = noise_of([a_single_run(20 + each / 10) for each in range(6)])
    assert found.runs == 6
    assert [each.name for each in found.spreads] == ["queries/s", "p50", "p90", "p99", "p99.9"]
    assert found.spreads[1].window is not None
    assert [each.change for each in found.needed] == [0.02, 0.05, 0.10]


def test_the_caution_names_the_spread_over_earlier_results() -> None:
    """Three results of a run are enough; the caution says how far their medians differ."""
    last = a_single_run(22)
    named = name_spread(last, [a_single_run(20), a_single_run(21)], "in results")
    (caution,) = named.scenarios[0].verdict.cautions
    assert "From run to run the p50 varies by 4.7" in caution.message
    assert "in 3 results of this run on this machine, in results" in caution.message


@pytest.mark.parametrize(
    "earlier", [[], [a_single_run(20)], [a_single_run(20), a_single_run(21, "INVALID")]]
)
def test_too_few_results_name_no_spread(earlier: list[ResultDocument]) -> None:
    """With two VALID results at most, the spread stays unknown."""
    last = a_single_run(22)
    assert name_spread(last, earlier, "in results") == last
