"""The chart's NetworkPolicies, enforced by kube-router: runs work, and other pods are kept out."""

import json
from collections.abc import Iterator

import pytest

from inferometer_api.plan.cluster_objects import LOADGEN_PORT
from inferometer_api.runtimes.descriptor import HTTP_PORT
from support.chart import Json
from support.cluster.binaries import binary
from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.node_runs import SLOW_SECONDS, make_run, status, wait_for
from support.operator_installed import operator_installed
from support.waiting import wait_until

ENGINE = "kube-router"
RULES = [
    {
        "apiGroups": [""],
        "resources": ["namespaces", "pods", "services", "nodes", "endpoints"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["networking.k8s.io"],
        "resources": ["networkpolicies"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "watch"],
    },
]
# Tries until the outcome is the expected one; the pod's exit code says whether it came.
PROBE = """
import sys, time, urllib.error, urllib.request
wanted, *urls = sys.argv[1:]
def reached(url):
    try:
        urllib.request.urlopen(url, timeout=3)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
for _ in range(60):
    found = {url: reached(url) for url in urls}
    print(found, flush=True)
    if set(found.values()) == {wanted == "reached"}:
        sys.exit(0)
    time.sleep(1)
sys.exit(1)
"""


@pytest.fixture
def guarded(nodes_can_run: None) -> Iterator[Cluster]:
    """Run a cluster of one node on which kube-router enforces NetworkPolicies."""
    cluster = Cluster("tests-policies", images=images())
    try:
        start_engine(cluster)
        yield cluster
    finally:
        cluster.stop()


def start_engine(cluster: Cluster) -> None:
    """Start kube-router on every node, with an account of its own."""
    subject = {"kind": "ServiceAccount", "name": ENGINE, "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ENGINE}
    rbac = "rbac.authorization.k8s.io/v1"
    named = {"metadata": {"name": ENGINE}}
    objects: list[Json] = [
        {"apiVersion": rbac, "kind": "ClusterRole", **named, "rules": RULES},
        {
            "apiVersion": rbac, "kind": "ClusterRoleBinding", **named,
            "roleRef": role, "subjects": [subject],
        },
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ENGINE, "namespace": "kube-system"},
        },
    ]  # fmt: skip
    for each in objects:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))
    token = cluster.kubectl("create", "token", ENGINE, "-n", "kube-system").strip()
    for node in cluster.nodes.values():
        cluster.write_kubeconfig(node.folder / "kube-router.kubeconfig", token)
        node.start_firewall(binary(ENGINE), "kube-router.kubeconfig")


def probe_ends(cluster: Cluster, namespace: str, name: str, *words: str) -> str:
    """Run a pod that tries addresses until the outcome is the wanted one; return its phase."""
    container = {
        "name": "probe",
        "image": "inferometer-loadgen:0.1.0",
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", PROBE, *words],
        "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
        },
    }
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(pod))

    def phase() -> str:
        return cluster.kubectl(
            "get", "pod", name, "-n", namespace, "-o", "jsonpath={.status.phase}"
        )

    wait_until(
        lambda: phase() in {"Succeeded", "Failed"}, f"The end of {name}", (), SLOW_SECONDS, 0.5
    )
    return f"{phase()}\n{cluster.kubectl('logs', name, '-n', namespace)}"


def address_of(cluster: Cluster, namespace: str, run: str, component: str) -> str:
    """Return the address of the one pod of a component of a run."""
    selector = f"app.kubernetes.io/component={component},inferometer.dev/run={run}"
    (pod,) = cluster.get("pods", "-n", namespace, "-l", selector)["items"]
    return str(pod["status"]["podIP"])


def measure(cluster: Cluster, namespace: str, run: str) -> tuple[str, str]:
    """Start a run, wait until the operator has read its progress, and return its addresses.

    The addresses are those of the load generator's /stop and of the server.
    """
    validity = {"warmUpSeconds": 0, "minDurationSeconds": 60, "minQueries": 10}
    make_run(cluster, namespace, run, validity=validity)

    def is_measuring() -> bool:
        found = status(cluster, namespace, run)
        return found.get("phase") == "Measuring" and bool(found.get("progressPercent"))

    wait_until(is_measuring, f"The progress of {run}", (), SLOW_SECONDS, 0.5)
    load, server = (address_of(cluster, namespace, run, each) for each in ("loadgen", "server"))
    return f"http://{load}:{LOADGEN_PORT}/stop", f"http://{server}:{HTTP_PORT}/v2/health/live"


def test_a_run_completes_and_other_pods_are_kept_out(guarded: Cluster) -> None:
    """The operator reaches the load pod, this the server; a foreign pod reaches neither.

    Without the policies it reaches both.
    """
    with operator_installed(guarded, "policies") as namespace:
        urls = measure(guarded, namespace, "guarded")
        foreign = probe_ends(guarded, namespace, "foreign", "refused", *urls)
        assert foreign.startswith("Succeeded"), foreign
        wait_for(guarded, namespace, "guarded", "Complete")
        guarded.kubectl("delete", "networkpolicies", "--all", "-n", namespace)
        urls = measure(guarded, namespace, "open")
        foreign = probe_ends(guarded, namespace, "unguarded", "reached", *urls)
        assert foreign.startswith("Succeeded"), foreign
