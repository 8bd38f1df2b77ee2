"""Tests of warnings about valid specs, which the result notes as well."""

from typing import Any

import pytest

from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import PlannedServer
from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.spec.run import BenchmarkRun
from support.runs import Run, a_run, a_scenario

_BURST = {"baseQps": 1, "burstQps": 2, "burstSeconds": 1, "periodSeconds": 60}
_BOUND = {"latencyBoundMicroseconds": 1}
_SEARCH = {"latencyBoundMicroseconds": 1, "probe": {"maxSeconds": 61}}


def warnings(run: Run, **validity: Any) -> tuple[str, ...]:
    """Return the warnings about a run with these members of its validity."""
    spec = {**run["spec"], "validity": validity}
    return spec_warnings(BenchmarkRun.model_validate({**run, "spec": spec}).spec)


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
            "spec.scenarios[0].burst changes its load on purpose, and is seldom steady",
        ),
        (
            a_scenario(trace={"uri": "file:a.csv"}),
            {"warmUp": "UntilSteady"},
            "spec.scenarios[0].trace changes its load on purpose, and is seldom steady",
        ),
        (
            a_scenario(burst={**_BURST, "baseQps": "2.5"}),
            {},
            "spec.scenarios[0].burst.baseQps (2.5) is more than burstQps (2), so the bursts",
        ),
        (
            a_scenario(server={"targetQps": "1.5"}),
            {},
            (
                "spec.scenarios[0].server.targetQps (1.5) makes about 900 queries within "
                "spec.validity.maxDurationSeconds (600), and 1,024 are needed: the verdict will be "
                "INVALID (MinQueries)."
            ),
        ),
        (
            a_scenario(server={"targetQps": 4, "percentile": "P99.9", **_BOUND}),
            {},
            (
                "spec.scenarios[0].server.targetQps (4) makes about 2,400 queries within "
                "spec.validity.maxDurationSeconds (600), and 4,603 are needed: the verdict will be "
                "INVALID (EarlyStopping)."
            ),
        ),
        (
            a_scenario(server={"targetQps": 8, **_BOUND}),
            {"minDurationSeconds": 57, "minQueries": 400},
            "spec.scenarios[0].server will have about 456 queries, and it takes 459 to know that",
        ),
        (
            a_run(activeDeadlineSeconds=129),
            {"repeats": 2},
            "spec.activeDeadlineSeconds (129) is less than the 130 s that the warm-ups and windows",
        ),
        (
            a_run(activeDeadlineSeconds=133),
            {"repeats": 2, "repeatScope": "Server", "minDurationSeconds": 61},
            (
                "spec.activeDeadlineSeconds (133) is less than the 134 s that the warm-ups and "
                "windows of all scenarios and repeats, and 1 restart of the server, take at least"
            ),
        ),
        (
            a_run(
                activeDeadlineSeconds=516,
                scenarios=[{"name": "one", "server": {"targetQps": 2}}],
            ),
            {},
            "spec.activeDeadlineSeconds (516) is less than the 517 s that",
        ),
        (
            a_run(load={"workers": 9}, scenarios=[{"name": "one", "server": {"targetQps": 50}}]),
            {},
            "spec.load.connections (8) is less than spec.load.workers (9). Each worker",
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
def test_a_warning_is_one_sentence_with_its_path(
    run: Run, validity: dict[str, Any], expected: str
) -> None:
    """One mistake makes one warning, with both figures if there are two."""
    (warning,) = warnings(run, **validity)
    assert warning.startswith(expected)
    assert warning.endswith(".")


@pytest.mark.parametrize(
    ("run", "validity"),
    [
        (a_run(), {"warmUp": "UntilSteady"}),
        (a_scenario(findPeak=_SEARCH), {"maxDurationSeconds": 61}),
        (a_scenario(burst=_BURST), {"minDurationSeconds": 60}),
        (_of_fleet(2, concurrency={"clients": [2, 4]}), {}),
        (_of_fleet(2, server={"targetQps": 5}), {}),
        (_of_fleet(8, server={"targetQps": 5}), {}),
        (_of_fleet(9, concurrency={"clients": [9]}), {}),
        (a_scenario(burst={**_BURST, "baseQps": 2}), {}),
        (a_scenario(server={"targetQps": "1.707"}), {}),
        (a_scenario(server={"targetQps": 3, "percentile": "P99.9"}), {}),
        (
            a_scenario(server={"targetQps": 8, **_BOUND}),
            {"minDurationSeconds": 58, "minQueries": 400},
        ),
        (a_run(activeDeadlineSeconds=130), {"repeats": 2}),
        (a_run(activeDeadlineSeconds=1, scenarios=[{"name": "one", "findPeak": _SEARCH}]), {}),
        (a_run(activeDeadlineSeconds=5, scenarios=[{"name": "one", "offline": {}}]), {}),
    ],
)
def test_settings_at_the_bounds_have_no_warning(run: Run, validity: dict[str, Any]) -> None:
    """Neither settings at the very bounds nor loads that all workers share have a warning."""
    assert warnings(run, **validity) == ()


def test_a_plan_notes_the_warnings() -> None:
    """The plan of a load generator has them before the notes of its place, in both places."""
    run = BenchmarkRun.model_validate(_of_fleet(2, singleStream={}))
    servers = [PlannedServer(url="http://h")]
    for place in ("Local", "Cluster"):
        notes = load_plan(run, place=place, servers=servers, notes=["Here."]).notes
        assert notes == [*spec_warnings(run.spec), "Here."]
        assert len(notes) == 2
