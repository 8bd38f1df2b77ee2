"""A run goes from its spec to its result, and a restarted operator goes on where it stands."""

import json
from collections.abc import Callable
from typing import Literal

import pytest

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import Outcome, ResultDocument, ScenarioResult
from inferometer_api.status.run_status import Condition, RunStatus
from inferometer_operator.reconcile.events import run_events
from inferometer_operator.reconcile.observed import QueuePosition
from inferometer_operator.reconcile.plan import Event
from inferometer_operator.reconcile.progress import load_was_sent
from support.cluster_objects import being_deleted, ended, on_silent_node, started
from support.condition_rows import (
    VALID,
    a_cluster,
    changed,
    complete,
    external,
    measuring,
    over,
    serving,
)
from support.played_cluster import BEGUN
from support.pretend_cluster import PretendCluster

Step = Callable[[PretendCluster], PretendCluster]

STEPS: list[Step] = [
    lambda cluster: cluster.settle(),
    lambda cluster: cluster.schedule(),
    lambda cluster: cluster.start_server(),
    lambda cluster: cluster.start_load(),
    lambda cluster: cluster.measure(0.1, stage="WarmUp"),
    lambda cluster: cluster.measure(0.5),
    over,
    lambda cluster: cluster.collect_garbage(),
]


def test_the_status_is_written_before_the_server_is_made() -> None:
    """No child exists before startTime is written: a restarted operator knows the run began."""
    cluster = a_cluster().settle()
    assert cluster.writes[:2] == ["status Starting", "make Job/a-run-server"]
    assert cluster.status()["startTime"] == "2026-03-12T14:00:00.000Z"


def test_the_load_generator_is_made_once_every_server_is_bound_and_has_an_address() -> None:
    """Its plan names each server pod with address, node and quality of service."""
    cluster = a_cluster({"server": {"replicas": 2}, "load": {"protocol": "GRPC"}}).settle()
    assert cluster.schedule(1).jobs_made == 0
    assert cluster.schedule(2).jobs_made == 1
    held = cluster.children["ConfigMap/a-run-load"]
    plan = LoadPlan.model_validate_json(held["data"]["plan.json"])
    assert [(each.url, each.pod, each.node) for each in plan.servers] == [
        ("grpc://10.88.0.1:8001", "a-run-server-1", "node1"),
        ("grpc://10.88.0.2:8001", "a-run-server-2", "node2"),
    ]
    assert plan.servers[0].pod_uid == "uid-of-a-run-server-1"
    assert plan.servers[0].quality_of_service == "Guaranteed"
    assert (plan.run_id, plan.stop_token) == (cluster.run["metadata"]["uid"], "a-token")
    assert (plan.place, plan.launched) == ("Cluster", True)


def test_a_server_is_ready_once_every_replica_is() -> None:
    """One pod that does not serve yet holds the run up."""
    cluster = a_cluster({"server": {"replicas": 2}}).settle().schedule(2)
    first, second = sorted(name for name in cluster.pods if "server" in name)
    cluster.pods[first] = started(cluster.pods[first], ready=True, at=cluster.now)
    ready = cluster.settle().says("ServerReady")
    assert ready is not None
    assert ready[0] == "False"
    cluster.pods[second] = started(cluster.pods[second], ready=True, at=cluster.now)
    assert cluster.settle().says("ServerReady") == ("True", "Ready")


@pytest.mark.parametrize(
    ("report", "sent"),
    [
        (None, False),
        (LoadReport(), False),
        (LoadReport(progress=ProgressReport(stage="WaitingForServer")), False),
        (LoadReport(progress=ProgressReport(stage="Idle")), False),
        (LoadReport(progress=ProgressReport(stage="WarmUp")), True),
        (LoadReport(progress=ProgressReport(stage="Draining")), True),
        (LoadReport(outcome=Outcome(state="Complete", reason="Measured")), True),
    ],
)
def test_a_report_states_whether_load_was_sent(report: LoadReport | None, sent: bool) -> None:  # noqa: FBT001 - a row of the table
    """Warm-up is load too, and a load generator that has ended may have sent some."""
    assert load_was_sent(report) is sent


@pytest.mark.parametrize(
    ("condition", "state", "is_lost"),
    [
        ("FailureTarget", "True", True),
        ("SuccessCriteriaMet", "True", True),
        ("FailureTarget", "False", False),
        ("Suspended", "True", False),
    ],
)
def test_a_job_that_is_over_makes_no_pod(condition: str, state: str, is_lost: bool) -> None:  # noqa: FBT001 - a row of the table
    """Without a pod, the conditions of the Job decide whether to wait for one."""
    cluster = a_cluster().settle().schedule().start_server()
    job = cluster.children["Job/a-run-load"]
    job["status"] = {"conditions": [{"type": condition, "status": state}]}
    assert cluster.settle().says("Failed") == (("True", "LoadPodLost") if is_lost else None)


def test_an_external_server_needs_no_deployment() -> None:
    """The Service's own name stands in the plan, and the run is Ready once load is sent."""
    cluster = external()
    cluster.service = {"spec": {"selector": {"app": "theirs"}}}
    cluster.settle().start_load()
    plan = json.loads(cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"])
    assert [each["url"] for each in plan["servers"]] == ["http://theirs.team.svc:8000"]
    assert cluster.server not in cluster.children
    assert (cluster.says("ServerReady") or ("", ""))[0] != "True"
    assert cluster.measure(stage="WarmUp").says("ServerReady") == ("True", "Ready")
    assert over(cluster.measure()).collect_garbage().says("Finished") == ("True", "Complete")


def test_a_run_costs_few_writes() -> None:
    """From its spec to Finished at most 40, events included, with as many scenarios as have any."""
    cluster = _through(_many(6))
    assert len(cluster.writes) <= 40, cluster.writes
    assert cluster.finished


def test_every_step_has_one_event() -> None:
    """`kubectl describe` shows the story in a few lines, the verdict in the last."""
    cluster = _through(a_cluster())
    events = [write.removeprefix("event ") for write in cluster.writes if "event" in write]
    assert events == ["ServerReady", "MeasuringStarted", "Complete"]


@pytest.mark.parametrize(
    ("valid", "kind"), [("True", "Normal"), ("False", "Warning")], ids=["valid", "invalid"]
)
def test_the_last_event_says_the_verdict(valid: str, kind: Literal["Normal", "Warning"]) -> None:
    """An INVALID run ends with a warning that has the reason."""
    begun = RunStatus(start_time=BEGUN)
    first = Condition(
        type="Complete",
        status="True",
        last_transition_time=BEGUN,
        reason="Measured",
        message="It is measured.",
    )
    update = {"type": "Valid", "status": valid, "message": "The verdict."}
    conditions = [first, first.model_copy(update=update)]
    after = begun.model_copy(update={"conditions": conditions})
    said = Event(kind, "Complete", "It is measured. The verdict.")
    assert run_events(begun, after, 1) == (said,)


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_a_restarted_operator_goes_on(at: int) -> None:
    """Restarted after any step, a run has the same status, children and writes as ever."""
    undisturbed, restarted = _through(a_cluster()), a_cluster()
    for number, step in enumerate(STEPS):
        step(restarted)
        if number == at:
            restarted.restart_operator()
            restarted.settle()
    assert restarted.status() == undisturbed.status()
    assert restarted.jobs_made == 1
    assert restarted.writes == undisturbed.writes


@pytest.mark.parametrize("key", ["Job/a-run-server", "ConfigMap/a-run-load", "Job/a-run-load"])
def test_an_operator_that_dies_before_a_child_is_made_makes_it(key: str) -> None:
    """The status is written and the child is not there: it was not made yet."""
    cluster = a_cluster()
    cluster.refusals[key] = (500, "the operator died here")
    cluster.settle().schedule()
    cluster.refusals.clear()
    cluster.restart_operator()
    cluster.settle()
    assert key in cluster.children
    assert cluster.jobs_made <= 1


@pytest.mark.parametrize("step", [2, 3, 4, 5, 6])
def test_a_job_that_was_seen_is_never_made_again(step: int) -> None:
    """Deleted by someone, with its pod, at any time: the run fails, and nothing is measured."""
    cluster = a_cluster()
    for each in STEPS[:step]:
        each(cluster)
    del cluster.children[cluster.load]
    cluster.pods = {name: pod for name, pod in cluster.pods.items() if "server" in name}
    cluster.restart_operator()
    cluster.settle()
    assert cluster.jobs_made == 1
    assert cluster.says("Failed") == ("True", "LoadPodLost")


def test_a_plan_of_replaced_servers_is_made_anew() -> None:
    """No pod has read it: it is deleted, and created again with the current pods."""
    cluster = a_cluster()
    cluster.refusals["Job/a-run-load"] = (500, "not now")
    cluster.settle().schedule(1)
    cluster.pods.clear()
    cluster.refusals.clear()
    cluster.schedule(1)
    assert "delete ConfigMap/a-run-load" not in cluster.writes
    cluster = a_cluster()
    cluster.refusals["Job/a-run-load"] = (500, "not now")
    cluster.settle().schedule(1)
    pod = cluster.pods.pop("a-run-server-1")
    new = {**pod["metadata"], "name": "a-run-server-9", "uid": "uid-9"}
    cluster.pods["a-run-server-9"] = {**pod, "metadata": new}
    cluster.refusals.clear()
    cluster.settle()
    assert "delete ConfigMap/a-run-load" in cluster.writes
    plan = json.loads(cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"])
    assert [each["podUid"] for each in plan["servers"]] == ["uid-9"]
    assert cluster.jobs_made == 1


def test_the_columns_show_the_running_scenario_and_then_the_headline() -> None:
    """Live figures while a scenario runs; its verdict and its whole figures afterwards."""
    cluster = measuring()
    assert cluster.status()["phase"] == "Measuring"
    shown = {"scenario": "latency", "qps": "123.4", "p99": "12.3ms", "nodes": "node1"}
    assert cluster.status()["display"] == shown
    over(cluster)
    shown = cluster.status()["display"]
    assert (shown["scenario"], shown["valid"]) == ("latency", "VALID")
    assert cluster.status()["progressPercent"] == 100


def test_progress_never_goes_back() -> None:
    """Warm-up counts by its share of the requested seconds, and progress never decreases."""
    cluster = serving().measure(1.0, stage="WarmUp")
    warm = cluster.status()["progressPercent"]
    assert warm == 100 * 5 // 65
    assert cluster.measure(0.5).status()["progressPercent"] == 100 * (5 + 30) // 65
    assert cluster.measure(0.1).status()["progressPercent"] == 100 * (5 + 30) // 65


def test_progress_counts_the_seconds_that_mlperf_requires() -> None:
    """A scenario of MLPerf's is measured for 600 s, of which a warm-up of 5 s is little."""
    cluster = serving({"validity": {"rules": "MLPerf"}}).measure(1.0, stage="WarmUp")
    assert cluster.status().get("progressPercent", 0) == 100 * 5 // 605


def test_a_position_is_written_only_if_it_says_something_else() -> None:
    """Within a band a run moves without a write, and time alone changes nothing."""
    cluster = a_cluster(turn=QueuePosition(admitted=False, position=19, ahead="team/a")).settle()
    writes = len(cluster.writes)
    for position in (17, 12, 11):
        cluster.turn = QueuePosition(admitted=False, position=position, ahead=f"team/{position}")
        cluster.later(5)
    assert len(cluster.writes) == writes
    cluster.turn = QueuePosition(admitted=False, position=2, ahead="team/a")
    cluster.later(3600)
    assert "Position 2 in the queue; team/a is ahead (as of " in cluster.message("Accepted")
    assert len(cluster.writes) == writes + 1
    assert cluster.decided().look_again_seconds is None


def test_nothing_is_written_while_nothing_changes() -> None:
    """A run that measures is not written to between two reports of its load generator."""
    cluster = measuring()
    writes = len(cluster.writes)
    for _ in range(5):
        cluster.later(1)
    assert len(cluster.writes) == writes


def test_a_silent_node_may_come_back() -> None:
    """A node that answers again within a minute ends nothing; the condition shows both states."""
    cluster = measuring()
    name = "a-run-server-1"
    well = cluster.pods[name]
    cluster.pods[name] = on_silent_node(well, cluster.now)
    assert cluster.later(20).says("ServerReady") == ("False", "NodeLost")
    cluster.pods[name] = well
    assert cluster.later(20).says("ServerReady") == ("True", "Ready")
    assert cluster.later(20).says("Failed") is None


def test_a_server_that_exits_before_it_is_ready_ends_the_run() -> None:
    """At once, with its exit code and last lines; the other servers' deletion explains nothing."""
    cluster = a_cluster({"server": {"replicas": 2}}).settle().schedule(2)
    first, second = cluster.pods
    cluster.pods[first] = being_deleted(cluster.pods[first], cluster.now)
    cluster.pods[second] = ended(cluster.pods[second], 3, "No such operator: Foo")
    cluster.settle()
    assert cluster.says("Failed") == ("True", "ServerCrashed")
    assert "exited with code 3" in cluster.message("ServerReady")
    assert "No such operator: Foo" in cluster.message("ServerReady")


def test_a_server_pod_that_goes_before_the_load_is_made_ends_the_run() -> None:
    """Its Job makes no other one."""
    cluster = a_cluster().settle()
    cluster.children[cluster.server]["status"] = {"failed": 1}
    assert cluster.settle().says("Failed") == ("True", "ServerReplaced")


def test_what_was_found_wins_over_what_comes_too_late() -> None:
    """A load generator that completed is not cancelled, and no deadline applies to it."""
    cluster = measuring()
    cluster.run["spec"]["cancel"] = True
    over(cluster)
    assert cluster.says("Complete") == ("True", "Measured")
    assert cluster.says("Failed") is None
    assert changed(complete(), cancel=True).says("Failed") is None


def _through(cluster: PretendCluster) -> PretendCluster:
    for step in STEPS:
        step(cluster)
    return cluster


def _many(count: int) -> PretendCluster:
    names = [f"scenario-{number}" for number in range(count)]
    cluster = a_cluster({"scenarios": [{"name": name, "singleStream": {}} for name in names]})
    scenarios: list[ScenarioResult] = [
        VALID.scenarios[0].model_copy(update={"name": name}) for name in names
    ]
    cluster.document = _with(VALID, scenarios)
    return cluster


def _with(document: ResultDocument, scenarios: list[ScenarioResult]) -> ResultDocument:
    return document.model_copy(update={"scenarios": scenarios})


def test_the_load_generator_has_its_time_from_when_its_pod_could_be_made() -> None:
    """A server that waited long for a node leaves it no less."""
    cluster = a_cluster().settle().later(200).schedule().start_server().later(150)
    assert cluster.jobs_made == 1
    assert cluster.says("Failed") is None
    assert cluster.later(151).says("Failed") == ("True", "LoadNotStarted")
