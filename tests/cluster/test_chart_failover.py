"""Does the other replica take over when the leader dies in the midst of a run?"""

import os
import signal
from pathlib import Path

from inferometer_api.children import LOADGEN, load_name
from support.chart import Json
from support.cluster.cluster import Cluster
from support.cluster.processes import wait_until
from support.node_runs import make_run, status, wait_for
from support.operator_installed import operator_installed

LEASE_SECONDS = 15.0
TWO = {"operator": {"replicas": 2}}


def leader(cluster: Cluster, namespace: str) -> str:
    """Return the name of the pod that leads, empty where none does."""
    lease = cluster.get("lease", "inferometer-operator", "--namespace", namespace)
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def pods(cluster: Cluster, namespace: str, component: str) -> dict[str, Json]:
    """Return the metadata of the pods of a component, by name."""
    selector = f"app.kubernetes.io/component={component}"
    told = cluster.get("pods", "--namespace", namespace, "--selector", selector)["items"]
    return {each["metadata"]["name"]: each["metadata"] for each in told}


def kill_at_once(cluster: Cluster, namespace: str, pod: str) -> None:
    """Let a pod's process die without a word, as with its node, and the pod with it."""
    uid = pods(cluster, namespace, "operator")[pod]["uid"]
    (process,) = (each for each in Path("/proc").glob("[0-9]*") if _is_operator(each, uid))
    os.kill(int(process.name), signal.SIGKILL)
    cluster.kubectl("delete", "pod", pod, "--namespace", namespace, "--force", "--grace-period=0")


def _is_operator(process: Path, pod_uid: str) -> bool:
    try:
        within = pod_uid in (process / "cgroup").read_text()
        return within and b"inferometer_operator" in (process / "cmdline").read_bytes()
    except OSError:
        return False  # ended meanwhile


def test_the_other_replica_takes_over(cluster: Cluster) -> None:
    """The leader dies while load runs: the other leads soon, and ends the very same run right."""
    with operator_installed(cluster, "failover", TWO) as namespace:
        make_run(
            cluster,
            namespace,
            "long",
            validity={"warmUpSeconds": 0, "minDurationSeconds": 25, "minQueries": 10},
            retention={"cleanup": "Never"},
        )
        wait_for(cluster, namespace, "long", "Measuring")
        before = status(cluster, namespace, "long")
        job = ("job", load_name("long"), "--namespace", namespace)
        measuring = cluster.get(*job)["metadata"]["uid"]
        dying = leader(cluster, namespace)
        (other,) = pods(cluster, namespace, "operator").keys() - {dying}
        kill_at_once(cluster, namespace, dying)
        wait_until(
            lambda: leader(cluster, namespace) == other,
            "The other replica's lead",
            deadline_seconds=LEASE_SECONDS + 10,
            poll_seconds=0.5,
        )
        wait_for(cluster, namespace, "long", "Complete")
        wait_for(cluster, namespace, "long", "Finished")
        assert status(cluster, namespace, "long")["startTime"] == before["startTime"]
        assert cluster.get(*job)["metadata"]["uid"] == measuring
        assert len(pods(cluster, namespace, LOADGEN)) == 1
