"""The systems of a suite: which nodes match, and how a run is placed on each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inferometer_api.nodes.selection import Node, pod_obstacle
from inferometer_api.plan.cluster_objects import (
    ARCHITECTURE_LABEL,
    HOSTNAME_LABEL,
    INSTANCE_TYPE_LABEL,
)
from inferometer_api.spec.resolve import whole_bytes, whole_cpus
from inferometer_api.spec.server import Toleration
from inferometer_api.suite.matrix import Requirements, Systems
from inferometer_api.suite.plan_suite import System

_PINNED = "="
"""Between a label's value and the node that stands for it: neither contains it."""

_MOST_NAMED = 5


def find_systems(
    wanted: Systems, nodes: Iterable[Node], tolerations: Sequence[Toleration] = ()
) -> list[System]:
    """Return the systems that satisfy a suite's constraint, in the order of their names.

    A node on which no pod with these tolerations would start is left out: `left_out_nodes` has the
    reasons. The scheduler cannot compare sizes: under requirements on them the first matching node
    stands for its label's value.
    """
    matching = [node for node in _matching(wanted, nodes) if not pod_obstacle(node, tolerations)]
    if wanted.label_key is None:
        return [_node_system(node) for node in matching]
    first = {_labels(node).get(wanted.label_key, ""): node for node in reversed(matching)}
    return [_label_system(wanted, value, first[value]) for value in sorted(first) if value]


def left_out_nodes(
    wanted: Systems, nodes: Iterable[Node], tolerations: Sequence[Toleration] = ()
) -> str:
    """Return which nodes satisfy the constraint and are left out, and why, as a sentence."""
    found = [
        f"{node['metadata']['name']} ({obstacle})"
        for node in _matching(wanted, nodes)
        if (obstacle := pod_obstacle(node, tolerations))
    ]
    if not found:
        return ""
    more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    are, them = ("node is", "it") if len(found) == 1 else ("nodes are", "them")
    return (
        f"{len(found)} matching {are} left out, since no run would start on {them}: "
        f"{', '.join(found[:_MOST_NAMED])}{more}."
    )


def systems_named(wanted: Systems, names: Sequence[str], nodes: Iterable[Node]) -> list[System]:
    """Return the systems that a suite started with, whatever nodes there are by now.

    `names` are their `recorded_name`.
    """
    by_name = {str(node["metadata"]["name"]): node for node in nodes}
    if wanted.label_key is not None:
        halves = [name.partition(_PINNED) for name in names]
        return [
            _label_system(wanted, value, by_name.get(node) or _gone(node))
            for value, _, node in halves
        ]
    return [_node_system(by_name.get(name) or _gone(name)) for name in names]


def recorded_name(system: System) -> str:
    """Return what the status keeps of a system: its name, and the node that it is pinned to."""
    return f"{system.name}{_PINNED}{system.pinned_node}" if system.pinned_node else system.name


def _label_system(wanted: Systems, value: str, node: Node) -> System:
    """Return the system of a label's value; the node is the one that may stand for it."""
    needs = wanted.requirements
    selector = {
        **wanted.selector,
        **({ARCHITECTURE_LABEL: needs.architecture} if needs.architecture else {}),
        str(wanted.label_key): value,
    }
    if needs.accelerator is None and needs.min_memory is None and needs.min_cpus is None:
        return System(value, value, selector)
    name = str(node["metadata"]["name"])
    hostname = _labels(node).get(HOSTNAME_LABEL, name)
    return System(
        value, value, {**selector, HOSTNAME_LABEL: hostname}, takes_turns=True, pinned_node=name
    )


def _gone(name: str) -> Node:
    """Return a node of which only the name is known."""
    return {"metadata": {"name": name, "labels": {}}}


def _node_system(node: Node) -> System:
    name, labels = str(node["metadata"]["name"]), _labels(node)
    selector = {HOSTNAME_LABEL: labels.get(HOSTNAME_LABEL, name)}
    return System(name, labels.get(INSTANCE_TYPE_LABEL) or name, selector, takes_turns=True)


def _labels(node: Node) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _matching(wanted: Systems, nodes: Iterable[Node]) -> list[Node]:
    found = (node for node in nodes if _matches(wanted, node))
    return sorted(found, key=lambda node: str(node["metadata"]["name"]))


def _matches(wanted: Systems, node: Node) -> bool:
    if not wanted.selector.items() <= _labels(node).items():
        return False
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return _satisfies(wanted.requirements, _labels(node), allocatable)


def _satisfies(
    wanted: Requirements, labels: Mapping[str, str], allocatable: Mapping[str, Any]
) -> bool:
    if wanted.architecture is not None and labels.get(ARCHITECTURE_LABEL) != wanted.architecture:
        return False
    if wanted.accelerator is not None and _count(allocatable.get(wanted.accelerator)) < 1:
        return False
    if wanted.min_cpus is not None and node_cpus(allocatable.get("cpu")) < wanted.min_cpus:
        return False
    least = wanted.min_memory
    return least is None or node_bytes(allocatable.get("memory")) >= whole_bytes(least)


def _count(quantity: Any) -> int:
    text = str(quantity or "0")
    return int(text) if text.isdecimal() else 0


def node_cpus(quantity: Any) -> int:
    """Return the whole CPUs of a quantity in a node's status, 0 if it has none."""
    try:
        text = str(quantity or "0")
        # The API server writes 5000 as 5k.
        return whole_bytes(text) if text.endswith("k") else whole_cpus(text)
    except ValueError:
        return 0


def node_bytes(quantity: Any) -> int:
    """Return the bytes of a quantity in a node's status, 0 if it has none."""
    try:
        return whole_bytes(str(quantity or "0"))
    except (ValueError, KeyError):
        return 0
