"""Progress counts steps by their labels."""

import pytest

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.scenarios.table import usual_labels
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.reconcile.progress import percent_complete
from support.runs import a_run

_SWEEP: dict[str, object] = {"name": "sweep", "concurrency": {"clients": [1, 2, 4, 8]}}
_SEARCH: dict[str, object] = {"name": "search", "findPeak": {"latencyBoundMicroseconds": 1000}}


def _percent(member: dict[str, object], step: str) -> int:
    """Return the percentage when a step of the only scenario is drained."""
    run = BenchmarkRun.model_validate(a_run(scenarios=[member]))
    report = ProgressReport(stage="Draining", step=step, scenario_count=1)
    return percent_complete(report, run.spec)


def test_an_evaluation_counts_its_samples() -> None:
    """It has no warm-up, so its first sample is the beginning."""
    accuracy = {"dataset": {"uri": "https://h/data.jsonl", "sha256": "0" * 64}, "metrics": ["Top1"]}
    run = BenchmarkRun.model_validate(a_run(scenarios=[{"name": "acc", "accuracy": accuracy}]))
    sending = ProgressReport(stage="Measuring", sample_count=200, scenario_count=1)
    assert percent_complete(sending, run.spec) == 0
    assert percent_complete(sending.model_copy(update={"fraction": 0.3}), run.spec) == 30


@pytest.mark.parametrize("index", range(4))
def test_a_step_counts_by_its_place_among_the_labels(index: int) -> None:
    """Each of four steps is a quarter; 100 % is left to the end of the run."""
    run = BenchmarkRun.model_validate(a_run(scenarios=[_SWEEP]))
    labels = usual_labels(run.spec.scenarios[0])
    assert len(labels) == 4
    assert _percent(_SWEEP, labels[index]) == min(99, 25 * (index + 1))


def test_a_step_without_a_known_label_is_the_first() -> None:
    """A scenario that has not named its step yet has made no progress beyond it."""
    assert _percent(_SWEEP, "") == 25
    assert _percent(_SWEEP, "something else") == 25


def test_an_unusual_probe_of_a_search_is_its_last() -> None:
    """How many probes there will be is not known: the usual number counts."""
    assert _percent(_SEARCH, "a further probe") == 99
    assert _percent(_SEARCH, "") < 50
