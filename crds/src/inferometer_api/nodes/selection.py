"""The nodes that a NodeBenchmark matches, and why a pod would start on none of the others."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.spec.server import Toleration

Node = Mapping[str, Any]
"""A node of the API server, as JSON."""
GPU_RESOURCE = "nvidia.com/gpu"
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


def nodes_to_measure(
    spec: NodeBenchmarkSpec, nodes: Sequence[Node], gpu_tolerations: Sequence[Toleration] = ()
) -> dict[str, int]:
    """Return how many GPUs the pod on each matching node requests, by its name, in order.

    It is as many as in the spec, or all that the node offers. Pods with GPUs also tolerate
    `gpu_tolerations`.
    """
    gpus = {str(node["metadata"]["name"]): min(spec.gpus, _offered_gpus(node)) for node in nodes}
    with_gpus = [node for node in nodes if gpus[node["metadata"]["name"]]]
    tolerant = spec.model_copy(update={"tolerations": [*spec.tolerations, *gpu_tolerations]})
    names = {*matching_nodes(spec, nodes), *matching_nodes(tolerant, with_gpus)}
    return {name: gpus[name] for name in sorted(names)}


def _offered_gpus(node: Node) -> int:
    offered = str(((node.get("status") or {}).get("allocatable") or {}).get(GPU_RESOURCE, ""))
    return int(offered) if offered.isdecimal() else 0


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
