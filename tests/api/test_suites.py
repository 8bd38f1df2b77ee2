"""A suite on a real API server: its runs, its status, and what is refused."""

import json
from typing import Any

import pytest

from inferometer_api.spec.run import BenchmarkRun
from support.api_client import AnswerError, Api
from support.cluster.audit import requests
from support.stage import Stage
from support.steps import Load
from support.suite_stage import (
    GATED,
    NAME,
    apply_suite,
    created_runs,
    finished_suite,
    load_of,
    short_suite,
    suite_condition,
    suite_status,
)
from support.suites import an_axis


def test_a_suite_creates_the_runs_of_its_plan_in_order_and_judges_them(stage: Stage) -> None:
    """Each run once, owned and labelled; counts, columns, ranges, pairs and gate in the status."""
    stage.start_operator()
    plan = apply_suite(stage, short_suite(**GATED))
    status = finished_suite(stage)
    assert created_runs(stage) == [run.name for run in plan.runs]
    uid = (stage.api.found("BenchmarkSuite", stage.namespace, NAME) or {})["metadata"]["uid"]
    for planned in plan.runs:
        run = stage.run(planned.name)
        (owner,) = run["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("BenchmarkSuite", uid, True)
        assert run["metadata"]["labels"]["inferometer.dev/suite"] == NAME
        assert run["spec"]["load"]["connections"] == planned.run.spec.load.connections
    assert status["phase"] == "Complete"
    assert status["states"] == "VVVV"
    assert status["cells"] | {"planned": 4, "valid": 4, "active": 0} == status["cells"]
    assert status["scenarios"][0]["best"]["run"] in created_runs(stage)
    assert (status["gate"]["outcome"], status["gate"]["armed"]) == ("INCONCLUSIVE", False)
    assert suite_condition(stage, "Gate")["reason"] == "Advisory"
    assert len(status["anchors"][0]["ratiosPartsPerMillion"]) == 1
    table = stage.control_plane.kubectl("-n", stage.namespace, "get", "bms")
    assert {"Complete", "4/4", "(advisory)"} <= set(table.split())
    audited = list(requests(stage.control_plane.audit_log, stage.user))
    assert [each for each in audited if each.code >= 400 and each.writes] == []
    of_suite = [each for each in audited if each.writes and "benchmarksuites" in each.resource]
    assert len(of_suite) <= 3 * len(plan.runs) + 2, of_suite


def test_the_gate_finds_a_regression_outside_the_headline_step(stage: Stage) -> None:
    """One client is 30 % slower and four are not: the run's status has both, the gate the one."""

    def loads_of(run: BenchmarkRun) -> list[Load]:
        single = 21.0 * (1.3 if run.metadata.labels["axis.inferometer.dev/stack"] == "new" else 1.0)
        return [
            Load(seconds=2.0, service_milliseconds=each, label=label)
            for label, each in (("clients 1", single), ("clients 4", 10.0))
        ]

    stage.loads.loads_of = loads_of
    stage.start_operator()
    suite = short_suite(repeats=3, **GATED)
    template = suite["spec"]["template"]["spec"]
    template["scenarios"] = [{"name": "clients", "concurrency": {"clients": [1, 4]}}]
    plan = apply_suite(stage, suite)
    gate = finished_suite(stage)["gate"]
    (summary,) = stage.run(plan.runs[0].name)["status"]["scenarios"]
    assert summary["step"] == "clients 4"
    assert [each["step"] for each in summary["steps"]] == ["clients 1", "clients 4"]
    assert (gate["outcome"], gate["judged"]) == ("FAIL", 4)
    assert {(each["cell"], each["step"]) for each in gate["slower"]} == {("new", "clients 1")}


def test_a_cell_that_is_no_valid_run_is_named_before_anything_starts(stage: Stage) -> None:
    """The condition has the cell, the field and what would be right; no run exists."""
    stage.start_operator()
    suite = short_suite(axes=[an_axis("stack", "old", path="spec.load.connection")])
    stage.api.create("BenchmarkSuite", stage.namespace, suite)
    finished_suite(stage)
    accepted = suite_condition(stage, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert "cell old: spec.load.connection: unknown field; did you mean" in accepted["message"]
    assert created_runs(stage) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"gate": {}}, "a gate needs a baseline"),
        ({"exclude": [{"stack": "newer"}]}, "name an axis and one of its values"),
        ({"baseline": {"axis": "stack"}}, "set value with axis, and only then"),
        ({"systems": {"each": "Label"}}, "set labelKey with each: Label"),
        ({"axis": []}, 'unknown field "spec.axis"'),
        (
            {"axes": [an_axis("a", *(f"v{at}" for at in range(100)))], "repeats": 11},
            "a suite has at most 1000 cells",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_api_server_refuses_what_contradicts_itself(
    api: Api, namespace: str, spec: dict[str, Any], expected: str
) -> None:
    """With the words of the models."""
    with pytest.raises(AnswerError) as caught:
        api.create("BenchmarkSuite", namespace, short_suite(**spec))
    assert expected in str(caught.value).replace("\\", "")


def test_the_cells_of_a_suite_are_immutable_and_those_of_a_schedule_are_not(
    api: Api, namespace: str
) -> None:
    """A suite's results belong together; a schedule's next execution may be another one."""
    api.create("BenchmarkSuite", namespace, short_suite())
    api.create("BenchmarkSuite", namespace, short_suite("often", schedule={"cron": "0 3 * * *"}))
    api.merge("BenchmarkSuite", namespace, "often", {"spec": {"repeats": 2}})
    template = {"spec": {"template": {"spec": {"load": {"protocol": "GRPC"}}}}}
    api.merge("BenchmarkSuite", namespace, "often", template)
    for change, field in (({"repeats": 2}, "repeats"), (template["spec"], "template")):
        with pytest.raises(AnswerError) as caught:
            api.merge("BenchmarkSuite", namespace, NAME, {"spec": change})
        assert f"{field} is immutable without a schedule" in str(caught.value)
    api.merge("BenchmarkSuite", namespace, NAME, {"spec": {"suspend": True, "cancel": True}})
    with pytest.raises(AnswerError, match="cancel cannot be taken back"):
        api.merge("BenchmarkSuite", namespace, NAME, {"spec": {"cancel": False}})


def test_a_suspended_suite_starts_nothing_until_it_is_resumed(stage: Stage) -> None:
    """And a deleted cell is counted, never repeated."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    plan = apply_suite(stage, short_suite(suspend=True))
    stage.wait_for(
        lambda: suite_status(stage).get("phase") == "Suspended",
        lambda: json.dumps(suite_status(stage)),
    )
    assert created_runs(stage) == []
    stage.api.merge("BenchmarkSuite", stage.namespace, NAME, {"spec": {"suspend": False}})
    first, second = (run.name for run in plan.runs)
    load_of(stage, first)
    stage.wait_for(lambda: suite_status(stage)["states"] == "a.", "the first run to be recorded")
    assert [each["run"] for each in suite_status(stage)["current"]] == [first]
    stage.api.delete("BenchmarkRun", stage.namespace, first)
    load = load_of(stage, second)
    load.judge("latency")
    load.end()
    status = finished_suite(stage)
    assert status["states"] == "DV"
    assert suite_condition(stage, "Failed")["reason"] == "SomeFailed"
    assert created_runs(stage) == [first, second]
