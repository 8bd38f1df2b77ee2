"""What an operator keeps of the runs of a suite."""

from typing import Any

import pytest

from inferometer_operator.wiring.suite_store import SuiteStore


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
            "ownerReferences": [
                {"kind": "BenchmarkSuite", "name": "s", "uid": "suite-1", "controller": True}
            ],
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
