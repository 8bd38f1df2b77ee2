"""Example 23 on a real node: the chart, the image, the pod, and the document."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from inferometer_api.nodes.characteristics import NodeCharacteristics
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import SLOW_SECONDS
from support.operator_installed import operator_installed
from support.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "23-node-probe.yaml"
_SHORTER = {"only": ["timer", "pageFault", "gemm (onnxruntime"], "maxSeconds": 120}


@pytest.fixture
def served(cluster: Cluster) -> Iterator[str]:
    """Install an operator that may read nodes, and yield the namespace that it serves."""
    with operator_installed(cluster, "node-benchmarks", {"readNodes": True}) as namespace:
        yield namespace


def test_the_node_is_measured_by_a_restricted_pod(cluster: Cluster, served: str) -> None:
    """The document has the node's name, and figures of the kernel and of an engine."""
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
        deadline_seconds=SLOW_SECONDS,
        poll_seconds=0.5,
    )
    found = status()
    assert found["phase"] == "Complete", json.dumps(found)
    (row,) = found["nodes"]
    assert row["state"] == "Measured"
    assert row["summary"]["fp32Flops"] > 0
    held = cluster.get("configmap", row["configMap"], "--namespace", served)
    document = NodeCharacteristics.model_validate(json.loads(held["data"]["node.json"]))
    assert document.machine.hostname == row["node"]
    assert {each.name for each in document.figures} >= {"timer/wakeUpLag", "pageFault", "gemm"}
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
