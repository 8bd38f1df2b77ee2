"""The NetworkPolicies allow what a run needs, and nothing else.

Judged by the API's own rules for policies, on the labels that pods really have. A real policy
engine enforces them in tests/cluster/test_chart_network_policies.py.
"""

from dataclasses import dataclass

import pytest

from inferometer_api.plan.cluster_objects import (
    LOADGEN,
    LOADGEN_PORT,
    NODE_BENCHMARK,
    SERVER,
    labels,
)
from inferometer_api.results.agent_sample import AGENT_PORT
from inferometer_api.runtimes.descriptor import GRPC_PORT, HTTP_PORT
from support.chart import NAMESPACE, Json, of_kind, rendered
from support.manifests import server_pod
from support.runs import a_run

SERVER_PORTS = {
    port["containerPort"]: port["name"]
    for container in server_pod(a_run())["containers"]
    for port in container["ports"]
}
"""Names of a server pod's ports, by which a policy can select them."""
CREATE: Json = {
    "networkPolicies": {"runNamespaces": ["runs"], "monitoringNamespaces": ["monitoring"]}
}


@dataclass(frozen=True, slots=True)
class Pod:
    """One end of a connection."""

    namespace: str
    labels: dict[str, str]


def matches(selector: Json, found: dict[str, str]) -> bool:
    """Return whether a selector of labels takes these; an empty one takes all."""
    assert set(selector) <= {"matchLabels"}
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= found.items()


def is_peer(peer: Json, pod: Pod, namespace: str) -> bool:
    """Return whether a policy of this namespace means the pod by this peer."""
    assert set(peer) <= {"podSelector", "namespaceSelector"}
    where = {"kubernetes.io/metadata.name": pod.namespace}
    near = (
        matches(peer["namespaceSelector"], where)
        if "namespaceSelector" in peer
        else pod.namespace == namespace
    )
    return near and matches(peer.get("podSelector", {}), pod.labels)


def allowed(policies: list[Json], source: Pod, target: Pod, port: int) -> bool:
    """Return whether the policies let one pod reach another's TCP port."""
    return _one_way(policies, source, target, port, "Egress") and _one_way(
        policies, target, source, port, "Ingress"
    )


def _one_way(policies: list[Json], pod: Pod, other: Pod, port: int, way: str) -> bool:
    selecting = [
        each
        for each in policies
        if each["metadata"]["namespace"] == pod.namespace
        and way in each["spec"]["policyTypes"]
        and matches(each["spec"]["podSelector"], pod.labels)
    ]
    end = {"Egress": "to", "Ingress": "from"}[way]
    return not selecting or any(
        any(
            {"protocol": "TCP", "port": each} in rule["ports"]
            for each in (port, SERVER_PORTS.get(port))
        )
        and (end not in rule or any(is_peer(peer, other, pod.namespace) for peer in rule[end]))
        for each in selecting
        for rule in each["spec"][way.lower()]
    )


@pytest.fixture(params=["Namespaced", "elsewhere", "Cluster"])
def scene(request: pytest.FixtureRequest) -> tuple[list[Json], Pod, str]:
    """Return the policies, the operator's pod, and the namespace of runs."""
    values = {
        "Namespaced": CREATE,
        "elsewhere": CREATE | {"watchNamespace": "runs"},
        "Cluster": CREATE | {"mode": "Cluster"},
    }[request.param]
    objects = rendered(values)
    (deployment,) = of_kind(objects, "Deployment")
    operator = Pod(NAMESPACE, deployment["spec"]["template"]["metadata"]["labels"])
    runs = NAMESPACE if request.param == "Namespaced" else "runs"
    return of_kind(objects, "NetworkPolicy"), operator, runs


def a_pod(namespace: str, component: str) -> Pod:
    """Return a pod of a run as the operator makes it."""
    return Pod(namespace, labels("a-run", "3f2c0a7e-uid", component))


def test_what_a_run_needs_is_let_through(scene: tuple[list[Json], Pod, str]) -> None:
    """The operator reaches load pods, these the servers; all reach the API server and the web."""
    policies, operator, runs = scene
    load, server = a_pod(runs, LOADGEN), a_pod(runs, SERVER)
    assert allowed(policies, operator, load, LOADGEN_PORT)
    assert allowed(policies, load, server, HTTP_PORT)
    assert allowed(policies, load, server, GRPC_PORT)
    outside = Pod("kube-system", {"component": "kube-apiserver"})
    for pod, port in (
        (operator, 443),
        (operator, 6443),
        (operator, 53),
        (load, 443),
        (server, 443),
    ):
        assert allowed(policies, pod, outside, port), (pod, port)
    assert allowed(policies, Pod("monitoring", {}), operator, 8080)


def test_pods_of_a_node_benchmark_reach_each_other_alone(
    scene: tuple[list[Json], Pod, str],
) -> None:
    """They measure the way between nodes; no other pod is let in, and no other port."""
    policies, operator, runs = scene
    pod, other = a_pod(runs, NODE_BENCHMARK), a_pod(runs, NODE_BENCHMARK)
    for port in (HTTP_PORT, GRPC_PORT):
        assert allowed(policies, pod, other, port)
        for source in (a_pod(runs, LOADGEN), a_pod("far", NODE_BENCHMARK), operator):
            assert not allowed(policies, source, other, port), source
    assert not allowed(policies, pod, other, 22)


def test_nothing_else_is_let_through(scene: tuple[list[Json], Pod, str]) -> None:
    """No other pod reaches load pods or servers, not by another port, and not from elsewhere."""
    policies, operator, runs = scene
    load, server = a_pod(runs, LOADGEN), a_pod(runs, SERVER)
    stranger, far = Pod(runs, {"app": "stranger"}), a_pod("far", LOADGEN)
    impostor = Pod("far", operator.labels)
    for source in (stranger, far, impostor, server):
        assert not allowed(policies, source, load, LOADGEN_PORT), source
    for source in (stranger, far, operator, impostor):
        assert not allowed(policies, source, server, HTTP_PORT), source
    assert not allowed(policies, load, server, 22)
    assert not allowed(policies, operator, stranger, 8080)
    assert not allowed(policies, stranger, operator, 22)
    assert not allowed(policies, stranger, operator, 8080)


def test_an_operator_of_another_release_reaches_the_load_pods() -> None:
    """It may take over runs. It is known by its component, in namespaces that an admin names."""
    policies = of_kind(
        rendered({"networkPolicies": {"operatorNamespaces": ["other", NAMESPACE]}}), "NetworkPolicy"
    )
    (deployment,) = of_kind(rendered(), "Deployment")
    other = deployment["spec"]["template"]["metadata"]["labels"]
    other = {**other, "app.kubernetes.io/instance": "other-release"}
    load = a_pod(NAMESPACE, LOADGEN)
    # What the other release lets its operator reach is a matter of its own policies.
    for namespace in (NAMESPACE, "other"):
        assert allowed(policies, Pod(namespace, other), load, LOADGEN_PORT), namespace
    assert not allowed(policies, Pod("far", other), load, LOADGEN_PORT)
    server = {**other, "app.kubernetes.io/component": "server"}
    assert not allowed(policies, Pod("other", server), load, LOADGEN_PORT)


def test_prometheus_reads_metrics_where_it_is_named() -> None:
    """Pods of the namespaces named reach load and server pods where metrics are, others do not."""
    policies = of_kind(
        rendered({"networkPolicies": {"monitoringNamespaces": ["monitoring", "more"]}}),
        "NetworkPolicy",
    )
    load, server = a_pod(NAMESPACE, LOADGEN), a_pod(NAMESPACE, SERVER)
    for namespace in ("monitoring", "more"):
        scraper = Pod(namespace, {"app": "prometheus"})
        assert allowed(policies, scraper, load, LOADGEN_PORT)
        assert allowed(policies, scraper, server, HTTP_PORT)
        assert not allowed(policies, scraper, server, GRPC_PORT)
    assert not allowed(policies, Pod("elsewhere", {}), load, LOADGEN_PORT)


def test_load_pods_reach_the_node_agents(scene: tuple[list[Json], Pod, str]) -> None:
    """No policy of this chart keeps a load pod from asking an agent."""
    policies, _, runs = scene
    agent = Pod("agents", {"app.kubernetes.io/name": "inferometer-agent"})
    assert allowed(policies, a_pod(runs, LOADGEN), agent, AGENT_PORT)


def test_the_operators_metrics_are_for_named_namespaces_alone() -> None:
    """They name runs of all namespaces, so that no pod reaches them unless an admin says so."""
    objects = rendered()
    (deployment,) = of_kind(objects, "Deployment")
    operator = Pod(NAMESPACE, deployment["spec"]["template"]["metadata"]["labels"])
    policies = of_kind(objects, "NetworkPolicy")
    assert not allowed(policies, Pod("monitoring", {}), operator, 8080)
    assert not allowed(policies, Pod(NAMESPACE, {}), operator, 8080)
