"""A run with a queue's label has a Workload, waits for Kueue, and ends when it is evicted."""

from datetime import timedelta
from typing import Any

import pytest

from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.make_plan import make_plan
from inferometer_operator.reconcile.observed import KueueObjects, Observed, QueuePosition
from inferometer_operator.settings import Kueue
from support.cluster_objects import unschedulable
from support.condition_rows import PREEMPTED, UNREAD, a_cluster, changed, for_kueue, over
from support.kueue_objects import (
    a_flavor,
    admitted,
    awaiting_checks,
    evicted,
    inadmissible,
    pending,
)
from support.pretend_cluster import SETTINGS, PretendCluster
from support.runs import an_external_run

_WORKLOAD = "Workload/a-run-workload"
_ENABLED = SETTINGS.model_copy(update={"kueue": Kueue(enabled=True)})


def _spec(cluster: PretendCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.children[_WORKLOAD]["spec"]
    return found


def _accepted(cluster: PretendCluster) -> tuple[str, str]:
    found = cluster.says("Accepted")
    assert found is not None
    return found[1], cluster.message("Accepted")


def _begun() -> PretendCluster:
    return for_kueue().play_kueue(admitted())


def _measuring() -> PretendCluster:
    return _begun().schedule().start_server().start_load().measure()


def _waiting_for_nodes() -> PretendCluster:
    cluster = _begun()
    pod = unschedulable(cluster.pod("server"), "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.pods[pod["metadata"]["name"]] = pod
    cluster.settle().later(31)
    return cluster.collect_garbage().later(5)


def _node_selector(cluster: PretendCluster, name: str) -> dict[str, str]:
    pods = cluster.children[f"Job/a-run-{name}"]["spec"]["template"]["spec"]
    found: dict[str, str] = pods.get("nodeSelector") or {}
    return found


def test_nothing_but_the_workload_exists_before_admission() -> None:
    """The server is made only once Kueue has admitted the run, and then the run begins."""
    cluster = for_kueue()
    assert list(cluster.children) == [_WORKLOAD]
    assert cluster.says("Accepted") == ("True", "AdmissionPending")
    assert (cluster.status()["phase"], "startTime" in cluster.status()) == ("Queued", False)
    assert cluster.later(3600).children.keys() == {_WORKLOAD}
    cluster.play_kueue(admitted())
    assert cluster.says("Accepted") == ("True", "Admitted")
    assert "Job/a-run-server" in cluster.children


def test_the_pod_sets_are_the_pods_of_the_run() -> None:
    """Counts and requests are those of the Jobs' pods, init containers included."""
    server = {
        "replicas": 3,
        "resources": {"cpu": "2", "memory": "1Gi"},
        "placement": {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "measured"}]},
    }
    cluster = for_kueue({"server": server, "load": {"workers": 2}})
    assert _spec(cluster)["queueName"] == "team-queue"
    servers, loads = _spec(cluster)["podSets"]
    assert (servers["name"], servers["count"]) == ("server", 3)
    assert (loads["name"], loads["count"]) == ("load", 3)
    pods = servers["template"]["spec"]
    wanted = {"cpu": "2", "memory": "1Gi"}
    for container in (*pods["initContainers"], *pods["containers"]):
        assert container["resources"] == {"requests": wanted, "limits": wanted}
    assert pods["nodeSelector"] == {"zone": "a"}
    assert {"key": "measured", "operator": "Equal"} in pods["tolerations"]
    (load,) = loads["template"]["spec"]["containers"]
    assert load["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}


def test_a_run_against_a_running_server_has_one_pod_set() -> None:
    """Only its load needs quota."""
    cluster = for_kueue()
    run = {**cluster.run, "spec": an_external_run()["spec"]}
    run["spec"]["server"] = {
        "runtime": "External",
        "external": {"service": {"name": "theirs", "port": 8000}},
    }
    fresh = PretendCluster(run={**run, "status": {}}, kueue=KueueObjects())
    fresh.service = {"spec": {"type": "ClusterIP", "selector": {"app": "theirs"}}}
    assert [each["name"] for each in _spec(fresh.settle())["podSets"]] == ["load"]


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (
            {},
            "AdmissionPending",
            "waits in team-queue for Kueue to admit its Workload a-run-workload.",
        ),
        (pending("couldn't assign flavors"), "AdmissionPending", "couldn't assign flavors"),
        (inadmissible("LocalQueue x doesn't exist"), "Inadmissible", "LocalQueue x doesn't exist"),
        (awaiting_checks("provision"), "AdmissionPending", "provision is Pending"),
    ],
    ids=["new", "pending", "unknown queue", "checks"],
)
def test_a_waiting_run_quotes_kueue(status: dict[str, Any], reason: str, words: str) -> None:
    """The condition Accepted says what Kueue says, and nothing begins."""
    cluster = for_kueue().play_kueue(status)
    assert _accepted(cluster)[0] == reason
    assert words in _accepted(cluster)[1]
    assert list(cluster.children) == [_WORKLOAD]


def test_the_flavors_place_the_pods() -> None:
    """Node labels and tolerations of a set's flavors are on its pods, and on no others."""
    cluster = for_kueue()
    taint = {"key": "gpu", "operator": "Exists"}
    flavors = {"fast": a_flavor({"pool": "fast"}, taint), "slow": a_flavor({"pool": "slow"})}
    cluster.kueue = KueueObjects(flavors)
    update = {
        "name": "load",
        "annotations": {"autoscaler": "here"},
        "nodeSelector": {"made": "now"},
        "labels": {"app.kubernetes.io/component": "other", "more": "yes"},
    }
    status = admitted({"server": "fast", "load": "slow"})
    status["admissionChecks"] = [{"name": "a", "state": "Ready", "podSetUpdates": [update]}]
    cluster.play_kueue(status).schedule()
    server, load = (
        cluster.children[f"Job/a-run-{name}"]["spec"]["template"] for name in ("server", "load")
    )
    assert server["spec"]["nodeSelector"] == {"pool": "fast"}
    assert server["spec"]["tolerations"].count(taint) == 1
    assert load["spec"]["nodeSelector"] == {"pool": "slow", "made": "now"}
    assert taint not in load["spec"]["tolerations"]
    assert load["metadata"]["annotations"]["autoscaler"] == "here"
    assert load["metadata"]["labels"]["more"] == "yes"
    assert load["metadata"]["labels"]["app.kubernetes.io/component"] == "loadgen"


def test_a_run_does_not_begin_without_its_flavor() -> None:
    """On other nodes than Kueue has assigned it would take another's quota."""
    cluster = for_kueue()
    cluster.kueue = KueueObjects({"default": None})
    cluster.play_kueue(admitted())
    assert "ResourceFlavor default does not exist" in _accepted(cluster)[1]
    assert list(cluster.children) == [_WORKLOAD]
    cluster.kueue = KueueObjects({"default": a_flavor({})})
    assert _accepted(cluster.later(5))[0] == "Admitted"


def test_the_priority_of_a_run_is_that_of_its_class() -> None:
    """The label names the WorkloadPriorityClass; without it, the run waits for the class."""
    cluster = for_kueue()
    label = {"kueue.x-k8s.io/priority-class": "urgent"}
    metadata = {**cluster.run["metadata"]}
    metadata["labels"] = {**metadata["labels"], **label}
    fresh = PretendCluster(run={**cluster.run, "metadata": metadata, "status": {}})
    fresh.kueue = KueueObjects()
    assert "WorkloadPriorityClass urgent" in _accepted(fresh.settle())[1]
    assert not fresh.children
    fresh.kueue = KueueObjects(priority_class={"value": 100})
    spec = _spec(fresh.later(5))
    assert spec["priority"] == 100
    assert spec["priorityClassRef"] == {
        "group": "kueue.x-k8s.io",
        "kind": "WorkloadPriorityClass",
        "name": "urgent",
    }


@pytest.mark.parametrize(("age", "pause"), [(0, 5.0), (60, 30.0), (3600, 60.0)])
def test_a_class_that_is_missing_for_long_is_looked_for_less_often(age: int, pause: float) -> None:
    """Each look reads it: a run that waits for ever must cost next to nothing."""
    cluster = PretendCluster(run=for_kueue().run, settings=_ENABLED)
    created = format_time(cluster.now - timedelta(seconds=age))
    class_label = {"kueue.x-k8s.io/priority-class": "urgent"}
    metadata = {**cluster.run["metadata"], "creationTimestamp": created}
    metadata["labels"] = {**metadata["labels"], **class_label}
    observed = Observed(QueuePosition(admitted=False), kueue=KueueObjects())
    run = {**cluster.run, "metadata": metadata, "status": {}}
    plan = make_plan(run, observed, cluster.settings, cluster.now, "")
    assert plan.look_again_seconds == pause


@pytest.mark.parametrize(
    ("settings", "why"),
    [(_ENABLED, "Kueue is not installed"), (SETTINGS, "kueue.enabled is false")],
    ids=["absent", "disabled"],
)
def test_without_kueue_the_label_has_no_effect(settings: Any, why: str) -> None:
    """The run begins at once, and its condition says why nothing was awaited."""
    run = for_kueue().run
    cluster = PretendCluster(run={**run, "status": {}}, settings=settings).settle()
    assert _accepted(cluster)[0] == "Accepted"
    assert why in _accepted(cluster)[1]
    assert cluster.finished or "Job/a-run-server" in cluster.children
    cluster.schedule().start_server().start_load().measure()
    # A run that has begun without Kueue goes on without it.
    cluster.kueue = KueueObjects()
    assert cluster.settle().says("Failed") is None


def test_a_run_that_waits_begins_once_kueue_is_uninstalled() -> None:
    """Nothing is held if Kueue is absent: the run joins the operator's queue."""
    cluster = for_kueue()
    del cluster.children[_WORKLOAD]
    cluster.kueue = None
    assert _accepted(cluster.settle())[0] == "Accepted"


@pytest.mark.parametrize("stage", ["starts", "measures"])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (PREEMPTED, "(Preempted): Preempted to accommodate a workload."),
        (evicted("ClusterQueueStopped", "The ClusterQueue is stopped"), "is stopped."),
        (evicted("Deactivated", "The workload is deactivated"), "(Deactivated)"),
        (pending("no quota"), ": no reason"),
    ],
    ids=["preempted", "stopped", "deactivated", "not admitted"],
)
def test_an_eviction_ends_the_run(stage: str, status: dict[str, Any], words: str) -> None:
    """The run fails with the reason Preempted and Kueue's words, and never begins again."""
    cluster = _begun() if stage == "starts" else _measuring()
    cluster.play_kueue(status)
    assert cluster.says("Failed") == ("True", "Preempted")
    assert words in cluster.message("Failed")
    if stage == "measures":
        assert cluster.stops
        cluster.end_load(143)
    cluster.collect_garbage().later(61)
    assert cluster.finished
    assert _WORKLOAD not in cluster.children


def test_a_deactivated_workload_ends_the_run() -> None:
    """Also before Kueue has reported the eviction."""
    cluster = _begun()
    _spec(cluster)["active"] = False
    assert cluster.settle().says("Failed") == ("True", "Preempted")
    assert "spec.active is false" in cluster.message("Failed")


def test_a_deleted_workload_ends_the_run() -> None:
    """Its quota is another's then."""
    cluster = _measuring()
    del cluster.children[_WORKLOAD]
    assert cluster.settle().says("Failed") == ("True", "Preempted")
    assert "was deleted" in cluster.message("Failed")


def test_an_eviction_after_the_load_has_ended_changes_nothing() -> None:
    """Everything was measured: the run is complete."""
    cluster = _measuring()
    held = cluster.children[_WORKLOAD]
    held["status"] = PREEMPTED
    over(cluster)
    assert cluster.says("Complete") == ("True", "Measured")


def test_a_run_that_is_evicted_before_it_begins_waits_again() -> None:
    """Its Workload, which keeps quota until it goes, is replaced by a new one."""
    cluster = for_kueue()
    cluster.turn = type(cluster.turn)(admitted=False, position=1)
    cluster.play_kueue(admitted())
    assert cluster.says("Accepted") == ("True", "Queued")
    cluster.play_kueue(PREEMPTED)
    assert cluster.says("Accepted") == ("True", "AdmissionPending")
    assert cluster.made[_WORKLOAD] == 2
    assert "status" not in cluster.children[_WORKLOAD]


def test_a_deactivated_workload_holds_a_run_that_has_not_begun() -> None:
    """It waits to be activated; with quota it ends, for no other workload could have that."""
    cluster = for_kueue()
    _spec(cluster)["active"] = False
    assert _accepted(cluster.settle())[0] == "Inadmissible"
    assert "deactivated" in _accepted(cluster)[1]
    _spec(cluster)["active"] = True
    assert _accepted(cluster.settle())[0] == "AdmissionPending"
    cluster.turn = type(cluster.turn)(admitted=False, position=1)
    cluster.play_kueue(admitted())
    _spec(cluster)["active"] = False
    assert cluster.settle().says("Failed") == ("True", "Preempted")


def test_the_operators_queue_comes_after_kueue() -> None:
    """A run takes a slot only once it is admitted, and one decision after that."""
    cluster = for_kueue()
    cluster.children[_WORKLOAD]["status"] = admitted()
    assert cluster.step()
    assert cluster.says("Accepted") == ("True", "Queued")
    assert "startTime" not in cluster.status()
    assert cluster.looks_again
    assert _accepted(cluster.settle())[0] == "Admitted"


def test_a_finished_run_frees_its_quota() -> None:
    """The Workload is finished once the pods are gone, and goes with the other children."""
    cluster = over(_measuring())
    assert _WORKLOAD in cluster.children
    assert "delete Job/a-run-server" in cluster.writes
    assert "workload Finished" not in cluster.writes
    cluster.collect_garbage()
    assert cluster.finished
    assert cluster.writes[-3:] == [
        "status Complete",
        "workload Finished",
        f"delete {_WORKLOAD}",
    ]


def test_a_run_whose_result_is_awaited_frees_its_quota_once_its_pods_are_gone() -> None:
    """While a pod of the server lives or is being deleted, its node is not free."""
    cluster = _measuring().end_load(document=UNREAD)
    assert cluster.says("Finished") == ("False", "ResultPending")
    (server,) = [pod for name, pod in cluster.pods.items() if "server" in name]
    assert "deletionTimestamp" not in server["metadata"]
    assert "workload Finished" not in cluster.writes
    server["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "workload Finished" not in cluster.later(1000).writes
    assert "workload Finished" in cluster.collect_garbage().later(1).writes


def test_a_kept_workload_is_finished_once() -> None:
    """With cleanup Never it stays, and holds no quota."""
    cluster = for_kueue({"retention": {"cleanup": "Never"}}).play_kueue(admitted())
    cluster.schedule().start_server().start_load().measure()
    over(cluster).later(1)
    assert cluster.finished
    assert cluster.writes.count("workload Finished") == 1
    conditions = {
        each["type"]: each for each in cluster.children[_WORKLOAD]["status"]["conditions"]
    }
    assert (conditions["Finished"]["status"], conditions["Finished"]["reason"]) == (
        "True",
        "Succeeded",
    )
    assert conditions["PodsReady"]["status"] == "True"


def test_an_operator_that_dies_between_finish_and_report_frees_the_quota_later() -> None:
    """The next one finds a finished run whose Workload is not."""
    cluster = for_kueue({"retention": {"cleanup": "Never"}}).play_kueue(admitted())
    cluster.schedule().start_server().start_load().measure()
    over(cluster).later(1)
    held = cluster.children[_WORKLOAD]["status"]
    held["conditions"] = [each for each in held["conditions"] if each["type"] != "Finished"]
    cluster.restart_operator()
    cluster.settle()
    assert cluster.writes.count("workload Finished") == 2


@pytest.mark.parametrize("change", ["suspend", "cancel"])
def test_a_waiting_run_that_is_held_or_cancelled_has_no_workload(change: str) -> None:
    """Kueue has nothing to admit then; a run that is resumed waits anew."""
    cluster = changed(for_kueue(), **{change: True})
    assert _WORKLOAD not in cluster.children
    if change == "cancel":
        assert cluster.finished
    else:
        assert _accepted(changed(cluster, suspend=False))[0] == "AdmissionPending"
        assert _WORKLOAD in cluster.children


def test_a_run_that_is_suspended_before_it_measures_gives_its_quota_back() -> None:
    """Once its pods are gone."""
    cluster = _begun().schedule()
    changed(cluster, suspend=True)
    assert _WORKLOAD in cluster.children
    cluster.collect_garbage().later(5)
    assert not cluster.children
    assert "startTime" not in cluster.status()


def test_a_run_that_waits_for_nodes_keeps_its_quota() -> None:
    """Kueue would admit it again at once; a second attempt needs no second admission."""
    cluster = _waiting_for_nodes()
    assert _accepted(cluster)[0] == "WaitingForNodes"
    assert list(cluster.children) == [_WORKLOAD]
    assert "startTime" not in cluster.status()
    cluster.later(400)
    assert _accepted(cluster)[0] == "Admitted"
    assert cluster.made[_WORKLOAD] == 1


def test_a_workload_that_is_refused_is_reported() -> None:
    """The run waits, and quotes the API server."""
    run = {**for_kueue().run, "status": {}}
    cluster = PretendCluster(run=run, kueue=KueueObjects())
    cluster.refusals[_WORKLOAD] = (500, "failed calling webhook: no answer")
    assert "failed calling webhook" in _accepted(cluster.settle())[1]
    cluster.refusals.clear()
    cluster.settle()
    assert list(cluster.children) == [_WORKLOAD]


def test_another_objects_workload_is_a_name_clash() -> None:
    """The run never takes a Workload that is not its own."""
    cluster = PretendCluster(run={**for_kueue().run, "status": {}}, kueue=KueueObjects())
    cluster.children[_WORKLOAD] = {"metadata": {"uid": "x"}, "status": admitted()}
    cluster.settle().later(61)
    assert cluster.says("Failed") == ("True", "NameClash")
    assert list(cluster.children) == [_WORKLOAD]


def test_a_run_waits_while_the_operator_may_not_see_workloads() -> None:
    """It would bypass its quota otherwise. The condition names the rights; others are not held."""
    cluster = PretendCluster(run={**for_kueue().run, "status": {}})
    cluster.kueue = KueueObjects(refusal="workloads.kueue.x-k8s.io is forbidden.")
    reason, message = _accepted(cluster.settle())
    assert reason == "AdmissionPending"
    assert "workloads.kueue.x-k8s.io is forbidden. Grant the operator the rights" in message
    assert not cluster.children
    cluster.kueue = KueueObjects()
    assert list(cluster.later(5).children) == [_WORKLOAD]
    other = a_cluster(kueue=KueueObjects(refusal="forbidden")).settle()
    assert other.says("Accepted") == ("True", "Accepted")


def test_an_operator_without_rights_ends_no_run_that_kueue_admitted() -> None:
    """It does not see the Workload, which may be there."""
    cluster = _measuring()
    workload = cluster.children.pop(_WORKLOAD)
    cluster.kueue = KueueObjects(refusal="forbidden")
    cluster.settle()
    assert cluster.says("Measuring") == ("True", "Measuring")
    cluster.children[_WORKLOAD] = workload
    cluster.kueue = KueueObjects({"default": a_flavor({})})
    cluster.settle()
    assert cluster.says("Measuring") == ("True", "Measuring")


def test_a_run_without_the_label_knows_nothing_of_kueue() -> None:
    """It has no Workload."""
    cluster = a_cluster(kueue=KueueObjects()).settle()
    assert _WORKLOAD not in cluster.children
    assert cluster.says("Accepted") == ("True", "Accepted")


def _without_label(cluster: PretendCluster) -> PretendCluster:
    cluster.run["metadata"]["labels"] = {}
    return cluster.settle()


@pytest.mark.parametrize("stage", ["waits", "awaits its turn", "found no nodes"])
def test_a_waiting_run_whose_label_is_removed_leaves_kueue(stage: str) -> None:
    """Its Workload goes, and it begins by the operator's own queue."""
    if stage == "found no nodes":
        cluster = _waiting_for_nodes()
    else:
        cluster = for_kueue()
        cluster.turn = QueuePosition(admitted=False, position=1)
        if stage == "awaits its turn":
            cluster.play_kueue(admitted())
    _without_label(cluster)
    assert not cluster.children
    assert _accepted(cluster)[0] == ("WaitingForNodes" if "nodes" in stage else "Queued")
    cluster.turn = QueuePosition(admitted=True)
    assert _accepted(cluster.later(400))[0] == "Accepted"
    assert list(cluster.children) == ["Job/a-run-server"]
    assert "pool" not in _node_selector(cluster, "server")


def test_a_waiting_run_leaves_kueue_whose_workload_is_going() -> None:
    """A finalizer may keep the Workload for a while: the run does not wait for that."""
    cluster = for_kueue()
    held = cluster.children[_WORKLOAD]
    held["metadata"]["deletionTimestamp"] = "2026-03-12T14:00:00Z"
    held["status"] = admitted()
    assert _accepted(_without_label(cluster))[0] == "Accepted"
    assert not _node_selector(cluster, "server")
    cluster.children[_WORKLOAD]["status"] = PREEMPTED
    assert cluster.settle().says("Failed") is None


def test_a_begun_run_whose_label_is_removed_keeps_the_nodes_of_its_quota() -> None:
    """The load generator, which is made later, goes where Kueue has put it."""
    cluster = _without_label(_begun()).schedule()
    assert _node_selector(cluster, "server") == {"pool": "measured"}
    assert _node_selector(cluster, "load") == {"pool": "measured"}


def test_a_begun_run_whose_label_is_removed_frees_its_quota() -> None:
    """Its Workload is finished, and deleted, as with the label."""
    cluster = over(_without_label(_measuring())).collect_garbage()
    assert cluster.finished
    assert cluster.writes[-2:] == ["workload Finished", f"delete {_WORKLOAD}"]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_begun_run_whose_label_is_removed_can_be_evicted(*, deleted: bool) -> None:
    """Its quota may be another's then, also if the Workload is deleted."""
    cluster = _without_label(_measuring())
    if deleted:
        del cluster.children[_WORKLOAD]
        cluster.settle()
    else:
        cluster.play_kueue(PREEMPTED)
    assert cluster.says("Failed") == ("True", "Preempted")
