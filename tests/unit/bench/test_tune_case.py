"""The case tune compares a search with the grid of its candidates."""

from collections.abc import Mapping
from typing import Any

import pytest
from bench.case_tune import cell_run, compare

CELLS = [{"runtime": "OnnxRuntime", "threads": threads} for threads in (1, 2, 4, 8)]


class Machine:
    """Measures cells at once: rates by threads, and each measurement noted."""

    def __init__(self, rates: Mapping[int, list[float]]) -> None:
        self.rates = {threads: list(each) for threads, each in rates.items()}
        self.seeds: list[int] = []

    def rate(self, server: Mapping[str, Any], seed: int) -> float:
        """Return the next rate of a cell; its last one for ever."""
        self.seeds.append(seed)
        left = self.rates[server["threads"]]
        return left.pop(0) if len(left) > 1 else left[0]


def _summary(tuned: int, excluded: tuple[int, ...] = ()) -> dict[str, Any]:
    confirmed = [{"server": CELLS[tuned], "qps": 1.0}]
    left_out = {str(each): "it computes something else" for each in excluded}
    return {"candidates": CELLS, "confirmed": confirmed, "excluded": left_out}


def test_a_lucky_cell_of_the_grid_is_measured_again() -> None:
    """The rates are medians of fresh measurements, each with a seed of its own."""
    machine = Machine(
        {1: [50.0], 2: [100.0, 98.0, 102.0, 99.0], 4: [130.0, 90.0, 97.0, 91.0], 8: [1]}
    )
    found = compare(_summary(tuned=1), 12.0, machine.rate)
    assert found["inferometer tune"]["rate"] == 99.0
    assert found["full grid"]["rate"] == 91.0
    assert found["inferometer tune"]["seconds"] == 12.0
    assert len(machine.seeds) == len(set(machine.seeds)) == len(CELLS) + 6


def test_the_same_best_cell_is_measured_once_more() -> None:
    """Both have its rate."""
    machine = Machine({1: [50.0], 2: [100.0, 98.0], 4: [70.0], 8: [1]})
    found = compare(_summary(tuned=1), 12.0, machine.rate)
    assert found["inferometer tune"]["rate"] == found["full grid"]["rate"] == 98.0


def test_a_cell_that_computes_something_else_is_not_the_best_of_the_grid() -> None:
    """However fast; it is measured, since a grid would have to."""
    machine = Machine({1: [50.0], 2: [100.0], 4: [70.0], 8: [900.0]})
    found = compare(_summary(tuned=1, excluded=(3,)), 12.0, machine.rate)
    assert found["full grid"]["rate"] == 100.0
    assert found["full grid"]["cells"] == 4


def test_a_cell_differs_from_the_written_run_by_server_and_seed() -> None:
    """All else stays as tune confirmed it."""
    spec = {"model": {"uri": "m"}, "server": CELLS[1], "load": {"seed": 1, "connections": 9}}
    made = cell_run({"kind": "BenchmarkRun", "spec": spec}, CELLS[0], 7)
    assert made["spec"]["server"] == CELLS[0]
    assert made["spec"]["load"] == {"seed": 7, "connections": 9}
    assert made["spec"]["model"] == spec["model"]
    assert spec["load"] == {"seed": 1, "connections": 9}


def test_a_search_that_found_no_candidate_of_the_grid_is_an_error() -> None:
    """Its figures would be invented."""
    summary = _summary(tuned=1) | {"confirmed": [{"server": {"runtime": "Other"}}]}
    with pytest.raises(ValueError, match="not in list"):
        compare(summary, 1.0, Machine({}).rate)
