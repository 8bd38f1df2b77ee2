"""What others own, or an earlier run has left, is neither used nor deleted; it may go in time."""

import json

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, RESULT, SERVER, labels
from support.cluster_objects import a_pod, being_deleted, started, warning
from support.condition_rows import a_cluster, measuring, over
from support.fault_courses import left_behind
from support.pretend_api import stored
from support.runs import a_run

_NAMES = [
    "Job/a-run-server",
    "Job/a-run-load",
    "ConfigMap/a-run-load",
]


@pytest.mark.parametrize("key", _NAMES)
def test_what_belongs_to_others_is_neither_used_nor_deleted(key: str) -> None:
    """A foreign object of the name that a child needs stays as it is, and the run says so."""
    cluster = a_cluster()
    name = key.partition("/")[2]
    foreign = {"kind": key.partition("/")[0], "metadata": {"name": name, "uid": "theirs"}}
    cluster.children[key] = foreign
    cluster.settle().schedule().start_server()
    if cluster.load in cluster.children and key != cluster.load:
        over(cluster.start_load().measure())
    cluster.collect_garbage()
    cluster.pass_time()
    assert cluster.children[key] == foreign
    assert cluster.says("Failed") == ("True", "NameClash")
    assert f"named {name}" in cluster.message("Failed")


def test_a_foreign_object_with_the_name_of_a_result_is_left_alone() -> None:
    """The result is awaited meanwhile, and given up an hour after the deadline."""
    cluster = measuring()
    name = f"a-run-result-{cluster.run['metadata']['uid'][:8]}-0"
    foreign = {"kind": "ConfigMap", "metadata": {"name": name, "uid": "theirs"}}
    cluster.children[f"ConfigMap/{name}"] = foreign
    over(cluster).later(2 * 3600 - 1)
    assert cluster.says("Finished") == ("False", "ResultPending")
    assert name in cluster.message("Finished")
    assert cluster.load in cluster.children
    cluster.later(1).collect_garbage()
    assert cluster.says("Complete") == ("True", "ResultNotKept")
    assert cluster.finished
    assert cluster.children[f"ConfigMap/{name}"] == foreign


def test_what_only_carries_the_labels_of_a_run_is_not_the_runs() -> None:
    """Such a ConfigMap is not deleted, and such pods are no servers, no load and not waited for."""
    cluster = a_cluster().settle()
    other = stored(a_run(), uid="theirs", name="other")
    theirs = labels("a-run", cluster.run["metadata"]["uid"], RESULT)
    mine = {"kind": "ConfigMap", "metadata": {"name": "mine", "uid": "x", "labels": theirs}}
    cluster.children["ConfigMap/mine"] = mine
    for component in (SERVER, LOADGEN):
        pod = started(a_pod(other, component, name=f"their-{component}"), ready=True)
        pod["metadata"]["labels"] = labels("a-run", cluster.run["metadata"]["uid"], component)
        cluster.pods[pod["metadata"]["name"]] = pod
    cluster.settle()
    assert cluster.jobs_made == 0
    cluster.schedule().start_server().start_load().measure()
    plan = json.loads(cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"])
    assert [each["pod"] for each in plan["servers"]] == ["a-run-server-1"]
    over(cluster)
    assert cluster.children["ConfigMap/mine"] == mine
    assert cluster.collect_garbage().says("Finished") == ("True", "Complete")


@pytest.mark.parametrize("key", _NAMES)
def test_what_an_earlier_run_of_the_name_has_left_is_waited_for(key: str) -> None:
    """Deleted and created anew, a run goes on once the garbage collector has done its work."""
    cluster = left_behind(key).schedule()
    foreign = cluster.children[key]
    assert cluster.says("Failed") is None
    assert cluster.later(50).children[key] == foreign
    del cluster.children[key]
    cluster.refused.clear()
    cluster.settle().schedule()
    over(cluster.start_server().start_load().measure())
    assert cluster.says("Complete") == ("True", "Measured")


@pytest.mark.parametrize("key", _NAMES)
def test_what_an_earlier_run_has_left_is_waited_for_a_minute(key: str) -> None:
    """The UID counts: whatever stays is someone else's, and is not deleted."""
    cluster = left_behind(key).schedule()
    foreign = cluster.children[key]
    cluster.later(59)
    assert cluster.says("Failed") is cluster.says("Complete") is None
    cluster.later(1)
    assert cluster.says("Failed") == ("True", "NameClash")
    cluster.pass_time()
    assert cluster.children[key] == foreign


@pytest.mark.parametrize("key", _NAMES)
def test_a_foreign_object_that_is_being_deleted_is_waited_for(key: str) -> None:
    """The name is free soon."""
    cluster = a_cluster()
    kind, _, name = key.partition("/")
    theirs = {"kind": kind, "metadata": {"name": name, "uid": "theirs"}}
    cluster.children[key] = being_deleted(theirs, cluster.now)
    assert cluster.settle().schedule().says("Failed") is None
    assert cluster.later(60).says("Failed") == ("True", "NameClash")


def test_a_run_reports_only_refusals_of_its_own_job() -> None:
    """A Job of that name was there before."""
    cluster = a_cluster().settle().schedule()
    earlier = {"kind": "Job", "metadata": {"name": "a-run-load", "uid": "of-an-earlier-one"}}
    cluster.events.append(warning(earlier, "FailedCreate", "exceeded quota: small"))
    assert cluster.settle().says("Measuring") == ("False", "LoadStarting")
