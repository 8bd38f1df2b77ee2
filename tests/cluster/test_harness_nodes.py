"""A cluster of the harness behaves as a real one, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cluster import homes, probes
from support.cluster.cluster import Cluster
from support.cluster.namespaces import fresh_namespace
from support.cluster.probes import manifest, pod, service
from support.cluster.traces import traces
from support.waiting import wait_until

_ANSWERED = "jsonpath={.status.phase}=Succeeded"


def _create(cluster: Cluster, namespace: str, *items: dict[str, Any]) -> None:
    cluster.kubectl("--namespace", namespace, "create", "-f", "-", stdin=manifest(*items))


def _answer(cluster: Cluster, namespace: str, name: str) -> str:
    """Return what a pod of this command printed, once it has succeeded."""
    words = ("--namespace", namespace)
    cluster.kubectl(*words, "wait", f"pod/{name}", f"--for={_ANSWERED}", "--timeout=60s")
    return cluster.kubectl(*words, "logs", name)


def _waiting_reason(cluster: Cluster, namespace: str, name: str) -> str:
    path = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    return cluster.kubectl("--namespace", namespace, "get", "pod", name, "-o", path)


def test_a_restricted_pod_finds_a_service_by_name(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """A restricted pod reaches another through its Service, called by its short name."""
    cluster.import_image(probes.pack(tmp_path))
    _create(
        cluster,
        namespace,
        pod("answers", "serve"),
        service("answers"),
        pod("asks", "get", "http://answers/"),
    )
    assert _answer(cluster, namespace, "asks") == "answers"


def test_a_missing_image_fails_at_once(cluster: Cluster, namespace: str) -> None:
    """If no registry is reachable, the kubelet reports it at once."""
    _create(cluster, namespace, pod("absent", "serve", image="registry.example/absent:1"))
    reasons = {"ErrImagePull", "ImagePullBackOff"}
    wait_until(
        lambda: _waiting_reason(cluster, namespace, "absent") in reasons,
        "The kubelet's complaint about an absent image",
        deadline_seconds=60,
        poll_seconds=0.2,
    )


def test_two_nodes_reach_each_other_and_one_dies(two_nodes: Cluster, tmp_path: Path) -> None:
    """Pods on two nodes reach each other through a Service; a dead node can come back."""
    two_nodes.import_image(probes.pack(tmp_path))
    with fresh_namespace(two_nodes) as namespace:
        _create(
            two_nodes,
            namespace,
            pod("answers", "serve", node="node2"),
            service("answers"),
            pod("asks", "get", f"http://answers.{namespace}.svc.cluster.local/", node="node1"),
        )
        assert _answer(two_nodes, namespace, "asks") == "answers"
    two_nodes.kill_node("node2")
    wait_until(lambda: not two_nodes.node_is_ready("node2"), "node2's loss", poll_seconds=0.5)
    assert two_nodes.node_is_ready("node1")
    two_nodes.start_node("node2")
    wait_until(lambda: two_nodes.node_is_ready("node2"), "node2's return", poll_seconds=0.5)


@pytest.mark.usefixtures("nodes_can_run")
def test_a_cluster_that_stops_leaves_no_trace() -> None:
    """After a stop, no process, mount, interface, control group or folder remains."""
    name = f"tests-stop-{os.getpid()}"
    cluster = Cluster(name)
    slot = cluster.wire.slot
    assert traces(name, slot), "nothing was found to begin with"
    cluster.stop()
    assert traces(name, slot) == []


_HOLD = """
import sys
from support.cluster.cluster import Cluster
cluster = Cluster(sys.argv[1])
print(cluster.wire.slot, flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("nodes_can_run")
def test_a_cluster_dies_with_the_process_that_holds_it() -> None:
    """After SIGKILL no process remains, and the next start removes everything else."""
    name = f"tests-kill-{os.getpid()}"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, name],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        slot = int(holder.stdout.readline())
        holder.send_signal(signal.SIGKILL)
    # The kernel keeps the network for a minute or more, until it drops undelivered packets.
    left = ("control group", "folder", "network interface")
    wait_until(
        lambda: all(line.startswith(left) for line in traces(name, slot)),
        "The end of a cluster whose holder was killed",
    )
    homes.sweep()
    assert traces(name, slot) == []
