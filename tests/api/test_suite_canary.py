"""The nodes of a suite that were measured before are measured again for some seconds."""

import json
import re
from collections.abc import Callable
from typing import Any

from inferometer_api.plan.cluster_objects import NODE_BENCHMARK
from support.api_client import Object
from support.fake_pod import Pod
from support.node_documents import a_figure, a_node_document
from support.node_pods import containers, measure_node_pod
from support.stage import Stage
from support.suite_stage import (
    apply_suite,
    created_runs,
    finished_suite,
    short_suite,
    suite_condition,
)


def _measures(**changes: Any) -> Callable[[Pod], None]:
    return lambda pod: measure_node_pod(pod, **changes)


def _measure_nodes(stage: Stage, name: str = "workers", **changes: Any) -> None:
    """Measure both nodes of the pool by a NodeBenchmark."""
    stage.play(NODE_BENCHMARK, _measures(**changes))
    spec: Object = {"nodeSelector": {"pool": stage.namespace}}
    if changes:
        spec["only"] = sorted({each.name for each in changes["figures"]})
    benchmark = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "NodeBenchmark",
        "metadata": {"name": name},
        "spec": spec,
    }
    stage.api.create("NodeBenchmark", stage.namespace, benchmark)

    def status() -> Object:
        found = stage.api.found("NodeBenchmark", stage.namespace, name) or {}
        return dict(found.get("status") or {})

    stage.wait_for(
        lambda: status().get("phase") == "Complete",
        lambda: f"the measured nodes: {json.dumps(status())}\n{stage.logs()}",
    )


def _suite(stage: Stage) -> Object:
    suite = short_suite()
    server = suite["spec"]["template"]["spec"].setdefault("server", {})
    server["placement"] = {"nodeSelector": {"pool": stage.namespace}}
    return suite


def test_a_node_that_has_changed_is_named_before_the_first_run(pool: Stage) -> None:
    """No run is created before; the message stays, and the Jobs go."""
    pool.start_operator(readNodes=True)
    _measure_nodes(pool)
    slower = a_figure("gemm", "flop/s", 5.5e10, engine="onnxruntime", precision="FP32")
    pool.play(NODE_BENCHMARK, _measures(figures=[slower]))
    plan = apply_suite(pool, _suite(pool))
    assert finished_suite(pool)["states"] == "VV"
    message = suite_condition(pool, "Accepted")["message"]
    assert message.startswith("2 cells, 2 runs. Before the suite ")
    for letter in "ab":
        words = "had changed since 2026-01-01: gemm onnxruntime FP32 -50.0 %."
        assert f"{pool.namespace}-{letter} {words}" in message
    assert created_runs(pool) == [run.name for run in plan.runs]
    pods = pool.kubelet.all(pool.namespace, NODE_BENCHMARK)
    assert len([each for each in pods if containers(each) == [NODE_BENCHMARK]]) == 4
    kinds = [
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in pool.api.all("Job", pool.namespace)
    ]
    assert NODE_BENCHMARK not in kinds


def test_a_measurement_of_some_figures_hides_no_change(pool: Stage) -> None:
    """Each figure is compared with the newest measurement that has it."""
    pool.start_operator(readNodes=True)
    _measure_nodes(pool)
    _measure_nodes(pool, "workers-again", day=2, figures=[a_figure("pageFault", "ns", 200)])
    slower = [
        a_figure("pageFault", "ns", 300),
        a_figure("gemm", "flop/s", 5.5e10, engine="onnxruntime", precision="FP32"),
    ]
    pool.play(NODE_BENCHMARK, _measures(figures=slower))
    apply_suite(pool, _suite(pool))
    assert finished_suite(pool)["states"] == "VV"
    words = (
        f"{pool.namespace}-a had changed since 2026-01-02: pageFault +50.0 %; "
        "since 2026-01-01: gemm onnxruntime FP32 -50.0 %."
    )
    assert words in suite_condition(pool, "Accepted")["message"]


def test_runs_wait_for_the_canary_and_not_for_one_that_fails(pool: Stage) -> None:
    """Equal figures are no change; a pod that ends without a document delays no run further.

    What was found of each node, and why nothing was, stands in the message.
    """
    pool.start_operator(readNodes=True)
    _measure_nodes(pool)
    pool.play(NODE_BENCHMARK, lambda pod: pod.bind())
    plan = apply_suite(pool, _suite(pool))
    pool.wait_for(
        lambda: "0 of 2 are done" in suite_condition(pool, "Complete").get("message", ""),
        lambda: json.dumps(suite_condition(pool, "Complete")),
    )
    assert created_runs(pool) == []
    *_, first, second = pool.kubelet.all(pool.namespace, NODE_BENCHMARK)
    first.start()
    first.log(a_node_document("a-node").model_dump_json(exclude_none=True))
    first.end(0)
    second.start()
    second.log("Killed")
    second.end(1)
    assert finished_suite(pool)["states"] == "VV"
    message = suite_condition(pool, "Accepted")["message"]
    unchanged = r"had not changed since 2026-01-01 \(compared figures: 10;"
    assert len(re.findall(rf"Before the suite {pool.namespace}-[ab] {unchanged}", message)) == 1
    failed = "has changed is not known: The log of the pod holds no whole document"
    assert len(re.findall(rf"Whether {pool.namespace}-[ab] {failed}", message)) == 1
    assert created_runs(pool) == [run.name for run in plan.runs]


def test_nodes_that_were_never_measured_have_no_canary(pool: Stage) -> None:
    """The first run is created at once, and the message names them."""
    pool.start_operator(readNodes=True)
    apply_suite(pool, _suite(pool))
    assert finished_suite(pool)["states"] == "VV"
    message = suite_condition(pool, "Accepted")["message"]
    nodes = f"{pool.namespace}-a, {pool.namespace}-b"
    assert f"Whether {nodes} changed is not known: at most 16 nodes" in message
    assert pool.kubelet.all(pool.namespace, NODE_BENCHMARK) == []
