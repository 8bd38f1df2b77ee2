"""Example 23 on two real nodes: the chart, the images, the pods, and the documents."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.wire_rates import WIRE_FIGURES
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import SLOW_SECONDS
from support.operator_installed import operator_installed
from support.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "23-node-probe.yaml"
_SHORTER = {
    "only": ["timer", "pageFault", "gemm (onnxruntime", *WIRE_FIGURES],
    "maxSeconds": 120,
}


@pytest.fixture
def served(two_nodes: Cluster) -> Iterator[str]:
    """Install an operator that may read nodes, and yield the namespace that it serves."""
    with operator_installed(two_nodes, "node-benchmarks", {"readNodes": True}) as namespace:
        yield namespace


def test_nodes_are_measured_by_restricted_pods(two_nodes: Cluster, served: str) -> None:
    """Each document has its node's name, figures of kernel and engine, and of the way to the other.

    Our client reaches our server in its own pod and on the other node, over HTTP and gRPC.
    """
    cluster = two_nodes
    benchmark = yaml.safe_load(EXAMPLE.read_text())
    benchmark["spec"] |= _SHORTER
    name = benchmark["metadata"]["name"]
    cluster.kubectl("create", "--namespace", served, "-f", "-", stdin=json.dumps(benchmark))

    def status() -> Json:
        found: Json = cluster.get("nbm", name, "--namespace", served).get("status", {})
        return found

    wait_until(
        lambda: status().get("phase") in {"Complete", "Failed"},
        "the end of the NodeBenchmark",
        deadline_seconds=2 * SLOW_SECONDS,
        poll_seconds=0.5,
    )
    found = status()
    assert found["phase"] == "Complete", json.dumps(found)
    first, second = found["nodes"]
    assert (first["peer"], second["peer"]) == (second["node"], first["node"])
    for row in (first, second):
        assert row["state"] == "Measured"
        assert row["summary"]["fp32Flops"] > 0
        held = cluster.get("configmap", row["configMap"], "--namespace", served)
        document = NodeCharacteristics.model_validate(json.loads(held["data"]["node.json"]))
        assert document.machine.hostname == row["node"]
        assert document.unavailable == {}
        names = {each.name for each in document.figures}
        assert names >= {"timer/wakeUpLag", "pageFault", "gemm"}
        wire = {
            (each.name, each.setting["protocol"])
            for each in document.figures
            if "protocol" in each.setting
        }
        assert wire == {
            (each, protocol)
            for figures in WIRE_FIGURES.values()
            for each in figures
            for protocol in ("HTTP", "GRPC")
        }
    cluster.kubectl("delete", "nbm", name, "--namespace", served)
    wait_until(
        lambda: (
            not cluster.get(
                "jobs,configmaps",
                "--namespace",
                served,
                "--selector",
                "app.kubernetes.io/managed-by=inferometer-operator",
            )["items"]
        ),
        "the deletion of its children",
        deadline_seconds=SLOW_SECONDS,
    )
