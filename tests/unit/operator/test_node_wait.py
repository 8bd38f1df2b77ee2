"""A run whose pods find no nodes gives up its turn, waits, and is tried again."""

from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_operator.reconcile.node_wait import retry_seconds
from inferometer_operator.reconcile.observed import QueuePosition
from support.cluster_objects import Object, being_deleted, unschedulable
from support.condition_rows import a_cluster, changed, over
from support.pretend_cluster import PretendCluster

_WORDS = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."


def _unplaced(cluster: PretendCluster, component: str = SERVER) -> PretendCluster:
    """Let the scheduler find no node for a new pod of a component."""
    pod = unschedulable(cluster.pod(component), _WORDS)
    cluster.pods[pod["metadata"]["name"]] = pod
    return cluster.settle()


def _waiting(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster whose run found no node for its server, and waits."""
    return _unplaced(a_cluster(spec).settle()).later(31).collect_garbage()


def _wait(cluster: PretendCluster) -> Object:
    found: Object = cluster.status()["waitingForNodes"]
    return found


def _retry(cluster: PretendCluster) -> PretendCluster:
    """Let the longest pause pass."""
    cluster.later(400)
    assert cluster.says("Accepted") == ("True", "Accepted"), cluster.status()
    return cluster


def test_a_run_without_nodes_goes_back_to_the_queue_after_30_seconds() -> None:
    """It keeps no child and no start time, and shows the scheduler's words and the next attempt."""
    cluster = _unplaced(a_cluster().settle()).later(29)
    assert cluster.says("ServerReady") == ("False", "Unschedulable")
    assert cluster.says("Accepted") == ("True", "Accepted")
    cluster.later(1).collect_garbage()
    assert cluster.says("Accepted") == ("True", "WaitingForNodes")
    message = cluster.message("Accepted")
    assert _WORDS in message
    assert "since 2026-03-12T14:00:00.000Z (1 attempt)" in message
    status = cluster.status()
    assert status["phase"] == "Queued"
    assert not {"startTime", "nodes"} & status.keys()
    assert {each["type"] for each in status["conditions"]} == {"Accepted"}
    assert cluster.children == {}
    assert _wait(cluster)["attempts"] == 1
    assert f"tried again at {_wait(cluster)['retryTime']}" in message


def test_the_slot_is_kept_until_the_pods_are_gone() -> None:
    """Pods that are still bound would disturb the next run."""
    cluster = _unplaced(a_cluster().settle()).later(31)
    assert cluster.says("Accepted") == ("True", "WaitingForNodes")
    assert "startTime" in cluster.status()
    assert "startTime" not in cluster.collect_garbage().status()


@pytest.mark.parametrize("component", [SERVER, LOADGEN])
def test_it_is_tried_again_and_measured_once(component: str) -> None:
    """The second attempt begins with new children and a new start time, and completes."""
    cluster = a_cluster().settle()
    if component == LOADGEN:
        cluster.schedule().start_server()
    _unplaced(cluster, component).later(31).collect_garbage()
    assert cluster.says("Accepted") == ("True", "WaitingForNodes")
    assert cluster.children == {}
    _retry(cluster)
    assert cluster.status()["startTime"] > _wait(cluster)["since"]
    assert "retryTime" not in _wait(cluster)
    over(cluster.schedule().start_server().start_load().measure()).collect_garbage()
    assert cluster.says("Finished") == ("True", "Complete")
    assert cluster.made[cluster.server] == 2
    assert cluster.jobs_made == (2 if component == LOADGEN else 1)


def test_no_attempt_counts_towards_the_deadlines() -> None:
    """It waits for longer than it may run, and than its server may take to start."""
    cluster = a_cluster({"activeDeadlineSeconds": 60, "server": {"readyDeadlineSeconds": 20}})
    cluster.settle()
    for attempt in range(1, 6):
        assert _unplaced(cluster).later(25).says("Failed") is None
        cluster.later(6).collect_garbage()
        assert _wait(cluster)["attempts"] == attempt
        _retry(cluster)
    assert _wait(cluster)["since"] == "2026-03-12T14:00:00.000Z"
    assert cluster.later(21).says("Failed") == ("True", "ServerNotReady")


def test_the_pause_doubles_up_to_five_minutes_and_differs_from_run_to_run() -> None:
    """Two runs that have taken nodes from each other do not try again together."""
    for attempts, seconds in ((1, 30), (2, 60), (3, 120), (4, 240), (5, 300), (500, 300)):
        pauses = {retry_seconds(attempts, f"run-{number}") for number in range(20)}
        assert seconds <= min(pauses) <= max(pauses) <= 1.25 * seconds
        assert len(pauses) > 10


def test_the_end_of_another_run_ends_the_pause() -> None:
    """It need not wait for its retry time if nodes may be free."""
    cluster = _waiting()
    cluster.turn = QueuePosition(admitted=False, nodes_freed=True)
    cluster.settle()
    assert "retryTime" not in _wait(cluster)
    cluster.turn = QueuePosition(admitted=True)
    assert cluster.settle().says("Accepted") == ("True", "Accepted")


def test_after_its_pause_it_queues_like_any_other() -> None:
    """While no slot is free it shows its position."""
    cluster = _waiting()
    cluster.turn = QueuePosition(admitted=False, position=3, ahead="team/other")
    assert cluster.later(400).says("Accepted") == ("True", "Queued")
    assert "Position 3" in cluster.message("Accepted")


def test_a_fleet_goes_back_if_a_worker_finds_no_node() -> None:
    """Its pod 0 runs and waits for the worker: nothing was sent, and nothing is left."""
    cluster = a_cluster({"load": {"workers": 2}}).settle().schedule().start_server().start_load()
    cluster.measure(stage="WaitingForWorkers")
    name = "a-run-load-1"
    cluster.make_worker(1)
    cluster.pods[name] = unschedulable(cluster.pods[name], _WORDS)
    cluster.settle()
    assert cluster.says("Measuring") == ("False", "Unschedulable")
    cluster.later(31).collect_garbage()
    assert cluster.says("Accepted") == ("True", "WaitingForNodes")
    assert cluster.children == {}


def test_a_pod_on_a_lost_node_does_not_end_the_next_attempt() -> None:
    """The load pod of the first attempt hangs there; that of the second is guarded as ever."""
    cluster = a_cluster({"load": {"workers": 2}}).settle().schedule().start_server().start_load()
    cluster.measure(stage="WaitingForWorkers")
    (hangs,) = (name for name, pod in cluster.pods.items() if "load" in name)
    lost = cluster.pods[hangs]
    cluster.pods["a-run-load-1"] = unschedulable(cluster.make_worker(1), _WORDS)
    cluster.settle().later(31)
    cluster.pods[hangs] = being_deleted(lost, cluster.now)
    for name in set(cluster.pods) - {hangs}:
        del cluster.pods[name]
    cluster.report = None
    cluster.settle().later(61)
    assert cluster.says("Accepted") == ("True", "Accepted")
    assert cluster.says("Failed") is None
    assert cluster.schedule().jobs_made == 2
    cluster.children.pop(cluster.load)
    young = cluster.pod(LOADGEN)
    young["metadata"] |= {"name": "a-run-load-2", "uid": "uid-of-young"}
    cluster.pods["a-run-load-2"] = being_deleted(young, cluster.now)
    cluster.settle().later(400)
    assert cluster.jobs_made == 2
    assert cluster.says("Failed") is not None


def test_a_run_that_has_sent_load_never_goes_back() -> None:
    """What is measured stays: such a pod was never needed."""
    cluster = a_cluster({"load": {"workers": 2}}).settle().schedule().start_server().start_load()
    cluster.measure()
    name = "a-run-load-1"
    cluster.make_worker(1)
    cluster.pods[name] = unschedulable(cluster.pods[name], _WORDS)
    cluster.settle().later(400)
    assert cluster.says("Measuring") == ("True", "Measuring")
    assert cluster.says("Accepted") == ("True", "Accepted")
    assert {cluster.server, cluster.load} <= cluster.children.keys()


def test_a_run_that_measures_never_goes_back_though_its_report_cannot_be_read() -> None:
    """Its condition says that load was sent."""
    cluster = a_cluster({"load": {"workers": 2}}).settle().schedule().start_server().start_load()
    cluster.measure()
    assert cluster.says("Measuring") == ("True", "Measuring")
    cluster.report = None
    cluster.pods["a-run-load-1"] = unschedulable(cluster.make_worker(1), _WORDS)
    cluster.settle().later(400)
    assert cluster.says("Accepted") == ("True", "Accepted")
    assert {cluster.server, cluster.load} <= cluster.children.keys()


def test_no_load_is_made_before_every_server_has_a_node() -> None:
    """With one of two bound there is no load Job, and both go back together."""
    cluster = a_cluster({"server": {"replicas": 2}}).settle().schedule(1)
    second = cluster.pod(SERVER)
    second["metadata"] |= {"name": "a-run-server-2", "uid": "uid-of-second"}
    cluster.pods["a-run-server-2"] = unschedulable(second, _WORDS)
    cluster.settle()
    assert cluster.jobs_made == 0
    cluster.later(31).collect_garbage()
    assert cluster.says("Accepted") == ("True", "WaitingForNodes")
    assert cluster.pods == {}


@pytest.mark.parametrize("when", ["going back", "waiting"])
def test_a_run_that_waits_can_be_cancelled(when: str) -> None:
    """It ends at once, or once its pods are gone."""
    cluster = _unplaced(a_cluster().settle()).later(31)
    if when == "waiting":
        cluster.collect_garbage()
    changed(cluster, cancel=True).collect_garbage()
    cluster.settle()
    assert cluster.says("Failed") == ("True", "Cancelled")
    assert cluster.says("Finished") == ("True", "Failed")
    assert cluster.children == {}


def test_a_run_that_waits_can_be_suspended() -> None:
    """It is held, and begins once it is resumed."""
    cluster = changed(_waiting(), suspend=True)
    assert cluster.says("Accepted") == ("True", "Suspended")
    assert cluster.later(4000).says("Accepted") == ("True", "Suspended")
    changed(cluster, suspend=False)
    _retry(cluster)


def test_an_operator_that_restarts_goes_on_where_it_was() -> None:
    """All that it needs is in the status: it deletes the children, and counts on."""
    cluster = _unplaced(a_cluster().settle())
    cluster.stubborn.add(cluster.server)
    cluster.later(31)
    before = _wait(cluster)
    cluster.restart_operator()
    cluster.stubborn.clear()
    cluster.settle().collect_garbage()
    assert cluster.children == {}
    assert _wait(cluster) == before
    _unplaced(_retry(cluster)).later(31)
    assert _wait(cluster)["attempts"] == 2


def test_a_run_that_waits_for_long_costs_few_events() -> None:
    """It has one warning, however often it is tried again."""
    cluster = a_cluster().settle()
    for _ in range(5):
        _unplaced(cluster).later(31).collect_garbage()
        _retry(cluster)
    events = [each for each in cluster.writes if each.startswith("event")]
    assert events == ["event WaitingForNodes"]
