"""The wire of nodes on a real API server: what stands for a failure, and a killed operator."""

import json

from inferometer_api.plan.cluster_objects import NODE_BENCHMARK, WIRE_CLIENT
from support.fake_pod import Pod
from support.node_pods import (
    a_benchmark,
    containers,
    create_benchmark,
    finished_benchmark,
    jobs_of,
    measure_node_pod,
    node_of,
    wire_rates,
)
from support.stage import Stage


def _fail_the_wire(pod: Pod) -> None:
    """Measure the node; the client of its wire ends with an error."""
    if containers(pod)[0] != WIRE_CLIENT:
        measure_node_pod(pod)
        return
    pod.bind(node_of(pod))
    pod.start()
    pod.end_container(WIRE_CLIENT, 1, "It broke.")


def _leave_the_wire(pod: Pod) -> None:
    """Measure the node; the client of its wire starts and goes on."""
    if containers(pod)[0] != WIRE_CLIENT:
        measure_node_pod(pod)
        return
    pod.bind(node_of(pod))
    pod.start()


def test_a_wire_that_fails_is_unavailable_and_the_node_is_measured(pool: Stage) -> None:
    """What the node has measured itself is kept, with the reason."""
    pool.play(NODE_BENCHMARK, _fail_the_wire)
    pool.start_operator(readNodes=True)
    create_benchmark(pool)
    status = finished_benchmark(pool)
    assert status["phase"] == "Complete"
    for row in status["nodes"]:
        assert row["unavailable"] == ["loopback", "podToPod"]
        assert "peer" not in row
        held = pool.api.found("ConfigMap", pool.namespace, row["configMap"]) or {}
        document = json.loads(held["data"]["node.json"])
        assert "exit code 1 (Error): It broke" in document["unavailable"]["podToPod"]
    pool.wait_for(lambda: not jobs_of(pool), lambda: f"the deletion of {jobs_of(pool)}")


def test_a_node_without_another_has_no_peer(pool: Stage) -> None:
    """Its loopback is measured; the document says why pod-to-pod is not."""
    pool.play(NODE_BENCHMARK, measure_node_pod)
    pool.start_operator(readNodes=True)
    name = f"{pool.namespace}-a"
    pool.api.merge("Node", None, name, {"metadata": {"labels": {"alone": "true"}}})
    selector = {"nodeSelector": {"pool": pool.namespace, "alone": "true"}}
    pool.api.create("NodeBenchmark", pool.namespace, a_benchmark(**selector))
    (row,) = finished_benchmark(pool)["nodes"]
    assert (row["state"], row["unavailable"]) == ("Measured", ["podToPod"])
    held = pool.api.found("ConfigMap", pool.namespace, row["configMap"]) or {}
    document = json.loads(held["data"]["node.json"])
    assert document["unavailable"]["podToPod"].startswith("only one node matches")
    assert "loopback/roundTrip" in {each["name"] for each in document["figures"]}


def test_an_operator_that_is_killed_goes_on_with_the_wire(pool: Stage) -> None:
    """The next one reads the node's own figures again, and those of the client that has ended."""
    pool.play(NODE_BENCHMARK, _leave_the_wire)
    operator = pool.start_operator(readNodes=True)
    create_benchmark(pool)
    client = pool.pod(NODE_BENCHMARK, 3)

    def is_running() -> bool:
        held = pool.api.found("Pod", pool.namespace, client.name) or {}
        return bool(held["status"].get("phase") == "Running")

    pool.wait_for(is_running, lambda: f"the client: {pool.logs()}")
    operator.kill()
    client.log(wire_rates(client).model_dump_json(exclude_none=True))
    client.end_container(WIRE_CLIENT, 0)
    pool.play(NODE_BENCHMARK, measure_node_pod)
    pool.start_operator(readNodes=True)
    status = finished_benchmark(pool)
    assert [row["state"] for row in status["nodes"]] == ["Measured", "Measured"]
    assert all("peer" in row and not row.get("unavailable") for row in status["nodes"]), status
    assert len(pool.kubelet.all(pool.namespace, NODE_BENCHMARK)) == 6
