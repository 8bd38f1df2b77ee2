"""The nodes that a NodeBenchmark matches, and why a pod would start on none of the others."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.spec.server import Toleration

Node = Mapping[str, Any]
"""A node of the API server, as JSON."""
_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""A pod that tolerates this taint starts on a cordoned node, with or without the taint."""


def matching_nodes(spec: NodeBenchmarkSpec, nodes: Iterable[Node]) -> list[str]:
    """Return the names of the nodes to measure, in order.

    They have the labels of the selector, are ready and schedulable, and have no taint that the spec
    does not tolerate.
    """
    return sorted(
        str(node["metadata"]["name"])
        for node in nodes
        if spec.node_selector.items() <= (node["metadata"].get("labels") or {}).items()
        and not pod_obstacle(node, spec.tolerations)
    )


def pod_obstacle(node: Node, tolerations: Sequence[Toleration]) -> str:
    """Return why no pod with these tolerations would start on a node, empty if one would."""
    if node["metadata"].get("deletionTimestamp"):
        return "being deleted"
    conditions = (node.get("status") or {}).get("conditions") or ()
    if not any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return "not Ready"
    is_cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    if is_cordoned and not _is_tolerated(_CORDON, tolerations):
        return "cordoned"
    for taint in _taints(node):
        if not _is_tolerated(taint, tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"taint {taint.get('key')}{value}:{taint['effect']}"
    return ""


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
