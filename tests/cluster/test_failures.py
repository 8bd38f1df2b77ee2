"""Each fault of the catalogue is reported by a real kubelet and a real scheduler.

tests/api plays the same faults with a fake kubelet. All runs that fail by themselves are created
at once.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    LOADGEN,
    RUN_LABEL,
    SERVER,
    server_name,
)
from inferometer_api.status.condition_reasons import REASONS
from support.cluster.cluster import Cluster
from support.hostile import group_of
from support.node_runs import condition, holds, make_run, status, wait_for, wait_for_reason
from support.operator_installed import operator_installed
from support.waiting import wait_until

SMALL: dict[str, Any] = {"cpu": "100m", "memory": "512Mi"}
TINY_LOAD = {"resources": {"cpu": "50m", "memory": "256Mi"}}
SOON_SECONDS = 60.0
"""Deadline for the report of a fault after its first trace; not an assertion."""
STARTING_SECONDS = 60.0
"""Deadline for the first trace: pods of many runs start at once on few cores."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A run that fails by itself, and its expected message."""

    name: str
    reason: str
    message: str
    spec: dict[str, Any]
    condition: str = "ServerReady"


def _server(**fields: Any) -> dict[str, Any]:
    return {"server": {"resources": SMALL, **fields}}


def _model(uri: str, **fields: Any) -> dict[str, Any]:
    return {"model": {"uri": uri, **fields}}


UNPLACED = (
    Fault(
        "too-large",
        "Unschedulable",
        "Insufficient cpu",
        _server(resources={"cpu": "640", "memory": "512Mi"}),
    ),
    Fault(
        "no-such-label",
        "Unschedulable",
        "node affinity/selector",
        _server(placement={"nodeSelector": {"disk": "fast"}}),
    ),
    Fault("no-gpu", "GpuUnavailable", "nvidia.com/gpu", _server(device="GPU")),
)
"""Runs that no node can take: they wait in the queue."""
FAULTS = (
    Fault(
        "wrong-checksum",
        "ModelRefused",
        "sha256",
        _model("zoo://classification/mobilenet_v2", sha256="0" * 64) | _server(),
    ),
    Fault(
        "no-such-model",
        "NotAvailable",
        "classification/nothing",
        _model("zoo://classification/nothing") | _server(),
        condition="Accepted",
    ),
    Fault(
        "unreachable-model",
        "ModelNotFetched",
        "https://127.0.0.1:9/model.onnx",
        _model("https://127.0.0.1:9/model.onnx", sha256="0" * 64)
        | _server(readyDeadlineSeconds=30),
    ),
    Fault(
        "out-of-memory",
        "OutOfMemory",
        "64Mi",
        _model("zoo://classification/resnet50")
        | _server(resources={"cpu": "100m", "memory": "64Mi"}),
    ),
    Fault(
        "never-ready",
        "ServerNotReady",
        "readyDeadlineSeconds",
        _model("zoo://classification/mobilenet_v2")
        | _server(resources={"cpu": "20m", "memory": "2Gi"}, readyDeadlineSeconds=4),
    ),
    Fault("clash", "NameClash", "clash-server", _server()),
    Fault(
        "no-such-claim",
        "NotFound",
        "nowhere",
        _model("pvc://nowhere/model.onnx") | _server(),
        condition="Accepted",
    ),
    Fault(
        "no-such-key",
        "InputRefused",
        "absent.npz",
        {"load": {"inputs": {"file": {"uri": "configmap://inputs/absent.npz"}}}} | _server(),
    ),
)


@contextmanager
def _operator(cluster: Cluster, prefix: str, **values: Any) -> Iterator[str]:
    """Install an operator that executes many small runs at once."""
    settled = {"maxConcurrentRuns": 32, "load": TINY_LOAD} | values
    with operator_installed(cluster, prefix, settled) as namespace:
        yield namespace


def _foreign_job() -> dict[str, Any]:
    """Return a Job of another client that has the name of a run's server, and no pod."""
    container = {"name": "c", "image": "inferometer-serving:0.1.0"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": server_name("clash")},
        "spec": {"suspend": True, "template": template},
    }


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Create every run that fails by itself, and the objects that make it fail."""
    with _operator(cluster, "failures") as name:
        here = ("--namespace", name)
        cluster.kubectl("create", *here, "-f", "-", stdin=json.dumps(_foreign_job()))
        cluster.kubectl("create", "configmap", "inputs", "--from-literal=present.npz=x", *here)
        cluster.kubectl("label", "configmap", "inputs", "inferometer.dev/allow-use=true", *here)
        for fault in (*UNPLACED, *FAULTS):
            make_run(cluster, name, fault.name, **fault.spec)
        yield name


@pytest.mark.parametrize("fault", UNPLACED, ids=lambda fault: fault.name)
def test_a_run_that_no_node_can_take_waits(cluster: Cluster, namespace: str, fault: Fault) -> None:
    """It is queued with the scheduler's message, and can be deleted."""
    wait_for_reason(cluster, namespace, fault.name, "Accepted", "WaitingForNodes")
    message = condition(cluster, namespace, fault.name, "Accepted")["message"]
    assert fault.message in message
    assert REASONS["WaitingForNodes"].remedy in message
    cluster.kubectl("delete", "benchmarkrun", fault.name, "--namespace", namespace)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_run_that_cannot_succeed_reports_the_reason(
    cluster: Cluster, namespace: str, fault: Fault
) -> None:
    """The run is Finished and Failed, with the expected reason and message."""
    _finished(cluster, namespace, fault.name)
    failed = condition(cluster, namespace, fault.name, "Failed")
    assert (failed.get("status"), failed.get("reason")) == ("True", fault.reason), failed
    assert fault.message in failed["message"]
    assert condition(cluster, namespace, fault.name, fault.condition)["status"] == "False"


def test_what_belongs_to_others_stays(cluster: Cluster, namespace: str) -> None:
    """The Job whose name a run needed is neither adopted nor deleted."""
    _finished(cluster, namespace, "clash")
    words = ("get", "job", server_name("clash"), "--namespace", namespace, "-o", "json")
    metadata = json.loads(cluster.kubectl(*words))["metadata"]
    assert "ownerReferences" not in metadata
    assert "deletionTimestamp" not in metadata


def test_a_taint_that_is_not_tolerated_is_reported(cluster: Cluster, namespace: str) -> None:
    """A run on tainted nodes waits, and its condition names the taint."""
    node = next(iter(cluster.nodes))
    cluster.kubectl("taint", "node", node, "team=other:NoSchedule")
    try:
        make_run(cluster, namespace, "tainted", **_server())
        _reported(
            cluster, namespace, "tainted", "ServerReady", "Unschedulable", "untolerated taint"
        )
        _reported(cluster, namespace, "tainted", "Accepted", "WaitingForNodes", "untolerated taint")
        cluster.kubectl("delete", "benchmarkrun", "tainted", "--namespace", namespace)
    finally:
        cluster.kubectl("taint", "node", node, "team-")


def test_a_missing_image_is_reported(cluster: Cluster) -> None:
    """While the run waits, its condition has the image's name and the kubelet's message."""
    images = {"serving": {"tag": "missing"}}
    with _operator(cluster, "images", images=images) as namespace:
        make_run(cluster, namespace, "no-image", **_server(readyDeadlineSeconds=25))
        message = "inferometer-serving:missing"
        _reported(cluster, namespace, "no-image", "ServerReady", "ImageNotPulled", message)
        _finished(cluster, namespace, "no-image")
        assert condition(cluster, namespace, "no-image", "Failed")["reason"] == "ImageNotPulled"


def test_a_quota_and_a_limit_range_are_reported(cluster: Cluster) -> None:
    """The condition quotes the API server's message about the quota or limit."""
    with _operator(cluster, "bounds") as namespace:
        here = ("--namespace", namespace)
        hard = "--hard=requests.cpu=200m"
        cluster.kubectl("create", "quota", "few", hard, *here)
        make_run(cluster, namespace, "over", **_server(readyDeadlineSeconds=15, resources={
            "cpu": "300m", "memory": "512Mi",
        }))  # fmt: skip
        _reported(cluster, namespace, "over", "ServerReady", "QuotaExceeded", "few")
        _finished(cluster, namespace, "over")
        cluster.kubectl("delete", "quota", "few", *here)
        limits = {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "narrow"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "300Mi"}}]},
        }
        cluster.kubectl("create", *here, "-f", "-", stdin=json.dumps(limits))
        make_run(cluster, namespace, "beyond", **_server(readyDeadlineSeconds=15))
        _reported(cluster, namespace, "beyond", "ServerReady", "LimitRangeRefused", "300Mi")
        _finished(cluster, namespace, "beyond")


def _delete_load(cluster: Cluster, namespace: str, run: str) -> None:
    name = _pod(cluster, namespace, run, LOADGEN)["metadata"]["name"]
    cluster.kubectl("delete", "pod", name, "--namespace", namespace, "--wait=false")


def _evict_server(cluster: Cluster, namespace: str, run: str) -> None:
    name = _pod(cluster, namespace, run, SERVER)["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    address = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", address, "-f", "-", stdin=json.dumps(eviction))


def _kill_server(cluster: Cluster, namespace: str, run: str) -> None:
    """Kill the server's process, as if it had crashed."""
    os.kill(_process(_pod(cluster, namespace, run, SERVER), b"inferometer_serving"), signal.SIGKILL)


def _process(pod: dict[str, Any], module: bytes) -> int:
    """Return the process in a pod that runs a module."""

    def is_it(process: Path) -> bool:
        try:
            within = pod["metadata"]["uid"] in (process / "cgroup").read_text()
            return within and module in (process / "cmdline").read_bytes()
        except OSError:
            return False  # ended meanwhile

    (found,) = (each for each in Path("/proc").glob("[0-9]*") if is_it(each))
    return int(found.name)


STRIKES: tuple[tuple[str, Callable[[Cluster, str, str], None], set[str]], ...] = (
    ("load-deleted", _delete_load, {"LoadPodLost"}),
    ("server-evicted", _evict_server, {"Evicted", "ServerReplaced"}),
    ("server-killed", _kill_server, {"ServerEnded"}),
)


@pytest.fixture(scope="module")
def measuring(cluster: Cluster) -> Iterator[str]:
    """Install the operator of the runs whose measurement a fault strikes."""
    with _operator(cluster, "struck") as name:
        yield name


def _make_long_run(cluster: Cluster, namespace: str, run: str) -> None:
    make_run(
        cluster,
        namespace,
        run,
        **_server(),
        scenarios=[
            {"name": "first", "singleStream": {}},
            {"name": "long", "server": {"targetQps": "0.1"}},
        ],
        validity={
            "warmUpSeconds": 0,
            "minDurationSeconds": 2,
            "minQueries": 20,
            "maxDurationSeconds": 300,
        },
    )


@pytest.mark.parametrize(("run", "strike", "reasons"), STRIKES, ids=[each[0] for each in STRIKES])
def test_a_run_that_is_struck_fails_and_keeps_its_figures(
    cluster: Cluster,
    measuring: str,
    run: str,
    strike: Callable[[Cluster, str, str], None],
    reasons: set[str],
) -> None:
    """The run fails with its reason, and its status keeps the scenarios measured before."""
    _make_long_run(cluster, measuring, run)
    wait_for(cluster, measuring, run, "Measuring")
    wait_until(
        lambda: len(status(cluster, measuring, run).get("scenarios", [])) > 0,
        f"a first scenario of {run}",
        deadline_seconds=300.0,
        poll_seconds=0.5,
    )
    strike(cluster, measuring, run)
    wait_until(
        lambda: holds(cluster, measuring, run, "Failed"),
        f"the failure of {run}",
        deadline_seconds=SOON_SECONDS,
        poll_seconds=0.2,
    )
    failed = condition(cluster, measuring, run, "Failed")
    assert failed["reason"] in reasons, failed
    _finished(cluster, measuring, run)
    scenario_list = status(cluster, measuring, run)["scenarios"]
    assert scenario_list[0]["name"] == "first"
    assert scenario_list[0]["queries"] >= 20


def test_a_load_pod_that_is_throttled_makes_its_run_invalid(cluster: Cluster) -> None:
    """If a CPU limit throttles the load pod, the verdict reports for how long."""
    with _operator(cluster, "throttled") as namespace:
        make_run(
            cluster,
            namespace,
            "throttled",
            **_model("zoo://classification/shufflenet_v2_x0_5"),
            **_server(),
            validity={"warmUpSeconds": 0, "minDurationSeconds": 15, "minQueries": 10},
        )
        wait_for(cluster, namespace, "throttled", "Measuring")
        load = _process(_pod(cluster, namespace, "throttled", LOADGEN), b"inferometer_loadgen")
        group = group_of(load)
        group.limit(0.01)
        wait_until(
            lambda: group.times_throttled() >= 10,
            "a load pod that stands still",
            deadline_seconds=SOON_SECONDS,
        )
        group.limit(2)
        _finished(cluster, namespace, "throttled")
        (scenario,) = status(cluster, namespace, "throttled")["scenarios"]
    assert scenario["verdict"] == "INVALID"
    words = "A CPU limit stopped the load generator for "
    assert any(reason.startswith(words) for reason in scenario["reasons"]), scenario["reasons"]


LOST = {SERVER: {"ServerLost", "NodeLost"}, LOADGEN: {"NodeLost", "LoadPodLost"}}
"""Possible reasons of a run by the component whose node died."""


@pytest.mark.parametrize("dies", [SERVER, LOADGEN])
def test_a_lost_node_ends_the_run(two_nodes: Cluster, dies: str) -> None:
    """If the node of the server or of the load dies, the run is Failed and Finished in time.

    A load generator misses its server within seconds. If the load generator is lost, the cluster
    takes 12 s to notice, and the operator waits 60 s more for the node to come back.
    """
    first, second = ({"nodeSelector": {"kubernetes.io/hostname": name}} for name in two_nodes.nodes)
    server, load = (second, first) if dies == SERVER else (first, second)
    values = {"operator": first | {"replicas": 1}, "load": TINY_LOAD | load}
    with _operator(two_nodes, dies, **values) as namespace:
        make_run(
            two_nodes,
            namespace,
            "lost",
            **_server(placement=server),
            scenarios=[{"name": "long", "server": {"targetQps": 2}}],
            validity={"minDurationSeconds": 250, "maxDurationSeconds": 300},
        )
        wait_for(two_nodes, namespace, "lost", "Measuring")
        two_nodes.kill_node(list(two_nodes.nodes)[1])
        for kind, seconds in (("Failed", 12 + 60), ("Finished", 30 + 60)):
            wait_until(
                partial(holds, two_nodes, namespace, "lost", kind),
                f"{kind} of a run whose {dies} is gone with its node",
                deadline_seconds=seconds + 2 * SOON_SECONDS,
                poll_seconds=0.5,
            )
        failed = condition(two_nodes, namespace, "lost", "Failed")
        assert failed["reason"] in LOST[dies], failed
        assert failed["message"]


def _pod(cluster: Cluster, namespace: str, run: str, component: str) -> dict[str, Any]:
    selector = f"{RUN_LABEL}={run},{COMPONENT_LABEL}={component}"
    (pod,) = cluster.get("pods", "--namespace", namespace, "--selector", selector)["items"]
    found: dict[str, Any] = pod
    return found


def _reported(
    cluster: Cluster, namespace: str, run: str, kind: str, reason: str, message: str
) -> None:
    """Wait until a condition of a run has this reason, and check its message."""

    def is_reported() -> bool:
        return bool(condition(cluster, namespace, run, kind).get("reason") == reason)

    deadline = STARTING_SECONDS + SOON_SECONDS
    wait_until(is_reported, f"{reason} of {run}", deadline_seconds=deadline, poll_seconds=0.2)
    assert message in condition(cluster, namespace, run, kind)["message"]


def _finished(cluster: Cluster, namespace: str, run: str) -> None:
    wait_until(
        lambda: holds(cluster, namespace, run, "Finished"),
        f"the end of {run}",
        deadline_seconds=180.0,
        poll_seconds=0.5,
    )
