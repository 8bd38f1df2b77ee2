"""The real Kueue admits runs on real nodes: quota, preemption, and a queue that is not there."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.kueue_process import start_kueue
from support.node_runs import condition, holds, make_run, status, wait_for
from support.operator_installed import operator_installed
from support.waiting import wait_until

VALUES: dict[str, Any] = {
    "kueue": {"enabled": True},
    # Kueue alone decides how many run.
    "maxConcurrentRuns": 4,
    "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
}
_SERVER = {"resources": {"cpu": "250m", "memory": "512Mi"}}
_QUOTA = {"cpu": "400m", "memory": "2Gi"}
"""Room for one run."""
_FLAVOR = {"kubernetes.io/os": "linux"}
_QUEUE = {"kueue.x-k8s.io/queue-name": "team-queue"}
_URGENT = {**_QUEUE, "kueue.x-k8s.io/priority-class": "urgent"}
_LONG = {"warmUpSeconds": 0, "minDurationSeconds": 300, "minQueries": 10}
_WAIT_SECONDS = 300.0


@pytest.fixture(scope="module")
def kueue(nodes_can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster with Kueue, whose one ClusterQueue has quota for one run."""
    folder: Path = tmp_path_factory.mktemp("kueue")
    cluster = Cluster(f"tests-kueue-{os.getpid()}", images=images())
    try:
        start_kueue(cluster, folder / "kueue", cluster.start_in_control_plane)
        quota = [{"name": name, "nominalQuota": amount} for name, amount in _QUOTA.items()]
        group = {
            "coveredResources": list(_QUOTA),
            "flavors": [{"name": "measured", "resources": quota}],
        }
        queue = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        _create(cluster, "ResourceFlavor", "measured", spec={"nodeLabels": _FLAVOR})
        _create(cluster, "ClusterQueue", "cluster-queue", spec=queue)
        _create(cluster, "WorkloadPriorityClass", "urgent", value=100)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def namespace(kueue: Cluster) -> Iterator[str]:
    """Install an operator whose runs Kueue admits, and a LocalQueue for them."""
    with operator_installed(kueue, "kueue", VALUES) as name:
        _create_queue(kueue, name, "team-queue")
        yield name


def _create(cluster: Cluster, kind: str, name: str, **body: Any) -> None:
    made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps({**made, **body}))


def _create_queue(cluster: Cluster, namespace: str, name: str) -> None:
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": "cluster-queue"},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))


def _wait_for_reason(cluster: Cluster, namespace: str, run: str, reason: str) -> str:
    """Wait until the condition Accepted of a run has this reason; return its message."""

    def has_reason() -> bool:
        return bool(condition(cluster, namespace, run, "Accepted").get("reason") == reason)

    wait_until(has_reason, f"{reason} of {run}", deadline_seconds=_WAIT_SECONDS, poll_seconds=0.5)
    return str(condition(cluster, namespace, run, "Accepted")["message"])


def _workloads(cluster: Cluster, namespace: str) -> set[str]:
    found = cluster.get("workloads.kueue.x-k8s.io", "--namespace", namespace)["items"]
    return {each["metadata"]["name"] for each in found}


def test_with_quota_for_one_the_second_run_waits_for_the_first(
    kueue: Cluster, namespace: str
) -> None:
    """It has no child but its Workload until then; both end complete and leave no Workload."""
    make_run(kueue, namespace, "first", _QUEUE, server=_SERVER)
    _wait_for_reason(kueue, namespace, "first", "Admitted")
    job = kueue.get("job", "first-server", "--namespace", namespace)
    assert job["spec"]["template"]["spec"]["nodeSelector"] == _FLAVOR
    make_run(kueue, namespace, "second", _QUEUE, server=_SERVER)
    message = _wait_for_reason(kueue, namespace, "second", "AdmissionPending")
    assert "second-workload" in message
    wait_for(kueue, namespace, "first", "Complete")
    wait_for(kueue, namespace, "second", "Complete")
    first, second = (status(kueue, namespace, run) for run in ("first", "second"))
    assert second["startTime"] >= first["completionTime"]
    wait_until(lambda: not _workloads(kueue, namespace), "the end of the Workloads")


def test_a_run_of_a_higher_priority_ends_one_that_measures(kueue: Cluster, namespace: str) -> None:
    """The preempted run fails as Preempted and never begins again; the urgent one completes."""
    make_run(kueue, namespace, "slow", _QUEUE, server=_SERVER, validity=_LONG)
    wait_for(kueue, namespace, "slow", "Measuring")
    make_run(kueue, namespace, "urgent", _URGENT, server=_SERVER)
    wait_for(kueue, namespace, "slow", "Failed")
    failed = condition(kueue, namespace, "slow", "Failed")
    assert failed["reason"] == "Preempted"
    assert "slow-workload (Preempted): Preempted to accommodate a workload" in failed["message"]
    wait_for(kueue, namespace, "urgent", "Complete")
    assert holds(kueue, namespace, "slow", "Finished")
    assert condition(kueue, namespace, "slow", "Failed") == failed


def test_a_run_of_an_unknown_queue_waits_for_it(kueue: Cluster, namespace: str) -> None:
    """The condition quotes Kueue; the run goes on once the queue is there."""
    make_run(kueue, namespace, "lost", {"kueue.x-k8s.io/queue-name": "nowhere"}, server=_SERVER)
    message = _wait_for_reason(kueue, namespace, "lost", "Inadmissible")
    assert "LocalQueue nowhere doesn't exist" in message
    assert "startTime" not in status(kueue, namespace, "lost")
    _create_queue(kueue, namespace, "nowhere")
    wait_for(kueue, namespace, "lost", "Complete")
