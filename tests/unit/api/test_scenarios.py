"""Tests of the table of scenario kinds and of what derives from it."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_api.scenarios.planned_duration import planned_duration
from inferometer_api.scenarios.scenario_kind import ScenarioKind
from inferometer_api.scenarios.step_setting import Closed, Open, StepInputs
from inferometer_api.scenarios.table import (
    SCENARIOS,
    effective_validity,
    fewest_clients,
    judged_percentile,
    most_clients,
    step_settings,
    usual_labels,
)
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import PROFILES, SCENARIO_KINDS, LoadProfile, Scenario, Validity
from support.runs import a_run, a_scenario

MEMBERS: dict[str, dict[str, Any]] = {
    "singleStream": {},
    "server": {"targetQps": 10, "latencyBoundMicroseconds": 5, "percentile": "P90"},
    "batch": {"batchSizes": [1, 8]},
    "multiStream": {"samplesPerQuery": 3},
    "findPeak": {"latencyBoundMicroseconds": 7},
    "concurrency": {"clients": [2, 4]},
    "offline": {"samples": 10, "batchSize": 4},
    "burst": {"baseQps": 1, "burstQps": 2, "burstSeconds": 1, "periodSeconds": 2},
    "trace": {"uri": "file:a.csv"},
    "profile": {"batchSizes": [1, 4]},
    "accuracy": {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"], "samples": 9},
    "coldStart": {"repeats": 2, "state": "ModelCached"},
    "bound": {"budgetSeconds": 60},
    "bricks": {"models": ["zoo://a/b"]},
}
KINDS = tuple(SCENARIOS)


def _scenario(kind: str) -> Scenario:
    run = BenchmarkRun.model_validate(a_scenario(**{kind: MEMBERS[kind]}))
    return run.spec.scenarios[0]


def test_every_kind_of_the_api_has_a_row() -> None:
    """The rows are the members of a scenario, in the API's order."""
    members = {
        field.alias or name
        for name, field in Scenario.model_fields.items()
        if name not in {"name", "mix", "mix_weights", "sampled_accuracy"}
    }
    assert KINDS == SCENARIO_KINDS
    assert set(KINDS) == members == set(MEMBERS)


def test_a_row_cannot_leave_out_what_components_read() -> None:
    """Only the settings of sweeps and searches have defaults: all others are required."""
    optional = {each.name for each in fields(ScenarioKind) if each.default is not MISSING}
    assert optional == {"usual_labels", "search", "finds_knee", "varies", "counts"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_fits_its_spec_model(kind: str) -> None:
    """A scenario knows its kind and member, and the row reads that member."""
    row, scenario = SCENARIOS[kind], _scenario(kind)
    assert scenario.kind == kind
    assert type(scenario.load_profile) is row.profile
    assert issubclass(row.profile, LoadProfile)
    assert row.wording(scenario.load_profile)
    assert row.least_seconds(scenario.load_profile, Validity()) >= 0
    assert all(isinstance(each, str) for each in row.warnings(scenario.load_profile, Validity()))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_match_the_row(kind: str) -> None:
    """One step, several with labels of their own, or none before a search."""
    row, scenario = SCENARIOS[kind], _scenario(kind)
    assert (row.search is not None) == (row.steps == "search")
    settings = step_settings(scenario)
    labels = [each.label for each in settings]
    match row.steps:
        case "one":
            assert labels == [""]
        case "sweep":
            assert all(labels)
            assert len(set(labels)) == len(labels) > 1
            assert row.varies is not None
        case "search":
            assert not labels
            assert usual_labels(scenario) == row.usual_labels != ()
    if row.steps != "search":
        assert usual_labels(scenario) == tuple(labels)
        loops = {type(each.loop) for each in settings}
        assert loops == {Closed if row.loop == "closed" else Open}
        assert (
            scenario.load_profile.request_batch_sizes == tuple(each.batch_size for each in settings)
            or kind == "concurrency"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_judged_as_its_scenario(kind: str) -> None:
    """Latency scenarios with a bound or of MLPerf name a percentile; the steps carry it."""
    scenario = _scenario(kind)
    judged = judged_percentile(scenario)
    assert all(each.judged == judged for each in step_settings(scenario))
    expected = {
        "singleStream": (90.0, None),
        "multiStream": (99.0, None),
        "server": (90.0, 5_000),
        "findPeak": (99.0, 7_000),
    }
    found = None if judged is None else (judged.percentile, judged.bound_ns)
    assert found == expected.get(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_mlperf_raises_only_its_own_scenarios(kind: str) -> None:
    """With rules MLPerf the minimums are at least MLPerf's, for the scenarios that it has."""
    scenario, validity = _scenario(kind), Validity(rules="MLPerf", min_queries=1)
    found, least = effective_validity(scenario, validity), SCENARIOS[kind].mlperf
    assert effective_validity(scenario, Validity(min_queries=1)) == Validity(min_queries=1)
    if least is None:
        assert found == validity
    else:
        assert found.min_duration_seconds == least.duration_seconds == 600
        assert found.min_queries == least.queries
    assert (least is None) == (kind not in {"singleStream", "multiStream", "server", "offline"})


def test_inputs_reach_the_steps() -> None:
    """A trace has its file, and offline sends at least the samples that the rules require."""
    (recorded,) = step_settings(_scenario("trace"), StepInputs(trace_file="/a.csv"))
    assert isinstance(recorded.loop, Open)
    assert getattr(recorded.loop.arrivals, "file", "") == "/a.csv"
    (step,) = step_settings(_scenario("offline"))
    (many,) = step_settings(_scenario("offline"), StepInputs(least_samples=100))
    assert step.loop == Closed(clients=None, total_queries=3)
    assert many.loop == Closed(clients=None, total_queries=25)


def test_clients_are_those_of_the_steps() -> None:
    """Closed loops with a number of clients have a smallest and a largest step."""
    found = {
        kind: (fewest_clients(_scenario(kind)), most_clients(_scenario(kind))) for kind in KINDS
    }
    none = dict.fromkeys(
        ("server", "findPeak", "offline", "burst", "trace", "accuracy"), (None, None)
    )
    ones = dict.fromkeys(
        ("singleStream", "batch", "multiStream", "profile", "coldStart", "bound", "bricks"), (1, 1)
    )
    assert found == {**ones, **none, "concurrency": (2, 4)}


@pytest.mark.parametrize("kind", KINDS)
def test_warnings_name_the_member(kind: str) -> None:
    """Each warning about a scenario begins with the path of its member."""
    run = BenchmarkRun.model_validate(a_scenario(**{kind: MEMBERS[kind]}))
    workers = run.spec.load.model_copy(update={"workers": 8, "connections": 8})
    spec = run.spec.model_copy(update={"load": workers})
    path = f"spec.scenarios[0].{kind}"
    assert all(
        each.startswith((path, "spec.load.", "spec.activeDeadlineSeconds"))
        for each in spec_warnings(spec)
    )


def test_a_kind_without_a_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names the scenario and the kinds that can be measured."""
    run = BenchmarkRun.model_validate(a_scenario(burst=MEMBERS["burst"]))
    known = {kind: row for kind, row in SCENARIOS.items() if kind != "burst"}
    monkeypatch.setattr("inferometer_api.plan.availability.SCENARIOS", known)
    (refusal,) = unavailable(run, place="Cluster")
    assert refusal.startswith("spec.scenarios[0].burst: burst is not available in this version")
    assert "available: singleStream, server, " in refusal


@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_with_batches_limits_them(kind: str) -> None:
    """A kind whose requests carry several samples has its part of the rule for the API server."""
    profile = PROFILES[kind]
    has_batches = profile.request_batch_sizes is not LoadProfile.request_batch_sizes
    assert ("LIMIT" in profile.keeps_batch_limit) == has_batches
    assert SCENARIOS[kind].profile is profile


@pytest.mark.parametrize(
    ("member", "validity", "expected"),
    [
        ({"singleStream": {}}, {}, (25, 65, 1)),
        # 1,000 queries at 25 a second take longer than the minimum
        ({"server": {"targetQps": 25}}, {"minQueries": 1000}, (45, 65, 1)),
        # a sweep measures the idle power before each step
        ({"batch": {"batchSizes": [1, 2, 4]}}, {}, (25, 65, 3)),
        ({"singleStream": {}}, {"warmUp": "UntilSteady"}, (25, 120, 1)),
        # the probe in which the time is over has a warm-up, too
        (
            {"findPeak": {"latencyBoundMicroseconds": 9, "probe": {"maxSeconds": 8}}},
            {},
            (0, 70, 0),
        ),
        ({"singleStream": {}}, {"rules": "MLPerf", "maxDurationSeconds": 900}, (605, 905, 1)),
        # few layers are timed long before their budget ends
        ({"bound": {"budgetSeconds": 120}}, {}, (25, 185, 1)),
        ({"bricks": {"models": [], "budgetSeconds": 120}}, {}, (25, 185, 1)),
    ],
)
def test_the_duration_of_a_scenario_is_planned(
    member: dict[str, Any], validity: dict[str, Any], expected: tuple[float, float, float]
) -> None:
    """A repeat takes its warm-up and minimums at least, its limits at most, and idle seconds."""
    usual = {"warmUpSeconds": 5, "minDurationSeconds": 20, "maxDurationSeconds": 60}
    run = BenchmarkRun.model_validate(
        a_run(
            scenarios=[{"name": "s", **member}],
            validity={**usual, **validity},
            telemetry={"idleSeconds": 1},
        )
    )
    planned = planned_duration(run.spec.scenarios[0], run.spec)
    found = (planned.least_seconds, planned.most_seconds, planned.idle_seconds)
    assert found == expected
