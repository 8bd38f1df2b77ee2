"""The operator exports what NodeBenchmarks have found, once for each node."""

from inferometer_api.metrics.definitions import (
    NODE_BANDWIDTH,
    NODE_DISK_RATE,
    NODE_LOAD_LATENCY,
    NODE_MEASURED,
    NODE_PRODUCT_RATE,
    NODE_WAKE_UP_LAG,
)
from inferometer_api.nodes.benchmark import MOST_NODES
from inferometer_operator.wiring.measured_nodes import MeasuredNodes
from support.exported_runs import a_measured_benchmark, operator_stats, values

_DAY_SECONDS = 86_400
_FIRST_DAY = 1_767_225_600.0
"""1 January 2026."""


def test_figures_of_a_node_are_exported_in_base_units() -> None:
    """Bytes, operations and seconds; the time is when the node was over."""
    stats = operator_stats()
    found = {
        metric: values(stats, metric.name)
        for metric in (
            *(NODE_MEASURED, NODE_BANDWIDTH, NODE_LOAD_LATENCY),
            *(NODE_PRODUCT_RATE, NODE_DISK_RATE, NODE_WAKE_UP_LAG),
        )
    }
    assert found == {
        NODE_MEASURED: {("node1",): _FIRST_DAY},
        NODE_BANDWIDTH: {("node1",): 2e10},
        NODE_LOAD_LATENCY: {("node1",): 95.25e-9},
        NODE_PRODUCT_RATE: {("node1",): 1.2e11},
        NODE_DISK_RATE: {("node1",): 1.5e9},
        NODE_WAKE_UP_LAG: {("node1",): 90e-6},
    }


def test_a_later_measurement_replaces_only_what_it_has() -> None:
    """In whatever order the NodeBenchmarks are seen; the rest stays."""
    nodes = MeasuredNodes()
    nodes.update(a_measured_benchmark("a", uid="new", day=3, memoryBytesPerSecond=5))
    nodes.update(a_measured_benchmark("a", "b", uid="old", day=1))
    found = nodes.values()
    assert found[NODE_BANDWIDTH] == {"a": 5.0, "b": 2e10}
    assert found[NODE_DISK_RATE] == {"a": 1.5e9, "b": 1.5e9}
    assert found[NODE_MEASURED] == {"a": _FIRST_DAY + 2 * _DAY_SECONDS, "b": _FIRST_DAY}


def test_what_has_expired_or_is_gone_is_not_exported() -> None:
    """Nor are nodes that wait or have failed."""
    nodes = MeasuredNodes()
    benchmark = a_measured_benchmark("a", "b", "c")
    benchmark["status"]["nodes"][1]["state"] = "Failed"
    nodes.update(benchmark)
    nodes.update({"metadata": {"uid": "empty"}})
    nodes.update(a_measured_benchmark("d", uid="expired", expired=True))
    assert list(nodes.values()[NODE_MEASURED]) == ["a", "c"]
    nodes.update(a_measured_benchmark("a", "b", "c", expired=True))
    assert nodes.values()[NODE_MEASURED] == {}
    nodes.update(a_measured_benchmark("a"))
    nodes.remove("nbm")
    assert nodes.values()[NODE_MEASURED] == {}


def test_only_the_nodes_that_were_measured_last_are_exported() -> None:
    """Nodes of a cluster that scales come and go."""
    nodes = MeasuredNodes()
    old = [f"old-{number}" for number in range(10)]
    new = [f"new-{number}" for number in range(MOST_NODES - 2)]
    nodes.update(a_measured_benchmark(*old, uid="old", day=1))
    nodes.update(a_measured_benchmark(*new, uid="new", day=2))
    for metric in (NODE_MEASURED, NODE_BANDWIDTH):
        found = nodes.values()[metric]
        assert len(found) == MOST_NODES
        assert set(new) <= found.keys()
