"""The nodes that a NodeBenchmark matches."""

from collections.abc import Iterable, Mapping
from typing import Any

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.spec.server import Toleration

Node = Mapping[str, Any]
"""A node of the API server, as JSON."""
_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})


def matching_nodes(spec: NodeBenchmarkSpec, nodes: Iterable[Node]) -> list[str]:
    """Return the names of the nodes to measure, in order.

    They have the labels of the selector, are ready and schedulable, and have no taint that the spec
    does not tolerate.
    """
    return sorted(
        str(node["metadata"]["name"])
        for node in nodes
        if spec.node_selector.items() <= (node["metadata"].get("labels") or {}).items()
        and _is_open(node)
        and all(_is_tolerated(taint, spec.tolerations) for taint in _taints(node))
    )


def _is_open(node: Node) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return ready and not cordoned and not node["metadata"].get("deletionTimestamp")


def _taints(node: Node) -> Iterable[Mapping[str, Any]]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [each for each in taints if each.get("effect") in _KEEPS_OUT]


def _is_tolerated(taint: Mapping[str, Any], tolerations: Iterable[Toleration]) -> bool:
    return any(
        each.effect in (None, taint.get("effect"))
        and each.key in (None, taint.get("key"))
        and (each.operator == "Exists" or (each.value or "") == (taint.get("value") or ""))
        for each in tolerations
    )
