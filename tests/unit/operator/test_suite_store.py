"""What an operator keeps of the runs of a suite."""

from typing import Any

import pytest

from inferometer_api.suite.figures import scenario_specs
from inferometer_api.suite.labels import ROLE_LABEL
from inferometer_operator.wiring.operator_stats import SuiteGateOutcome
from inferometer_operator.wiring.suite.pool import newest_gate
from inferometer_operator.wiring.suite.store import SuiteStore

_OWNER = {"kind": "BenchmarkSuite", "name": "s", "uid": "suite-1", "controller": True}


def a_run(phase: str, version: int) -> dict[str, Any]:
    """Return a run of a suite: Measuring, or Complete with figures."""
    over = phase == "Complete"
    conditions = [
        {
            "type": name,
            "status": "True" if over else "False",
            "reason": "Complete",
            "lastTransitionTime": "2026-06-01T03:00:00Z",
        }
        for name in ("Complete", "Valid", "Finished")
    ]
    scenario = {"name": "latency", "verdict": "VALID", "p50Microseconds": 900}
    return {
        "metadata": {
            "name": "a-run",
            "uid": "run-1",
            "resourceVersion": str(version),
            "ownerReferences": [_OWNER],
        },
        "status": {
            "phase": phase,
            "conditions": conditions,
            "scenarios": [scenario] if over else [],
        },
    }


@pytest.mark.parametrize(("phase", "stays"), [("Measuring", False), ("Complete", True)])
@pytest.mark.parametrize("way", ["event", "list"])
def test_a_run_that_is_over_keeps_its_figures_when_it_is_deleted(
    phase: str, way: str, *, stays: bool
) -> None:
    """Its own retention may delete it at once: it is neither lost to the gate nor "deleted"."""
    store = SuiteStore()
    assert store.put_run(a_run("Measuring", 1)) == "suite-1"
    store.put_run(a_run(phase, 2))
    if way == "event":
        changed = {store.remove_run(a_run(phase, 3))} - {""}
    else:
        changed = store.retain_runs(frozenset())
    assert changed == (set() if stays else {"suite-1"})
    kept = store.runs["suite-1"].get("a-run")
    assert (kept is not None) == stays
    if kept is not None:
        assert (kept.outcome.state, kept.outcome.scenarios[0].p50_microseconds) == ("V", 900)


def a_suite_of(uid: str, created: int, *, complete: bool = True, **spec: Any) -> dict[str, Any]:
    """Return a suite that was created at a second of a minute, and its condition Complete."""
    condition = {
        "type": "Complete",
        "status": "True" if complete else "False",
        "reason": "Complete",
        "lastTransitionTime": "2026-06-01T03:00:00Z",
    }
    return {
        "metadata": {
            "name": f"suite-{uid}",
            "namespace": "n",
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": f"2026-06-01T03:00:{created:02}Z",
        },
        "spec": spec,
        "status": {"conditions": [condition]},
    }


@pytest.mark.parametrize(
    ("created", "complete", "is_baseline"),
    [(1, True, True), (1, False, False), (9, True, False)],
    ids=["before and complete", "not complete", "created later"],
)
def test_a_baseline_is_complete_and_older(
    created: int, *, complete: bool, is_baseline: bool
) -> None:
    """A suite that failed, or that was created after this one, says nothing about before."""
    store, own = SuiteStore(), a_suite_of("own", 5)
    store.put_suite(own)
    store.put_suite(a_suite_of("other", created, complete=complete))
    assert (store.baseline(own, "suite-other") is not None) == is_baseline


def test_a_baseline_knows_its_nodes_and_how_its_scenarios_are_specified() -> None:
    """The gate compares no others, and the suite of the baseline may have been another one."""
    store, own = SuiteStore(), a_suite_of("own", 5)
    store.put_suite(own)
    store.put_suite(a_suite_of("1", 1))
    run = a_run("Complete", 1)
    run["metadata"] |= {"ownerReferences": [{**_OWNER, "uid": "1"}], "labels": {ROLE_LABEL: "cell"}}
    run["spec"] = {"scenarios": [{"name": "latency", "singleStream": {}}]}
    run["status"]["nodes"] = ["node-b", "node-a"]
    store.put_run(run)
    found = store.baseline(own, "suite-1")
    assert found is not None
    ((measured,),) = (each.runs for each in found.values())
    assert measured.specs == scenario_specs(run["spec"])
    assert measured.node == "node-a,node-b"


def test_no_suite_is_its_own_baseline() -> None:
    """It would pass whatever it measures."""
    store, own = SuiteStore(), a_suite_of("own", 5)
    store.put_suite(own)
    assert store.baseline(own, "suite-own") is None


@pytest.mark.parametrize(
    ("second", "gate", "shown"),
    [(9, None, None), (1, None, "FAIL"), (9, "PASS", "PASS")],
    ids=["later without a gate", "earlier without a gate", "later with another outcome"],
)
def test_the_gate_that_is_shown_is_that_of_the_last_execution(
    second: int, gate: str | None, shown: str | None
) -> None:
    """An alert ends with the next execution, although that one has no gate."""
    held = SuiteGateOutcome("FAIL", armed=True, time="2026-06-01T03:00:05Z")
    suite = a_suite_of("own", 0)
    suite["status"]["completionTime"] = f"2026-06-01T03:00:0{second}Z"
    if gate is not None:
        suite["status"]["gate"] = {"outcome": gate, "armed": True}
    newest = newest_gate(held, suite)
    assert (None if newest is None else newest.outcome) == shown
