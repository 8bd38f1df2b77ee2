"""The time that a run still takes, at each report of its progress."""

from typing import Any

import pytest

from inferometer_api.plan.reports import ProgressReport, Stage
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.time_left import RemainingTime, TimeLeft
from support.runs import a_run


def _run(*scenarios: dict[str, Any], repeats: int = 1) -> BenchmarkRun:
    named = [{"name": f"s{index}", **each} for index, each in enumerate(scenarios)]
    validity = {
        "warmUpSeconds": 5,
        "minDurationSeconds": 20,
        "maxDurationSeconds": 60,
        "repeats": repeats,
    }
    return BenchmarkRun.model_validate(a_run(scenarios=named, validity=validity))


def _report(
    stage: Stage,
    index: int = 0,
    *,
    repeat: int = 1,
    repeats: int = 1,
    fraction: float = 0.0,
    elapsed: float = 0.0,
    step: str = "",
) -> ProgressReport:
    return ProgressReport(
        stage=stage,
        scenario=f"s{index}",
        scenario_index=index,
        scenario_count=2,
        repeat=repeat,
        repeat_count=repeats,
        fraction=fraction,
        elapsed_seconds=elapsed,
        step=step,
    )


@pytest.mark.parametrize(
    ("report", "seconds"),
    [
        (_report("Preparing"), 50),
        (_report("WarmUp", fraction=0.4), 48),
        (_report("Measuring", elapsed=0.5, fraction=0.025), 44.5),
        # The window takes 40 s at the pace so far, since the server is slow.
        (_report("Measuring", elapsed=10, fraction=0.25), 55),
        # At that pace it would take longer than it may.
        (_report("Measuring", elapsed=10, fraction=0.1), 75),
        (_report("Draining"), 25),
        (_report("Idle", 1, elapsed=1, fraction=0.2), 29),
        (_report("Measuring", 1, elapsed=15, fraction=0.75), 5),
    ],
)
def test_the_rest_is_planned_and_extrapolated(report: ProgressReport, seconds: float) -> None:
    """What has not begun takes what is planned; a window goes on at its pace so far."""
    remaining = RemainingTime(_run({"singleStream": {}}, {"singleStream": {}}))
    if report.scenario_index == 1:
        remaining.at(_report("Measuring", 0), 0.0)
    left = remaining.at(report, 0.0)
    assert left is not None
    assert left.seconds == pytest.approx(seconds)
    assert not left.is_bound


def test_steps_of_a_sweep_share_the_scenario() -> None:
    """Each step has its share of warm-up and window; steps before it are over."""
    remaining = RemainingTime(_run({"batch": {"batchSizes": [1, 2, 4, 8]}}))
    left = remaining.at(_report("WarmUp", step="batch 4", fraction=0.0), 0.0)
    assert left == TimeLeft(12.5, is_bound=False)


@pytest.mark.parametrize("is_repeat_first", [True, False])
def test_repeats_count_in_any_order(is_repeat_first: bool) -> None:  # noqa: FBT001 - a case of the test
    """Each repeat of each scenario counts once, whether scenarios or repeats alternate."""
    remaining = RemainingTime(_run({"singleStream": {}}, {"singleStream": {}}, repeats=2))
    order = [(0, 1), (0, 2), (1, 1), (1, 2)]
    if not is_repeat_first:
        order.sort(key=lambda each: each[1])
    found = [
        remaining.at(_report("Preparing", index, repeat=repeat, repeats=2), 0.0)
        for index, repeat in order
    ]
    assert found == [TimeLeft(seconds, is_bound=False) for seconds in (100, 75, 50, 25)]


def test_restarts_of_the_server_count() -> None:
    """Those still to come, and the one under way, which belongs to no scenario."""
    run = fill_defaults(_run({"singleStream": {}}, repeats=3))
    remaining = RemainingTime(run)
    assert remaining.at(_report("Preparing", repeats=3), 0.0) == TimeLeft(79, is_bound=False)
    restart = ProgressReport(stage="WaitingForRestart", repeat=2, repeat_count=3)
    assert remaining.at(restart, 25.0) == TimeLeft(54, is_bound=False)
    left = remaining.at(_report("Preparing", repeat=2, repeats=3), 27.0)
    assert left == TimeLeft(52, is_bound=False)


def test_a_search_has_a_bound() -> None:
    """As long as a search is to end, the time left is what it may take at most."""
    search = {"findPeak": {"latencyBoundMicroseconds": 1000, "probe": {"maxSeconds": 8}}}
    remaining = RemainingTime(_run(search, {"singleStream": {}}))
    assert remaining.at(_report("Preparing", step="one at a time"), 100.0) == TimeLeft(95, True)
    left = remaining.at(_report("Measuring", step="probe 3", elapsed=1, fraction=0.5), 130.0)
    assert left == TimeLeft(65, is_bound=True)
    assert str(left) == "at most 1 min 5 s left"
    assert str(remaining.at(_report("Preparing", 1), 140.0)) == "about 25 s left"


def test_an_evaluation_goes_on_at_its_rate_so_far() -> None:
    """Its data set, not its validity, sets its length: before its first answers it is unknown."""
    dataset = {"uri": "file:data.jsonl"}
    evaluation = {"accuracy": {"dataset": dataset, "metrics": ["Top1"]}}
    remaining = RemainingTime(_run({"singleStream": {}}, evaluation))
    assert remaining.at(_report("Measuring", elapsed=10, fraction=0.5), 0.0) is None
    assert remaining.at(_report("Preparing", 1), 20.0) is None
    left = remaining.at(_report("Measuring", 1, elapsed=30, fraction=0.01), 50.0)
    assert left is not None
    assert left.seconds == pytest.approx(2970)
    assert not left.is_bound
    later = RemainingTime(_run(evaluation, {"singleStream": {}}))
    left = later.at(_report("Measuring", elapsed=100, fraction=0.5), 100.0)
    assert left == TimeLeft(125, is_bound=False)


def test_nothing_is_known_before_the_servers_are_ready() -> None:
    """While the servers start there is no scenario, and no time left."""
    waiting = ProgressReport(stage="WaitingForServer")
    assert RemainingTime(_run({"singleStream": {}})).at(waiting, 0.0) is None
