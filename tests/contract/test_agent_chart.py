"""The agent chart runs one agent on every node, with no more rights than its sources need."""

import functools
import itertools
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped] # it ships no types
import pytest
import yaml

from inferometer_api.plan.cluster_objects import LOADGEN, labels
from inferometer_api.results.agent_sample import AGENT_PORT
from inferometer_telemetry.options import options
from support.agent_chart import AGENT_CHART, AGENTS, agent_pods, agents_notes
from support.agent_chart import agents as agents_anew
from support.chart import CHART, Json, helm, of_kind

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
OPERATOR = {"namespace": "bench", "serviceAccount": "inferometer-operator"}
MATRIX: dict[str, Json] = {
    "as it comes": {},
    "an operator": {"operators": [OPERATOR]},
    "without root": {"sources": {"rapl": False}},
    "nothing of the node": {"sources": {"rapl": False, "cgroup": False, "node": False}},
    "only the node": {"sources": {"rapl": False, "nvml": False, "cgroup": False}},
    "control groups v1": {"cgroupV1Controllers": ["cpu,cpuacct", "memory"]},
    "no nodes with GPUs": {"gpuNodes": {"create": False}},
    "rights by hand": {
        "operators": [OPERATOR],
        "rbac": {"create": False},
        "serviceAccount": {"create": False},
    },
    "every value": {
        "fullnameOverride": "watchers",
        "operators": [OPERATOR, {"namespace": "other", "serviceAccount": "measurer"}],
        "intervalSeconds": 2,
        "gpuNodes": {
            "label": {"key": "example.com/accelerator", "value": "nvidia"},
            "runtimeClass": "nvidia",
            "hostPID": False,
            "podAnnotations": {"cdi.k8s.io/agent": "nvidia.com/gpu=all"},
        },
        "images": {
            "registry": "registry.example.com:5000/team/",
            "tag": "2.0",
            "pullPolicy": "Always",
            "pullSecrets": ["first"],
            "agent": {"digest": DIGEST, "tag": "3.0"},
        },
        "agent": {
            "port": 10000,
            "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}},
            "priorityClass": "system-node-critical",
            "nodeSelector": {"node.kubernetes.io/pool": "measured"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "podAnnotations": {"example.com/team": "models"},
            "maxUnavailable": "10%",
        },
        "serviceAccount": {"name": "watcher", "annotations": {"example.com/owner": "us"}},
        "metrics": {
            "podMonitor": {"create": True, "labels": {"release": "prometheus"}, "interval": "5s"}
        },
        "networkPolicy": {"create": True, "monitoringNamespaces": ["monitoring"]},
    },
}
every_case = pytest.mark.parametrize("case", MATRIX)


@functools.cache
def agents(case: str) -> list[Json]:
    """Return what the chart makes in this case, rendered once for all tests."""
    return agents_anew(MATRIX[case])


def schedules(spec: Json, node_labels: dict[str, str]) -> bool:
    """Return whether a pod may come to a node with these labels, by the pod's own wishes."""
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    wished = spec.get("nodeSelector", {}).items() <= node_labels.items()
    return wished and all(
        (node_labels.get(each["key"]) in each["values"]) == (each["operator"] == "In")
        for each in term["matchExpressions"]
    )


def test_helm_finds_nothing_to_complain_about() -> None:
    """`helm lint --strict` passes."""
    done = helm("lint", "--strict", AGENT_CHART)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.30", "1.34"])
@every_case
def test_every_object_is_valid(case: str, version: str) -> None:
    """Kubernetes' own schemas take each object, with no unknown field and no name used twice."""
    made = [each for each in agents(case) if each["kind"] != "PodMonitor"]
    for each in made:
        kubernetes_validate.validate(each, version, strict=True)
    names = [(each["kind"], each["metadata"]["name"]) for each in made]
    assert len(names) == len(set(names))
    assert {each["metadata"]["namespace"] for each in made} == {AGENTS}


@every_case
def test_no_pod_has_a_right_that_it_does_not_need(case: str) -> None:
    """No capability, no token, nothing writable; root only for RAPL, host PIDs only for GPUs."""
    sources = MATRIX[case].get("sources", {})
    for name, spec in agent_pods(agents(case)):
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostIPC"} & set(spec)
        assert spec.get("hostPID", False) is (name == "inferometer-agent-gpu")
        pod = spec["securityContext"]
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        if sources.get("rapl", True):
            assert pod["runAsUser"] == 0
        else:
            assert (pod["runAsNonRoot"], pod["runAsUser"]) == (True, 10001)
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert container["resources"]["limits"]["memory"]
        for mount in container.get("volumeMounts", []):
            assert mount["readOnly"] is True
            assert mount["recursiveReadOnly"] == "IfPossible"
            assert mount["mountPath"].startswith("/host/")


@pytest.mark.parametrize(
    ("case", "folders"),
    [
        ("as it comes", {"/sys/devices", "/sys/class", "/sys/fs/cgroup"}),
        ("without root", {"/sys/devices", "/sys/class", "/sys/fs/cgroup"}),
        ("nothing of the node", set()),
        ("only the node", {"/sys/devices", "/sys/class"}),
        (
            "control groups v1",
            {
                "/sys/devices",
                "/sys/class",
                "/sys/fs/cgroup/cpu,cpuacct",
                "/sys/fs/cgroup/memory",
            },
        ),
    ],
)
def test_a_pod_sees_the_folders_of_its_sources(case: str, folders: set[str]) -> None:
    """Host paths are those that the sources read, never /sys or /proc as a whole."""
    for _, spec in agent_pods(agents(case)):
        assert {each["hostPath"]["path"] for each in spec.get("volumes", [])} == folders


@every_case
def test_the_agent_takes_what_it_is_started_with(case: str) -> None:
    """Each switch and place reaches the agent's own command line, and it listens at its port."""
    sources = MATRIX[case].get("sources", {})
    for _, spec in agent_pods(agents(case)):
        (container,) = spec["containers"]
        assert container["command"] == ["python3", "-m", "inferometer_telemetry"]
        agent_options = options(container["args"])
        assert agent_options.off == {name for name, on in sources.items() if not on}
        assert agent_options.host == "", "every address of the pod, IPv4 and IPv6"
        (port,) = container["ports"]
        assert agent_options.port == port["containerPort"]
        assert agent_options.interval_seconds == MATRIX[case].get("intervalSeconds", 1)
        places = {each["mountPath"] for each in container.get("volumeMounts", [])}
        sys_places = {
            str(agent_options.sys_root / "devices"),
            str(agent_options.sys_root / "class"),
        }
        needs = sources.get("rapl", True) or sources.get("node", True)
        assert (sys_places <= places) is needs
        cgroups = [
            place for place in places if Path(place).is_relative_to(agent_options.cgroup_root)
        ]
        assert bool(cgroups) is sources.get("cgroup", True)
        assert str(agent_options.proc_root) == "/proc"
        names = {each["name"]: each for each in container["env"]}
        assert names["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


@every_case
def test_every_node_has_one_agent(case: str) -> None:
    """A node of Linux gets one agent, whether it has GPUs or not; another system's gets none."""
    values = MATRIX[case]
    label = values.get("gpuNodes", {}).get("label", {"key": "nvidia.com/gpu.present"})
    plain = {"kubernetes.io/os": "linux", **values.get("agent", {}).get("nodeSelector", {})}
    with_gpus = plain | {label["key"]: label.get("value", "true")}
    specs = dict(agent_pods(agents(case)))
    for node in (plain, with_gpus, plain | {label["key"]: "false"}):
        assert len([name for name, spec in specs.items() if schedules(spec, node)]) == 1
        assert not any(
            schedules(spec, node | {"kubernetes.io/os": "windows"}) for spec in specs.values()
        )
    if values.get("gpuNodes", {}).get("create", True):
        (name,) = (name for name, spec in specs.items() if schedules(spec, with_gpus))
        assert name.endswith("-gpu")


def test_agents_of_nodes_with_gpus_get_the_driver() -> None:
    """They run by NVIDIA's runtime, ask it for all GPUs, and carry annotations for CDI."""
    made = of_kind(agents("every value"), "DaemonSet")
    plain, gpu = (each["spec"]["template"] for each in made)
    assert gpu["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in plain["spec"]
    assert gpu["metadata"]["annotations"]["cdi.k8s.io/agent"] == "nvidia.com/gpu=all"
    assert "cdi.k8s.io/agent" not in plain["metadata"]["annotations"]
    names = {each["name"]: each.get("value") for each in gpu["spec"]["containers"][0]["env"]}
    assert names["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert names["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert gpu["spec"]["containers"][0]["image"] == (
        f"registry.example.com:5000/team/inferometer-telemetry@{DIGEST}"
    )


@every_case
def test_the_service_selects_both_kinds_of_agents(case: str) -> None:
    """One headless Service has the agents of all nodes, and neither DaemonSet the other's pods."""
    (service,) = of_kind(agents(case), "Service")
    assert service["spec"]["clusterIP"] == "None"
    made = [each["spec"] for each in of_kind(agents(case), "DaemonSet")]
    for spec in made:
        pod_labels = spec["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= pod_labels.items()
        assert spec["selector"]["matchLabels"].items() <= pod_labels.items()
    for one, other in itertools.permutations(made, 2):
        found = other["template"]["metadata"]["labels"].items()
        assert not one["selector"]["matchLabels"].items() <= found


def test_operators_find_the_service_by_the_name_that_they_look_for() -> None:
    """Whatever the release is called, the Service has the name that the other chart has."""
    (service,) = of_kind(agents_anew(release="anything"), "Service")
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert service["metadata"]["name"] == values["agent"]["service"]
    assert service["spec"]["ports"][0]["port"] == AGENT_PORT


def test_operators_may_list_addresses_and_nothing_else() -> None:
    """The named accounts get `list` of EndpointSlices in the agents' namespace."""
    (role,) = of_kind(agents("every value"), "Role")
    assert role["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}
    ]
    (binding,) = of_kind(agents("every value"), "RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [(each["namespace"], each["name"]) for each in binding["subjects"]] == [
        ("bench", "inferometer-operator"),
        ("other", "measurer"),
    ]
    for case in ("as it comes", "rights by hand"):
        assert not {"Role", "RoleBinding", "ClusterRole"} & {each["kind"] for each in agents(case)}


def test_prometheus_finds_the_pods_one_way() -> None:
    """By annotations, unless there is a PodMonitor, which selects the same pods by their port."""
    for made in of_kind(agents("as it comes"), "DaemonSet"):
        assert made["spec"]["template"]["metadata"]["annotations"] == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9465",
            "prometheus.io/path": "/metrics",
        }
    (monitor,) = of_kind(agents("every value"), "PodMonitor")
    (service,) = of_kind(agents("every value"), "Service")
    assert monitor["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["interval"]) == ("http", "5s")
    for made in of_kind(agents("every value"), "DaemonSet"):
        assert "prometheus.io/scrape" not in made["spec"]["template"]["metadata"]["annotations"]


def test_the_network_policy_lets_load_pods_and_prometheus_in() -> None:
    """It names the labels that load pods really have, in any namespace, and Prometheus' own."""
    (policy,) = of_kind(agents("every value"), "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 10000}]
    load, monitoring = rule["from"]
    assert load["namespaceSelector"] == {}
    wanted = load["podSelector"]["matchLabels"]
    assert wanted.items() <= labels("a-run", "3f2c0a7e-uid", LOADGEN).items()
    assert monitoring == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    }
    assert policy["spec"]["egress"] == []


def test_other_pods_are_kept_out_by_default() -> None:
    """Without a value of the admin's, only load pods reach the agents."""
    (policy,) = of_kind(agents_anew({}), "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert len(rule["from"]) == 1


@every_case
def test_notes_name_what_was_made(case: str, tmp_path: Path) -> None:
    """NOTES wait for the DaemonSets that there are, and say what an operator still lacks."""
    notes = agents_notes(MATRIX[case], tmp_path)
    for name, _ in agent_pods(agents(case)):
        assert f"rollout status daemonset/{name} --namespace {AGENTS}" in notes
    assert "pod-security.kubernetes.io/enforce=privileged" in notes
    assert ("`operators` is empty" in notes) == ("operators" not in MATRIX[case])
    assert ("rbac.create is false" in notes) == (case == "rights by hand")
    assert ("agent.service=watchers" in notes) == (case == "every value")
