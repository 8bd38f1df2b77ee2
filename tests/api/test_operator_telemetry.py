"""The operator finds agents in real EndpointSlices, and exports metrics of real runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferometer_api.plan import rights
from inferometer_api.plan.cluster_objects import LOADGEN
from support.api_client import Object
from support.cluster.audit import requests
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.cluster_objects import endpoint, endpoint_slice
from support.operator_process import OperatorProcess, grant_agents
from support.stage import Stage

AGENT = "inferometer-agent"


@pytest.fixture
def agents(api_server: ControlPlane) -> Iterator[str]:
    """Make the namespace of the node agents."""
    with fresh_namespace(api_server, "agents") as name:
        yield name


def write_slice(stage: Stage, namespace: str, service: str, *endpoints: Object) -> None:
    """Write a slice that no controller of the cluster's own looks after."""
    made = endpoint_slice(service, *endpoints)
    made["metadata"]["labels"] = {"kubernetes.io/service-name": service}
    stage.api.create("EndpointSlice", namespace, made)


def a_pod_on(stage: Stage, node: str) -> str:
    """Create a pod of an author that is bound to a node, and return its UID."""
    container = {
        "name": "one",
        "image": "r/theirs:1",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": [container]}
    pod = stage.api.create("Pod", stage.namespace, {"metadata": {"name": "one"}, "spec": spec})
    return str(pod["metadata"]["uid"])


def test_the_plan_names_the_agent_of_the_servers_node(stage: Stage, agents: str) -> None:
    """With the server pod's UID; the operator uses no right that neither chart grants."""
    stage.start_operator(agent={"namespace": agents})
    grant_agents(stage.api, agents, stage.namespace)
    write_slice(
        stage, agents, AGENT, endpoint("fake-node", "10.1.0.1"), endpoint("other", "10.1.0.2")
    )
    stage.apply()
    status = stage.finished()
    assert status["nodes"] == ["fake-node"]
    plan = stage.load().plan
    (uid,) = (each["podUid"] for each in plan["servers"])
    assert plan["agents"] == [
        {"url": "http://10.1.0.1:9465", "node": "fake-node", "podUids": [uid], "processIds": []}
    ]
    assert plan["energyUnavailableReason"] == ""
    agent_requests = {
        (each.group, each.resource, each.verb)
        for each in requests(stage.control_plane.audit_log, stage.user)
        if each.namespace == agents
    }
    assert agent_requests == {
        (right.group, right.resource, verb) for right in rights.AGENTS for verb in right.verbs
    }


def test_the_plan_describes_the_servers_node(pool: Stage) -> None:
    """With its instance type and the pods of others, without those of DaemonSets and the run's."""
    node = pool.kubelet.node
    labels = {"node.kubernetes.io/instance-type": "c5.xlarge"}
    pool.api.merge("Node", None, node, {"metadata": {"labels": labels}})
    capacity = (pool.api.found("Node", None, node) or {})["status"]["capacity"]
    a_pod_on(pool, node)
    running = {"status": {"phase": "Running"}}
    pool.api.merge("Pod", pool.namespace, "one", running, "status")
    pool.start_operator(readNodes=True)
    pool.apply()
    pool.finished()
    (server,) = pool.load().plan["servers"]
    found = server["clusterNode"]
    assert (found["instanceType"], found["otherPods"]) == ("c5.xlarge", 1)
    assert str(found["cpuCount"]) == capacity["cpu"]
    assert found["memoryBytes"] > 2**20


def test_an_operator_that_may_not_list_agents_measures_without(stage: Stage, agents: str) -> None:
    """The run ends well, and its plan says who can give the right."""
    stage.start_operator(agent={"namespace": agents})
    stage.apply()
    status = stage.finished()
    assert status["phase"] == "Complete"
    plan = stage.load().plan
    assert plan["agents"] == []
    assert "is forbidden" in plan["energyUnavailableReason"]
    assert "the value operators of the chart inferometer-agent" in plan["energyUnavailableReason"]


def test_an_external_servers_agents_are_found_by_its_pods(stage: Stage, agents: str) -> None:
    """Agents are chosen by the pods behind the Service; other endpoints are reported as unknown."""
    stage.start_operator(agent={"namespace": agents})
    grant_agents(stage.api, agents, stage.namespace)
    write_slice(stage, agents, AGENT, endpoint("node7", "10.1.0.7"))
    spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}
    service = {"metadata": {"name": "theirs"}, "spec": spec}
    stage.api.create("Service", stage.namespace, service)
    uid = a_pod_on(stage, "node7")
    pod = {"namespace": stage.namespace, "name": "one", "uid": uid}
    foreign = {"namespace": stage.namespace, "name": "two", "uid": "uid-of-two"}
    write_slice(
        stage,
        stage.namespace,
        "theirs",
        endpoint("node7", "10.2.0.1", pod=pod),
        endpoint("node7", "10.2.0.2", pod=foreign),
    )
    server = {"runtime": "External", "external": {"service": {"name": "theirs", "port": 80}}}
    stage.apply(model={"name": "m"}, server=server)
    assert stage.finished()["nodes"] == ["node7"]
    plan = stage.load().plan
    (agent,) = plan["agents"]
    assert (agent["url"], agent["podUids"]) == ("http://10.1.0.7:9465", [uid])
    assert (
        "1 endpoint behind the Service theirs is not among the pods of the namespace"
        in plan["energyUnavailableReason"]
    )


def exposed(operator: OperatorProcess, name: str) -> list[dict[str, Any]]:
    """Return the labels of each series of a name, with its value."""
    code, text = operator.health("/metrics")
    assert code == 200
    return [
        {**sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


def test_the_leader_exports_runs_until_they_are_deleted(stage: Stage) -> None:
    """A restarted leader exports them too, and a standby does not."""
    lease = ("--lease-namespace", stage.namespace, "--lease-seconds", "60")
    leader = stage.start_operator(*lease)
    standby = stage.begin_operator(*lease)
    standby.wait_for_log("health_served")
    stage.play(LOADGEN, stage.loads.follow)
    stage.apply()
    load = stage.load()
    load.show("Measuring", load.scenarios[0])
    stage.wait("Measuring")
    gauge = "inferometer_run_phase_since_timestamp_seconds"
    # The operator exports the phase from its own watch, which follows the status.
    stage.wait_for(
        lambda: [each["phase"] for each in exposed(leader, gauge)] == ["Measuring"],
        "the phase of the run",
    )
    (since,) = exposed(leader, gauge)
    assert (since["run_namespace"], since["run"]) == (stage.namespace, "a-run")
    (deadline,) = exposed(leader, "inferometer_run_deadline_timestamp_seconds")
    assert deadline["value"] > since["value"]
    load.judge(load.scenarios[0])
    load.end()
    status = stage.finished()
    (found,) = status["scenarios"]

    def has_agent_metrics(operator: OperatorProcess) -> None:
        stage.wait_for(lambda: exposed(operator, "inferometer_run_info"), "the run's series")
        (info,) = exposed(operator, "inferometer_run_info")
        assert (info["run_uid"], info["node"]) == (stage.run()["metadata"]["uid"], "fake-node")
        (rate,) = exposed(operator, "inferometer_run_queries_per_second")
        assert rate["value"] == found["achievedMilliQps"] / 1000
        assert not exposed(operator, "inferometer_run_phase_since_timestamp_seconds")

    has_agent_metrics(leader)
    (looks,) = exposed(leader, "inferometer_operator_reconcile_duration_seconds_count")
    assert looks["value"] > 0
    assert exposed(standby, "inferometer_operator_leader") == [{"value": 0.0}]
    assert exposed(standby, "inferometer_runs") == []
    assert leader.ask_to_end() == 0
    has_agent_metrics(standby)
    stage.api.delete("BenchmarkRun", stage.namespace, "a-run")
    stage.wait_for(lambda: not exposed(standby, "inferometer_run_info"), "the end of the series")
    assert exposed(standby, "inferometer_runs")
    # A read at the moment of the deletion adds the run once more, and the next one removes it.
    stage.wait_for(
        lambda: not any(each["value"] for each in exposed(standby, "inferometer_runs")),
        "the end of the run in the count of runs",
    )
