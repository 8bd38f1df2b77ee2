"""The recorded grids of `inferometer tune`: its search finds their best settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from bench.tune_grids import MODELS, TRIALS, read_grids

from inferometer_analysis.tune.halving import FINALISTS, Halving, plan_rungs

FULL_SECONDS, START_SECONDS = 60.0, 2.0
SEARCHES = 5
"""For each grid: each has an order and measurements by chance."""
GRIDS = read_grids()
Grid = Mapping[str, Sequence[float]]


def replayed(grid: Grid, seed: int, *, is_blind: bool = False) -> tuple[float, float]:
    """Search a grid by its recorded trials; return the share of the best rate and of the time.

    The rate of settings is the mean of their trials. Each measurement of the search is one of them,
    or of other settings if the search is blind.
    """
    trials = np.array(list(grid.values()))
    rates = trials.mean(axis=1)
    chance = np.random.default_rng(seed)
    seen = chance.permutation(trials) if is_blind else trials
    rungs = plan_rungs(len(rates), full_seconds=FULL_SECONDS, start_seconds=START_SECONDS)
    search = Halving(len(rates), rungs, seed)
    spent = FINALISTS * (START_SECONDS + FULL_SECONDS)
    while (round_ := search.next_round())[0]:
        for index in round_[0]:
            search.observe(index, float(chance.choice(seen[index])), round_[1])
            spent += START_SECONDS + round_[1]
    best = max(rates[each] for each in search.finalists())
    return best / rates.max(), spent / (len(rates) * (START_SECONDS + FULL_SECONDS))


def shares_of(grids: Mapping[str, Grid], *, is_blind: bool = False) -> dict[tuple[str, int], float]:
    """Return the share of the best rate that each search of each grid reaches."""
    return {
        (model, seed): replayed(grid, seed, is_blind=is_blind)[0]
        for model, grid in grids.items()
        for seed in range(SEARCHES)
    }


def test_nine_of_ten_searches_of_recorded_grids_find_95_percent_of_the_best() -> None:
    """In a fifth of the time of the whole grid; a search that sees other rates does not."""
    assert {model: len(grid) for model, grid in GRIDS.items()} == dict.fromkeys(MODELS, 27)
    assert max(replayed(grid, 0)[1] for grid in GRIDS.values()) <= 0.2 + 1e-9
    shares = shares_of(GRIDS)
    assert sum(each >= 0.95 for each in shares.values()) >= 0.9 * len(shares), shares
    blind = shares_of(GRIDS, is_blind=True)
    assert sum(each >= 0.95 for each in blind.values()) < 0.9 * len(blind)


def test_instances_and_batches_alone_reach_95_percent_for_15_of_20_models() -> None:
    """Model Analyzer's quick search has no other dimensions: docs/how-to/tune.md cites this."""
    shares = []
    for grid in GRIDS.values():
        rates = {label: float(np.mean(trials)) for label, trials in grid.items()}
        words = ("OnnxRuntime, 1 instance of 1 thread", "OnnxRuntime, 2 instances of 1 thread")
        reached = [rate for label, rate in rates.items() if label.startswith(words)]
        assert len(reached) == 6
        shares.append(max(reached) / max(rates.values()))
    assert sum(each >= 0.95 for each in shares) == 15
    assert min(shares) == pytest.approx(0.69, abs=0.005)


def test_a_grid_is_read_once_all_its_trials_are_recorded(tmp_path: Path) -> None:
    """Settings with fewer trials leave their model out."""
    path = tmp_path / "grids.csv"
    assert read_grids(path) == {}
    lines = [f"{model},x,{each},{each}.5" for model in "ab" for each in range(1, TRIALS + 1)]
    path.write_text("\n".join(["model,settings,trial,qps", *lines, "b,y,1,7.0"]) + "\n")
    assert read_grids(path) == {"a": {"x": [each + 0.5 for each in range(1, TRIALS + 1)]}}
