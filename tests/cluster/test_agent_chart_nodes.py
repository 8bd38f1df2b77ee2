"""The agent of a real node reports what a real pod uses, and can change nothing there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.results.agent_sample import AGENT_PORT, AgentSample, WorkloadReading
from support.agent_chart import AGENTS, v1_controllers
from support.chart import Json
from support.cluster.cluster import Cluster
from support.documented import commands, follow
from support.waiting import wait_until

HOW_TO = "docs/how-to/energy.md"
IMAGE = "inferometer-telemetry:0.1.0"
_MOUNTS = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
mounts = [line.split() for line in open("/proc/self/mountinfo")]
def opens(path):
    try:
        open(path, "a").close()
    except OSError as error:
        return error.strerror
    return "it opens"
found = {each[4]: each[5].split(",")[0] for each in mounts if each[4].startswith("/host")}
files = [os.path.join(place, each) for place in found for each in os.listdir(place)]
print(json.dumps({
    "user": os.geteuid(),
    "capabilities": int(status["CapEff"], 16),
    "mounts": found,
    "opened": {each: opens(each) for each in files if os.path.isfile(each)},
    "root": opens("/changed"),
}))
"""
_OWNED = """
import pathlib, sys
for each in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        groups, words = (each / "cgroup").read_text(), (each / "cmdline").read_text()
    except OSError:  # it has ended
        continue
    if any(f"pod{uid}" in groups for uid in (sys.argv[1], sys.argv[1].replace("-", "_"))):
        print("busy" if "while True" in words else words)
"""


@pytest.fixture(scope="module")
def agents(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Install the chart as the how-to describes, and yield the namespace in its commands."""
    values = tmp_path_factory.mktemp("agents") / "values.yaml"
    values.write_text(json.dumps({"cgroupV1Controllers": v1_controllers()}))
    words = "helm install inferometer-agent"
    install = commands(HOW_TO, "1. Install the agents")
    assert words in install
    follow(install.replace(words, f"{words} --values {values}"), cluster.kubeconfig)
    yield AGENTS
    follow(commands(HOW_TO, "Uninstall"), cluster.kubeconfig)
    cluster.kubectl("delete", "namespace", AGENTS, "--wait=false")


@pytest.fixture(scope="module")
def agent(cluster: Cluster, agents: str) -> Json:
    """Return the pod of the node's agent."""
    (pod,) = cluster.get("pods", "--namespace", agents)["items"]
    found: Json = pod
    return found


def sample(cluster: Cluster, agent: Json, query: str = "") -> AgentSample:
    """Request a sample from an agent as docs/how-to/energy.md describes."""
    name, namespace = agent["metadata"]["name"], agent["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}:{AGENT_PORT}/proxy/v1/sample{query}"
    return AgentSample.model_validate_json(cluster.kubectl("get", "--raw", path))


def busy_pod(cluster: Cluster, namespace: str) -> str:
    """Create a pod that needs more CPU time than its limit allows, and return its UID."""
    container = {
        "name": "busy",
        "image": IMAGE,
        "command": ["python3", "-c", "while True: pass"],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsNonRoot": True,
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "busy"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    return cluster.kubectl(
        "create", "--namespace", namespace, "-o", "jsonpath={.metadata.uid}", "-f", "-",
        stdin=json.dumps(pod),
    )  # fmt: skip


def test_it_reports_what_a_pod_uses(cluster: Cluster, agent: Json, namespace: str) -> None:
    """CPU and throttled time of a pod with a limit grow, and its memory is reported."""
    made = busy_pod(cluster, namespace)
    seen: list[tuple[AgentSample, WorkloadReading]] = []

    def used() -> bool:
        now = sample(cluster, agent, f"?pod={made}")
        seen.extend((now, target) for target in now.workloads if target.cpu_microseconds)
        return len(seen) > 1 and (
            seen[-1][1].cpu_microseconds > seen[0][1].cpu_microseconds
            and (seen[-1][1].throttled_microseconds or 0) > 0
        )

    wait_until(used, "CPU seconds of the pod that grow")
    now, target = seen[-1]
    assert target.pod_uid == made
    assert target.memory_bytes is not None
    assert 2**18 < target.memory_bytes < 2**26
    assert now.node == agent["spec"]["nodeName"]
    assert now.cpu is not None
    assert now.cpu.busy_microseconds > 0
    assert now.instance == seen[0][0].instance


def test_a_missing_source_is_reported_with_its_reason(cluster: Cluster, agent: Json) -> None:
    """A missing powercap tree or driver is named; a counter that exists is read as root."""
    now = sample(cluster, agent)
    missing = {(each.source, each.subject): each.reason for each in now.missing}
    if Path("/sys/class/powercap/intel-rapl:0").exists():
        assert {each.kind for each in now.energy} >= {"Package"}
    else:
        assert "/host/sys/class/powercap" in missing["rapl", ""]
        assert now.energy == []
    assert "libnvidia-ml.so.1" in missing["nvml", ""]
    printed = follow(commands(HOW_TO, "2. Check the agents"), cluster.kubeconfig)
    assert AgentSample.model_validate_json(printed).instance == now.instance


def test_it_can_change_nothing_of_its_node(cluster: Cluster, agent: Json) -> None:
    """It runs as root without capabilities; its root and each mount below /host are read-only."""
    words = ("exec", "--namespace", agent["metadata"]["namespace"], agent["metadata"]["name"])
    access = json.loads(cluster.kubectl(*words, "--", "python3", "-c", _MOUNTS))
    assert access["user"] == 0
    assert access["capabilities"] == 0
    assert set(access["mounts"].values()) == {"ro"}
    assert len(access["mounts"]) == 2 + max(1, len(v1_controllers()))
    assert access["opened"]
    assert set(access["opened"].values()) <= {"Read-only file system", "Permission denied"}
    assert access["root"] == "Read-only file system"


def test_an_operator_finds_it(cluster: Cluster, agents: str, agent: Json) -> None:
    """The operator's account may list the EndpointSlices, with node and address, and no more."""
    account = "--as=system:serviceaccount:bench:inferometer-operator"
    slices = cluster.get(
        "endpointslices", "--namespace", agents,
        "--selector=kubernetes.io/service-name=inferometer-agent", account,
    )["items"]  # fmt: skip
    (endpoint,) = (endpoint for each in slices for endpoint in each["endpoints"])
    assert endpoint["nodeName"] == agent["spec"]["nodeName"]
    assert endpoint["addresses"] == [agent["status"]["podIP"]]
    assert endpoint["conditions"]["ready"] is True
    (port,) = slices[0]["ports"]
    assert (port["name"], port["port"]) == ("http", AGENT_PORT)
    with pytest.raises(RuntimeError, match="cannot list resource"):
        cluster.get("pods", "--namespace", agents, account)


def test_a_node_with_gpus_gets_an_agent_of_its_own(
    cluster: Cluster, agents: str, namespace: str
) -> None:
    """The node's label replaces its agent with one that can match processes to pods."""
    busy = busy_pod(cluster, namespace)
    (node,) = (each["metadata"]["name"] for each in cluster.get("nodes")["items"])
    cluster.kubectl("label", "node", node, "nvidia.com/gpu.present=true")
    try:
        wait_until(
            lambda: any(map(is_ready, pods(cluster, agents, "gpu"))), "The agent of a GPU node"
        )
        wait_until(lambda: pods(cluster, agents, "other") == [], "The end of the other agent")
        (pod,) = pods(cluster, agents, "gpu")
        words = ("exec", "--namespace", agents, pod["metadata"]["name"], "--")
        wait_until(
            lambda: "busy" in cluster.kubectl(*words, "python3", "-c", _OWNED, busy),
            "A process whose control group, in the eyes of the agent, names its pod",
        )
        assert sample(cluster, pod).node == node
    finally:
        cluster.kubectl("label", "node", node, "nvidia.com/gpu.present-")


def pods(cluster: Cluster, namespace: str, kind: str) -> list[Json]:
    """Return the agents' pods for this kind of node."""
    selector = f"--selector=inferometer.dev/nodes={kind}"
    found: list[Json] = cluster.get("pods", "--namespace", namespace, selector)["items"]
    return found


def is_ready(pod: Json) -> bool:
    """Return whether a pod is ready."""
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
