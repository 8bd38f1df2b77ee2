"""A NodeBenchmark on a real API server: a Job on each node, its documents, and how it ends."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferometer_api.metrics.definitions import NODE_BANDWIDTH
from inferometer_api.plan.cluster_objects import (
    NODE_BENCHMARK,
    QUEUE_NAME_LABEL,
    WIRE_CLIENT,
    WIRE_SERVER,
)
from support.api_client import AnswerError, Api, Object
from support.cluster.audit import requests
from support.fake_pod import Pod
from support.node_documents import a_figure, a_node_document
from support.node_pods import (
    NAME,
    a_benchmark,
    benchmark_condition,
    benchmark_status,
    containers,
    create_benchmark,
    finished_benchmark,
    jobs_of,
    measure_node_pod,
    node_of,
)
from support.operator_process import SETTINGS, OperatorProcess
from support.stage import Stage


def _start_only(pod: Pod) -> None:
    pod.bind(node_of(pod))
    pod.start()


def _fail_on_b(pod: Pod) -> None:
    if not node_of(pod).endswith("-b"):
        measure_node_pod(pod)
        return
    pod.bind(node_of(pod))
    pod.start()
    pod.end(137, "OOMKilled", "Killed")


def _bandwidths(operator: OperatorProcess) -> dict[str, float]:
    """Return what the operator exports, by node."""
    _, text = operator.health("/metrics")
    return {
        sample.labels["node"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == NODE_BANDWIDTH.name
    }


def test_each_matching_node_is_measured_once_and_its_document_kept(pool: Stage) -> None:
    """One node in turn: its own figures, a server on the other node, then the wire to both.

    Columns, summaries, documents and metrics; nothing is refused or left.
    """
    pool.play(NODE_BENCHMARK, measure_node_pod)
    operator = pool.start_operator(readNodes=True)
    create_benchmark(pool)
    status = finished_benchmark(pool)
    names = [f"{pool.namespace}-a", f"{pool.namespace}-b"]
    assert [(row["node"], row["state"]) for row in status["nodes"]] == [
        (name, "Measured") for name in names
    ], status
    assert status["phase"] == "Complete"
    assert status["nodes"][0]["summary"]["memoryBytesPerSecond"] == 20_000_000_000
    assert [row["peer"] for row in status["nodes"]] == names[::-1]
    for row in status["nodes"]:
        held = pool.api.found("ConfigMap", pool.namespace, row["configMap"]) or {}
        document = json.loads(held["data"]["node.json"])
        assert document["machine"]["hostname"] == row["node"]
        assert {"stream/triad", "loopback/roundTrip", "podToPod/roundTrip"} <= {
            each["name"] for each in document["figures"]
        }
        assert held["metadata"]["ownerReferences"][0]["kind"] == "NodeBenchmark"
    pods = pool.kubelet.all(pool.namespace, NODE_BENCHMARK)
    places = [(node_of(pod), containers(pod)) for pod in pods]
    assert places == [
        place
        for node, peer in (names, names[::-1])
        for place in (
            (node, [NODE_BENCHMARK]),
            (peer, [WIRE_SERVER]),
            (node, [WIRE_CLIENT, WIRE_SERVER]),
        )
    ]
    peers = [pod.address for pod in pods if containers(pod) == [WIRE_SERVER]]
    clients = [pod for pod in pods if WIRE_CLIENT in containers(pod)]
    for pod, address in zip(clients, peers, strict=True):
        words = pod.object["spec"]["containers"][0]["command"]
        assert ["podToPod", address] in [words[at : at + 2] for at in range(len(words))]
    pool.wait_for(lambda: not jobs_of(pool), lambda: f"the deletion of {jobs_of(pool)}")
    table = pool.control_plane.kubectl("-n", pool.namespace, "get", "nbm")
    assert {"Complete", "2/2", "20.0", "GB/s"} <= set(table.split())
    audited = list(requests(pool.control_plane.audit_log, pool.user))
    assert [each for each in audited if each.code >= 400 and each.writes] == []
    created = [each for each in audited if (each.verb, each.resource) == ("create", "jobs")]
    assert len(created) == 6
    assert _bandwidths(operator) == dict.fromkeys(names, 2e10)
    pool.api.delete("NodeBenchmark", pool.namespace, NAME)
    pool.wait_for(
        lambda: _bandwidths(operator) == {}, lambda: f"no metrics: {_bandwidths(operator)}"
    )


def test_the_plan_of_a_run_has_what_is_known_against_nodes(pool: Stage) -> None:
    """A load generator on such a node reports it; steal and standstills count as late timers do."""
    unfit = [
        a_figure("timer/wakeUpLag", "ns", 2_860_000, percentile=99),
        a_figure("steal", "share", 0.021),
        a_figure("jitter/share", "share", 0.12),
    ]
    pool.play(NODE_BENCHMARK, lambda pod: measure_node_pod(pod, figures=unfit))
    pool.start_operator(readNodes=True)
    create_benchmark(pool)
    day = str(finished_benchmark(pool)["completionTime"])[:10]
    pool.play("loadgen", pool.loads.follow)
    pool.apply()
    pool.load()
    (plan,) = (
        json.loads(each["data"]["plan.json"])
        for each in pool.api.all("ConfigMap", pool.namespace)
        if "plan.json" in (each.get("data") or {})
    )
    assert [each["sentence"] for each in plan["loadNodeFaults"]] == [
        f"When the NodeBenchmark {NAME} measured {pool.namespace}-{letter} on {day}, {what}."
        for letter in "ab"
        for what in (
            "a running process stood still for 12.0% of the time",
            "the hypervisor gave 2.1% of the CPU time to others",
            "a timer of 1 ms was late by 2.86 ms (p99)",
        )
    ]


def test_pods_on_nodes_with_gpus_request_them_and_use_the_gpu_image(pool: Stage) -> None:
    """Both nodes are measured; the one without GPUs by the image for CPUs."""
    offer = {"status": {"allocatable": {"nvidia.com/gpu": "2"}}}
    pool.api.merge("Node", None, f"{pool.namespace}-a", offer, "status")
    pool.play(NODE_BENCHMARK, measure_node_pod)
    pool.start_operator(readNodes=True)
    create_benchmark(pool, gpus=4, only=["stream"])
    status = finished_benchmark(pool)
    assert status["phase"] == "Complete", status
    assert [row.get("gpus") for row in status["nodes"]] == [2, None]
    with_gpus, without = sorted(pool.kubelet.all(pool.namespace, NODE_BENCHMARK), key=node_of)
    images = [each.object["spec"]["containers"][0]["image"] for each in (with_gpus, without)]
    assert images == [SETTINGS["images"]["servingGpu"], SETTINGS["images"]["serving"]]
    (probe,) = with_gpus.object["spec"]["containers"]
    assert probe["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert probe["resources"]["requests"]["nvidia.com/gpu"] == "2"


def test_a_run_and_a_node_take_turns_in_one_queue(pool: Stage) -> None:
    """While a run holds the only slot, no Job of a node exists."""
    pool.play(NODE_BENCHMARK, measure_node_pod)
    pool.play("loadgen", pool.loads.follow)
    pool.start_operator(readNodes=True)
    pool.apply()
    load = pool.load()
    create_benchmark(pool)
    pool.wait_for(
        lambda: benchmark_status(pool).get("phase") == "Queued",
        lambda: f"its place in the queue: {json.dumps(benchmark_status(pool))}\n{pool.logs()}",
    )
    assert pool.kubelet.all(pool.namespace, NODE_BENCHMARK) == []
    load.judge(load.scenarios[0])
    load.end()
    assert finished_benchmark(pool)["phase"] == "Complete"


def test_a_failed_pod_fails_its_node_alone(pool: Stage) -> None:
    """The status has the exit code; the other node is measured."""
    pool.play(NODE_BENCHMARK, _fail_on_b)
    pool.start_operator(readNodes=True)
    create_benchmark(pool)
    status = finished_benchmark(pool)
    assert [row["state"] for row in status["nodes"]] == ["Measured", "Failed"]
    assert "exit code 137 (OOMKilled)" in status["nodes"][1]["message"]
    assert benchmark_condition(pool, "Failed")["reason"] == "SomeFailed"
    assert benchmark_condition(pool, "Current")["status"] == "True"


def test_a_cancelled_benchmark_ends_its_pods(pool: Stage) -> None:
    """The Job goes, and cancel cannot be taken back."""
    pool.play(NODE_BENCHMARK, _start_only)
    pool.start_operator(readNodes=True)
    create_benchmark(pool)
    pool.pod(NODE_BENCHMARK)
    pool.api.merge("NodeBenchmark", pool.namespace, NAME, {"spec": {"cancel": True}})
    assert [row["state"] for row in finished_benchmark(pool)["nodes"]] == ["Cancelled", "Cancelled"]
    pool.wait_for(lambda: not jobs_of(pool), lambda: f"the deletion of {jobs_of(pool)}")
    with pytest.raises(AnswerError, match="cancel cannot be taken back"):
        pool.api.merge("NodeBenchmark", pool.namespace, NAME, {"spec": {"cancel": False}})


def test_an_operator_that_is_killed_goes_on_and_a_deleted_benchmark_leaves_nothing(
    pool: Stage,
) -> None:
    """The next operator reads the log of the pod that ended meanwhile; the TTL deletes all."""
    pool.play(NODE_BENCHMARK, _start_only)
    operator = pool.start_operator(readNodes=True, maxConcurrentRuns=2)
    create_benchmark(pool, ttlSecondsAfterFinished=3, only=["stream"])
    second = pool.pod(NODE_BENCHMARK, 2)
    operator.kill()
    for pod in pool.kubelet.all(pool.namespace, NODE_BENCHMARK):
        document = a_node_document(node_of(pod))
        pod.log(document.model_dump_json(exclude_none=True))
        pod.end(0)
    assert second.name
    pool.start_operator(readNodes=True, maxConcurrentRuns=2)
    pool.wait_for(
        lambda: pool.api.found("NodeBenchmark", pool.namespace, NAME) is None,
        lambda: f"its deletion: {json.dumps(benchmark_status(pool))}\n{pool.logs()}",
    )
    pool.wait_for(lambda: not pool.children(), lambda: f"the deletion of {pool.children()}")
    assert len(pool.kubelet.all(pool.namespace, NODE_BENCHMARK)) == 2


def test_without_the_right_to_nodes_a_benchmark_is_refused(stage: Stage) -> None:
    """With the value of the chart that allows it; so is one that no node matches."""
    stage.start_operator()
    stage.api.create("NodeBenchmark", stage.namespace, a_benchmark())
    finished_benchmark(stage)
    accepted = benchmark_condition(stage, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "NotAvailable")
    assert "Set readNodes=true" in accepted["message"]


def test_a_benchmark_for_a_queue_of_kueue_is_refused(stage: Stage) -> None:
    """Its pods would bypass the quota of the queue that its label names."""
    stage.start_operator(kueue={"enabled": True})
    benchmark = a_benchmark()
    benchmark["metadata"]["labels"] = {QUEUE_NAME_LABEL: "team"}
    stage.api.create("NodeBenchmark", stage.namespace, benchmark)
    finished_benchmark(stage)
    accepted = benchmark_condition(stage, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "NotAvailable")
    assert "Kueue cannot admit a NodeBenchmark" in accepted["message"]
    assert jobs_of(stage) == []


def test_a_benchmark_that_no_node_matches_is_refused(pool: Stage) -> None:
    """It says what a node must have."""
    pool.start_operator(readNodes=True)
    selector = {"nodeSelector": {"pool": "none"}}
    pool.api.create("NodeBenchmark", pool.namespace, a_benchmark(**selector))
    finished_benchmark(pool)
    assert benchmark_condition(pool, "Accepted")["reason"] == "NoNodes"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"maxSeconds": 181}, "spec.maxSeconds"),
        ({"only": ["a;b"]}, "spec.only"),
        ({"gpus": -1}, "spec.gpus"),
        ({"nodes": []}, "unknown field"),
        ({"tolerations": [{"operator": "Equal"}]}, "without a key"),
    ],
    ids=["seconds", "only", "gpus", "unknown", "toleration"],
)
def test_the_api_server_refuses_what_is_wrong(
    api: Api, namespace: str, spec: Object, words: str
) -> None:
    """With the field, and the rules of the models."""
    with pytest.raises(AnswerError) as caught:
        api.create("NodeBenchmark", namespace, a_benchmark(**spec))
    assert words in str(caught.value)


def test_the_nodes_of_a_benchmark_are_immutable(api: Api, namespace: str) -> None:
    """Its figures belong together; expiry and TTL can be changed."""
    api.create("NodeBenchmark", namespace, a_benchmark())
    api.merge("NodeBenchmark", namespace, NAME, {"spec": {"expirySeconds": 60}})
    for change in (
        *({"only": ["stream"]}, {"nodeSelector": {"a": "b"}}),
        *({"maxSeconds": 20}, {"gpus": 1}),
    ):
        with pytest.raises(AnswerError, match="immutable: create a new NodeBenchmark"):
            api.merge("NodeBenchmark", namespace, NAME, {"spec": change})
