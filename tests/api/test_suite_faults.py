"""Suites whose operator is killed, and suites on a schedule and on chosen nodes."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from inferometer_api.plan import rights
from inferometer_api.suite.matrix import Systems
from inferometer_api.suite.systems import find_systems
from inferometer_api.timestamps import parse_time
from support.crash_walk import CrashWalk
from support.fault_proxy import FaultProxy, FirstWriteOf
from support.operator_process import ACCOUNT, rule
from support.stage import Stage
from support.status_policy import allow_figures, refuse_figures
from support.suite_stage import (
    GATED,
    NAME,
    SuiteCourse,
    apply_suite,
    created_runs,
    finished_suite,
    load_of,
    short_suite,
    suite_condition,
    suite_status,
)
from support.suites import an_axis, planned

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_an_operator_that_is_killed_after_every_write_runs_each_cell_once(
    stage: Stage, tmp_path: Path
) -> None:
    """More than 100 operators, each killed at its first write."""
    course = SuiteCourse("suite", lambda _: None, {**GATED, "repeats": 2})
    proxy = FaultProxy(stage.control_plane, tmp_path)
    try:
        crashes = CrashWalk(stage, proxy).crash_after_every_write(course)
    finally:
        proxy.close()
    assert crashes >= 100


@pytest.mark.parametrize("fault", ["busy", "broken", "conflict", "lost"])
def test_faults_of_the_api_server_lose_and_double_no_cell(
    stage: Stage, tmp_path: Path, fault: str
) -> None:
    """The first write to each path fails; the suite ends all the same."""
    proxy = FaultProxy(stage.control_plane, tmp_path)
    proxy.rule = FirstWriteOf(fault)  # type: ignore[arg-type]  # one of its words
    try:
        stage.start_operator(through=proxy)
        plan = apply_suite(stage, short_suite())
        assert finished_suite(stage)["states"] == "VV"
        assert created_runs(stage) == [run.name for run in plan.runs]
    finally:
        proxy.close()


def test_a_suite_whose_figures_a_policy_refuses_ends_with_the_least_status(stage: Stage) -> None:
    """Each run is created once; the status names the policy's words, the states and the plan."""
    apply_suite(stage, short_suite("probe", suspend=True))
    policy = refuse_figures(stage, "BenchmarkSuite", "probe")
    stage.start_operator()
    plan = apply_suite(stage, short_suite())
    status = finished_suite(stage)
    complete = suite_condition(stage, "Complete")
    assert (complete["status"], complete["reason"]) == ("True", "StatusRefused")
    assert "no figures in a status" in complete["message"]
    assert status["states"] == "VV"
    assert status["planSha256"]
    assert "display" not in status
    assert created_runs(stage) == [run.name for run in plan.runs]
    allow_figures(stage, policy)


def test_a_cancelled_suite_keeps_what_is_measured_and_starts_nothing_more(stage: Stage) -> None:
    """Its run is cancelled, the others are skipped."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    plan = apply_suite(stage, short_suite(axes=[an_axis("stack", "a", "b", "c")]))
    load = load_of(stage, plan.runs[0].name)
    load.judge("latency")
    load.end()
    load_of(stage, plan.runs[1].name)
    stage.api.merge("BenchmarkSuite", stage.namespace, NAME, {"spec": {"cancel": True}})
    status = finished_suite(stage)
    assert status["states"] == "VFS"
    assert suite_condition(stage, "Failed")["reason"] == "Cancelled"
    assert created_runs(stage) == [run.name for run in plan.runs[:2]]


def test_a_suite_stops_after_a_failure_if_it_is_told_to(stage: Stage) -> None:
    """onFailure: Stop skips what was not started."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator()
    plan = apply_suite(stage, short_suite(onFailure="Stop"))
    load_of(stage, plan.runs[0].name).end("Failed", "ServerNotReady", "No server.")
    assert finished_suite(stage)["states"] == "FS"
    assert suite_condition(stage, "Failed")["reason"] == "StoppedAfterFailure"


_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def test_a_suite_runs_every_cell_on_every_matching_node(stage: Stage) -> None:
    """Each run selects its node; the suite keeps the nodes that it found, and names the others."""
    made = [
        stage.api.create(
            "Node",
            None,
            {
                "metadata": {
                    "name": f"{stage.namespace}-{name}",
                    "labels": {"pool": stage.namespace, "kubernetes.io/hostname": name},
                }
            },
        )
        for name in ("a", "b", "tainted")
    ]
    fake = stage.api.found("Node", None, stage.kubelet.node) or {}
    for each, taints in zip(made, (None, None, [_TAINT]), strict=True):
        name = each["metadata"]["name"]
        stage.api.merge("Node", None, name, {"status": fake["status"]}, "status")
        stage.api.merge("Node", None, name, {"spec": {"taints": taints}})
    stage.operator_token()
    _grant_nodes(stage)
    try:
        stage.start_operator(readNodes=True)
        suite = short_suite(systems={"selector": {"pool": stage.namespace}})
        stage.api.create("BenchmarkSuite", stage.namespace, suite)
        status = finished_suite(stage)
        assert status["systems"] == [each["metadata"]["name"] for each in made[:2]]
        assert suite_condition(stage, "Accepted")["message"].endswith(
            " 1 matching node is left out, since no run would start on it: "
            f"{made[2]['metadata']['name']} (taint gpu=yes:NoSchedule)."
        )
        assert status["states"] == "VVVV"
        nodes = stage.api.all("Node", None)
        systems = find_systems(Systems.model_validate(suite["spec"]["systems"]), nodes)
        assert created_runs(stage) == [run.name for run in planned(suite, systems).runs]
        hosts = [
            stage.run(name)["spec"]["server"]["placement"]["nodeSelector"]
            for name in created_runs(stage)
        ]
        assert sorted(each["kubernetes.io/hostname"] for each in hosts) == ["a", "a", "b", "b"]
    finally:
        for each in made:
            stage.api.delete("Node", None, each["metadata"]["name"])
        for plural in ("clusterroles", "clusterrolebindings"):
            stage.api.ask("DELETE", f"{_RBAC}/{plural}/{ACCOUNT}-{stage.namespace}-nodes")


def test_without_the_right_to_nodes_such_a_suite_is_refused(stage: Stage) -> None:
    """With the value of the chart that allows it."""
    stage.start_operator()
    stage.api.create("BenchmarkSuite", stage.namespace, short_suite(systems={}))
    finished_suite(stage)
    assert "Set readNodes=true" in suite_condition(stage, "Accepted")["message"]


def test_a_schedule_that_was_refused_goes_on_once_it_is_corrected(stage: Stage) -> None:
    """Nothing had started; the new generation is judged anew."""
    stage.start_operator()
    schedule = {"cron": "0 3 * * *", "timeZone": "Europe/Zurihc"}
    stage.api.create("BenchmarkSuite", stage.namespace, short_suite(schedule=schedule))
    finished_suite(stage)
    assert suite_condition(stage, "Accepted")["reason"] == "InvalidSpec"
    change = {"spec": {"schedule": {"timeZone": "Europe/Zurich"}}}
    stage.api.merge("BenchmarkSuite", stage.namespace, NAME, change)
    stage.wait_for(
        lambda: suite_status(stage).get("phase") == "Scheduled",
        lambda: f"{json.dumps(suite_status(stage))}\n{stage.logs()}",
    )
    assert suite_condition(stage, "Accepted")["status"] == "True"
    assert suite_status(stage)["nextScheduleTime"]
    assert "completionTime" not in suite_status(stage)


def test_a_schedule_fires_once_a_minute_whichever_operator_leads(
    stage: Stage, require_quiet: Callable[[], None]
) -> None:
    """Two times, three operators: each execution exists once, and the history is bounded."""
    stage.start_operator()
    stage.api.create(
        "BenchmarkSuite",
        stage.namespace,
        short_suite(
            schedule={"cron": "* * * * *", "successfulHistoryLimit": 1},
            baseline={"suite": NAME},
            gate={},
        ),
    )
    stage.wait_for(lambda: suite_status(stage).get("nextScheduleTime"), "the next time")
    first = _next_execution(stage, "")
    created = (stage.api.found("BenchmarkSuite", stage.namespace, first) or {})["metadata"]
    created_at = parse_time(created["creationTimestamp"]) or datetime.now(UTC)
    # The operator knows the API server's clock to a second.
    is_punctual = created_at.second <= 5 or created_at.second == 59
    if not is_punctual:
        require_quiet()
    assert is_punctual, "the execution did not start at the full minute"
    # An operator that knows nothing of the first one takes over.
    stage.begin_operator()
    finished_suite(stage, first)
    second = _next_execution(stage, first)
    finished_suite(stage, second)
    assert suite_status(stage, first)["gate"]["outcome"] == "CouldNotRun"
    assert suite_status(stage, second)["gate"]["outcome"] == "INCONCLUSIVE"
    assert "needed" in suite_status(stage, second)["gate"]["reasons"][0]
    stage.wait_for(
        lambda: len(suite_status(stage)["anchors"][0]["ratiosPartsPerMillion"]) >= 2,
        lambda: json.dumps(suite_status(stage)),
    )
    stage.wait_for(
        lambda: stage.api.found("BenchmarkSuite", stage.namespace, first) is None,
        lambda: f"the deletion of {first}: {json.dumps(suite_status(stage))}",
    )
    assert len(created_runs(stage)) == len(set(created_runs(stage)))


def _next_execution(stage: Stage, before: str) -> str:
    stage.wait_for(
        lambda: suite_status(stage).get("execution", "") not in {"", before},
        lambda: f"an execution: {json.dumps(suite_status(stage))}\n{stage.logs()}",
    )
    return str(suite_status(stage)["execution"])


def _grant_nodes(stage: Stage) -> None:
    name = f"{ACCOUNT}-{stage.namespace}-nodes"
    metadata = {"metadata": {"name": name}}
    rules = [rule(right) for right in rights.NODES]
    stage.api.ask("POST", f"{_RBAC}/clusterroles", {**metadata, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "namespace": stage.namespace, "name": ACCOUNT}
    binding = {**metadata, "subjects": [subject], "roleRef": role}
    stage.api.ask("POST", f"{_RBAC}/clusterrolebindings", binding)
