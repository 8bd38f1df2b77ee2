"""What can be tried and may yet disappoint is told before it is measured, and in the result."""

from typing import Any

import pytest

from inferometer_api.doubts import doubts
from inferometer_api.launch import load_plan
from inferometer_api.plan import PlannedServer
from inferometer_api.run import BenchmarkRun
from support.runs import Run, a_run, a_scenario

_BURST = {"baseQps": 1, "burstQps": 2, "burstSeconds": 1, "periodSeconds": 60}
_SEARCH = {"latencyBoundMicroseconds": 1, "probe": {"maxSeconds": 61}}


def told(run: Run, **validity: Any) -> tuple[str, ...]:
    """Return the doubts about a run with these members of its validity."""
    spec = {**run["spec"], "validity": validity}
    return doubts(BenchmarkRun.model_validate({**run, "spec": spec}).spec)


def _of_fleet(workers: int, **member: Any) -> Run:
    return a_run(load={"workers": workers}, scenarios=[{"name": "one", **member}])


@pytest.mark.parametrize(
    ("run", "validity", "expected"),
    [
        (
            a_scenario(findPeak=_SEARCH),
            {"minDurationSeconds": 1, "maxDurationSeconds": 60},
            "spec.scenarios[0].findPeak.probe.maxSeconds (61) is more than spec.validity.maxDura",
        ),
        (
            a_scenario(burst=_BURST),
            {"minDurationSeconds": 59},
            "spec.scenarios[0].burst.periodSeconds (60) is more than spec.validity.minDurationSec",
        ),
        (
            a_scenario(burst=_BURST),
            {"warmUp": "UntilSteady"},
            "spec.scenarios[0].burst changes its load by intent, and is seldom steady",
        ),
        (
            a_scenario(trace={"uri": "file:a.csv"}),
            {"warmUp": "UntilSteady"},
            "spec.scenarios[0].trace changes its load by intent, and is seldom steady",
        ),
        (
            _of_fleet(2, singleStream={}),
            {},
            "spec.scenarios[0].singleStream has 1 client, fewer than spec.load.workers (2)",
        ),
        (
            _of_fleet(3, concurrency={"clients": [8, 2]}),
            {},
            "spec.scenarios[0].concurrency has 2 clients in a step, fewer than spec.load.workers",
        ),
    ],
)
def test_what_may_disappoint_is_one_sentence_with_its_path(
    run: Run, validity: dict[str, Any], expected: str
) -> None:
    """Just the one doubt is told, with both figures where there are two."""
    (doubt,) = told(run, **validity)
    assert doubt.startswith(expected)
    assert doubt.endswith(".")


@pytest.mark.parametrize(
    ("run", "validity"),
    [
        (a_run(), {"warmUp": "UntilSteady"}),
        (a_scenario(findPeak=_SEARCH), {"maxDurationSeconds": 61}),
        (a_scenario(burst=_BURST), {"minDurationSeconds": 60}),
        (_of_fleet(2, concurrency={"clients": [2, 4]}), {}),
        (_of_fleet(2, server={"targetQps": 5}), {}),
    ],
)
def test_what_comes_out_well_is_not_doubted(run: Run, validity: dict[str, Any]) -> None:
    """Nothing is said at the very bounds, nor of loads that every worker shares."""
    assert told(run, **validity) == ()


def test_a_result_notes_the_doubts_wherever_it_is_measured() -> None:
    """The plan of a load generator has them before the notes of its place."""
    run = BenchmarkRun.model_validate(_of_fleet(2, singleStream={}))
    servers = [PlannedServer(url="http://h")]
    for place in ("Local", "Cluster"):
        notes = load_plan(run, place=place, servers=servers, notes=["Here."]).notes
        assert notes == [*doubts(run.spec), "Here."]
        assert len(notes) == 2
