"""The gate of a suite: figures that cannot be judged, and why."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inferometer_api.status.run_status import ScenarioSummary, StepSummary
from inferometer_api.suite.plan_suite import PlannedRun, SuitePlan
from inferometer_api.suite.progress import RunOutcome
from support.suite_gates import AXIS, judged, measured_before, noisy
from support.suites import NODE, a_suite, an_axis, an_outcome, outcomes, planned, sweeps

Change = Callable[[PlannedRun, RunOutcome], RunOutcome]


def is_new(run: PlannedRun, after: int = 0) -> bool:
    """Return whether a run is one of the cell `new`, after a number of blocks."""
    return run.role == "cell" and ("stack", "new") in run.cell.values and run.block.repeat > after


def changed(plan: SuitePlan, found: list[RunOutcome], change: Change) -> list[RunOutcome]:
    """Return outcomes, of which those of each run are changed."""
    return [change(run, each) for run, each in zip(plan.runs, found, strict=True)]


def swept(plan: SuitePlan, clients: list[int]) -> list[RunOutcome]:
    """Return outcomes of equal variants over numbers of clients."""
    latency = noisy(1)
    return sweeps(plan, lambda run, _: latency(run), clients)


def with_scenario(**kind: Any) -> dict[str, Any]:
    """Return a suite of which the template has one more scenario, `second`."""
    axes = [an_axis("stack", "old", "new", path="spec.server.threads")]
    data = a_suite(repeats=8, axes=axes, **AXIS)
    data["spec"]["template"]["spec"]["scenarios"].append({"name": "second", **kind})
    return data


def second(each: RunOutcome, **figures: Any) -> RunOutcome:
    """Return an outcome with the figures of one more scenario."""
    summary = ScenarioSummary(name="second", verdict="VALID", **figures)
    return replace(each, scenarios=(*each.scenarios, summary))


def test_a_profile_is_not_judged() -> None:
    """It is no baseline, as for `compare`, however slow its queries are."""
    data = with_scenario(profile={"batchSizes": [1]})
    plan = planned(data)

    def slower(run: PlannedRun, each: RunOutcome) -> RunOutcome:
        p50 = (20_000 if is_new(run) else 10_000) + run.block.repeat
        return second(each, p50_microseconds=p50, achieved_milli_qps=10**9 // p50)

    found = changed(plan, outcomes(plan, noisy(1)), slower)
    reason = "not judged. A profile is no baseline. Measure profiles in a suite without a gate."
    gate = judged(data, found)
    assert (gate.outcome, gate.judged, gate.slower) == ("INCONCLUSIVE", 2, [])
    assert gate.reasons == [f"new, second: {reason}"]
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    earlier = measured_before(plan, changed(plan, outcomes(plan, noisy(2)), second_alone))
    gate = judged(data, found, baseline=earlier)
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 4)
    assert gate.reasons == [f"{cell}, second: {reason}" for cell in ("old", "new")]


def second_alone(_: PlannedRun, each: RunOutcome) -> RunOutcome:
    """Return an outcome with one more scenario without figures."""
    return second(each)


@pytest.mark.parametrize("before", [{"axis": "stack", "value": "old"}, {"suite": "nightly"}])
def test_a_step_that_some_runs_lack_is_not_judged(before: dict[str, str]) -> None:
    """Five of eight runs lack it: the other three decide nothing."""
    data = a_suite(repeats=8, baseline=before, gate={})
    plan = planned(data)
    whole, less = swept(plan, [1, 4]), swept(plan, [1])
    found = [
        some if is_new(run, after=3) else each
        for run, each, some in zip(plan.runs, whole, less, strict=True)
    ]
    gate = judged(data, found, baseline=measured_before(plan, whole))
    assert gate.outcome == "INCONCLUSIVE"
    assert {each.step for each in gate.slower} == set()
    assert gate.reasons == [
        "new, latency: not judged. 5 of 16 runs lack a figure of clients 4. Look at their results."
    ]


def test_a_step_without_figures_is_no_pass() -> None:
    """On both sides, and a scenario that no status has."""
    data = a_suite(repeats=8, **AXIS)
    plan = planned(data)

    def without_four(_: PlannedRun, each: RunOutcome) -> RunOutcome:
        (summary,) = each.scenarios
        steps = [summary.steps[0], StepSummary(step="clients 4")]
        return replace(each, scenarios=(summary.model_copy(update={"steps": steps}),))

    gate = judged(data, changed(plan, swept(plan, [1, 4]), without_four))
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 2)
    nothing = "not judged. No run has a rate or a median latency"
    assert gate.reasons == [f"new, latency: {nothing} of clients 4. Look at the results."]
    data = with_scenario(concurrency={"clients": [2]})
    plan = planned(data)
    good = outcomes(plan, noisy(1))
    for found in (good, changed(plan, good, second_alone)):
        gate = judged(data, found)
        assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 2)
        assert gate.reasons == [f"new, second: {nothing}. Look at the results."]


def test_a_search_without_a_peak_is_named() -> None:
    """In two of eight runs of one side; more repeats would not help."""
    data = a_suite(repeats=8, **AXIS)
    template = data["spec"]["template"]["spec"]
    template["scenarios"] = [{"name": "latency", "findPeak": {"latencyBoundMicroseconds": 1000}}]
    plan = planned(data)

    def peak(run: PlannedRun, each: RunOutcome) -> RunOutcome:
        qps = None if is_new(run, after=6) else 100_000 + run.block.repeat
        found = ScenarioSummary(name="latency", verdict="VALID", peak_milli_qps=qps)
        return replace(each, scenarios=(found,))

    gate = judged(data, changed(plan, outcomes(plan, noisy(1)), peak))
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    assert gate.reasons == [
        "new, latency: not judged. 2 of 16 runs found no peak. Their results have the reason."
    ]


def test_invalid_runs_are_named_as_such() -> None:
    """One line for a cell: more repeats are no remedy for what makes them INVALID."""
    data = a_suite(repeats=8, **AXIS)
    plan = planned(data)
    good = outcomes(plan, noisy(1))

    def invalid(after: int) -> list[RunOutcome]:
        return changed(
            plan, good, lambda run, each: an_outcome(state="I") if is_new(run, after) else each
        )

    assert judged(data, invalid(0)).reasons == [
        "new: not judged. In no block that counts are both its run and the run of old VALID."
    ]
    gate = judged(data, invalid(2))
    few = "new: measured 2 times next to the baseline, and 3 are needed."
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    (reason,) = gate.reasons
    assert reason.startswith(f"{few} Other runs are INVALID, or their blocks do not count.")
    data["spec"] |= {"baseline": {"suite": "nightly"}}
    gate = judged(data, good, baseline=measured_before(plan, invalid(2)))
    assert gate.reasons == [f"{few} The baseline has no more VALID runs: raise its repeats."]


def test_two_pairs_on_one_node_do_not_decide() -> None:
    """The others were on two nodes: that is the reason, and not too few repeats."""
    data = a_suite(repeats=8, **AXIS)
    plan = planned(data)

    def elsewhere(run: PlannedRun, each: RunOutcome) -> RunOutcome:
        return replace(each, node="node-b" if is_new(run, after=2) else NODE)

    gate = judged(data, changed(plan, outcomes(plan, noisy(1, 1.3)), elsewhere))
    assert (gate.outcome, gate.judged) == ("INCONCLUSIVE", 0)
    (reason,) = gate.reasons
    assert reason.startswith("new, latency: not judged. The runs were on several nodes")
