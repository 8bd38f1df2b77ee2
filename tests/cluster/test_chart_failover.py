"""A run continues if the leading operator dies or the operator is upgraded."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN, load_name
from support.chart import CHART, Json, helm
from support.cluster.cluster import Cluster
from support.node_runs import make_run, status, wait_for
from support.operator_installed import operator_installed
from support.waiting import wait_until

LED_ON_SECONDS = 90.0
"""Another replica leads about 20 s after the leader dies; the rest is for a slow machine."""
VALUES: Json = {"operator": {"replicas": 2}}


def leader(cluster: Cluster, namespace: str) -> str:
    """Return the name of the leading pod, or an empty string."""
    lease = cluster.get("lease", "inferometer-operator", "--namespace", namespace)
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def pods(cluster: Cluster, namespace: str, component: str) -> dict[str, Json]:
    """Return the metadata of the pods of a component, by name."""
    selector = f"app.kubernetes.io/component={component}"
    items = cluster.get("pods", "--namespace", namespace, "--selector", selector)["items"]
    return {each["metadata"]["name"]: each["metadata"] for each in items}


def kill_at_once(cluster: Cluster, namespace: str, pod: str) -> None:
    """Kill a pod's process and delete the pod, as when its node dies."""
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


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Install an operator of two replicas."""
    with operator_installed(cluster, "failover", VALUES) as name:
        yield name


def measuring(cluster: Cluster, namespace: str, run: str, seconds: int = 30) -> tuple[str, str]:
    """Create a run and wait for its load; return its start time and the UID of its Job."""
    make_run(
        cluster,
        namespace,
        run,
        validity={"warmUpSeconds": 0, "minDurationSeconds": seconds, "minQueries": 10},
        retention={"cleanup": "Never"},
    )
    wait_for(cluster, namespace, run, "Measuring")
    return begun(cluster, namespace, run)


def begun(cluster: Cluster, namespace: str, run: str) -> tuple[str, str]:
    """Return when the run began and the UID of its only load Job."""
    job = cluster.get("job", load_name(run), "--namespace", namespace)
    return status(cluster, namespace, run)["startTime"], job["metadata"]["uid"]


def test_another_replica_takes_over(cluster: Cluster, namespace: str) -> None:
    """If the leader dies under load, another replica takes over and completes the same run.

    This is the standby, or the pod that replaces the dead one: the first to request it once the
    Lease has run out.
    """
    before = measuring(cluster, namespace, "led-on")
    dying = leader(cluster, namespace)
    assert dying in pods(cluster, namespace, "operator")
    kill_at_once(cluster, namespace, dying)
    wait_until(
        lambda: leader(cluster, namespace) not in {"", dying},
        "Another replica's lead",
        deadline_seconds=LED_ON_SECONDS,
        poll_seconds=0.5,
    )
    assert leader(cluster, namespace) in pods(cluster, namespace, "operator")
    wait_for(cluster, namespace, "led-on", "Complete")
    wait_for(cluster, namespace, "led-on", "Finished")
    assert begun(cluster, namespace, "led-on") == before
    assert len(pods(cluster, namespace, LOADGEN)) == 1
    cluster.kubectl("delete", "benchmarkrun", "led-on", "--namespace", namespace)


def test_an_upgrade_lets_a_run_go_on(cluster: Cluster, namespace: str) -> None:
    """`helm upgrade` with another value replaces both replicas; the current run completes."""
    before = measuring(cluster, namespace, "upgraded", seconds=60)
    old = pods(cluster, namespace, "operator").keys()
    upgraded = helm(
        *("upgrade", "inferometer", CHART, "--namespace", namespace, "--wait"),
        *("--reuse-values", "--set", "modelStorage=5Gi"),
        kubeconfig=cluster.kubeconfig,
    )
    assert upgraded.returncode == 0, upgraded.stderr
    wait_until(
        lambda: not old & pods(cluster, namespace, "operator").keys(),
        "The end of the old replicas",
    )
    assert status(cluster, namespace, "upgraded")["phase"] == "Measuring"
    wait_for(cluster, namespace, "upgraded", "Complete")
    wait_for(cluster, namespace, "upgraded", "Finished")
    assert begun(cluster, namespace, "upgraded") == before
