"""Checks whether the cluster's nodes can run the pods of a run, empty and as loaded as they are."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal

from inferometer_api.nodes.fitness import load_node_faults
from inferometer_api.plan.cluster_objects import RUN_UID_LABEL
from inferometer_api.plan.load_plan import LoadNodeFault
from inferometer_cli.preflight.check import Check, Json, Unread, blocked, ok, unknown, warning
from inferometer_cli.preflight.pods import LOAD, Pods
from inferometer_cli.preflight.resource_amounts import Amounts, amounts, written
from inferometer_operator.reconcile.nodes.draft import read_node_status

_ABOUT = "nodes"
_ENDED = {"Succeeded", "Failed"}


def node_checks(
    nodes: Sequence[Json] | Unread,
    running: Sequence[Json] | Unread,
    pods: Sequence[Pods],
    faults: Sequence[LoadNodeFault] | Unread = (),
) -> Iterator[Check]:
    """Yield whether nodes can run the pods, first as if they were empty, then as they are.

    `running` are all pods of the cluster; `faults` are what NodeBenchmarks found.
    """
    if isinstance(nodes, Unread):
        yield unknown(_ABOUT, f"whether a node has room for the run: {nodes.why}")
        return
    if not nodes:
        yield blocked(_ABOUT, "the cluster has no nodes")
        return
    never = [message for each in pods if (message := _unschedulable(nodes, each))]
    for message in never:
        yield blocked(_ABOUT, message)
    if never:
        return
    whole = {node["metadata"]["name"]: _allocatable(node) for node in nodes}
    placed = _placed(nodes, whole, pods)
    if placed is None:
        yield blocked(
            _ABOUT, f"the nodes are too small for all pods of the run at once: {_describe(pods)}"
        )
        return
    if isinstance(running, Unread):
        yield ok(_ABOUT, f"large enough for {_describe(pods)}")
        yield unknown(_ABOUT, f"whether they have that room now: {running.why}")
    elif (now := _placed(nodes, _free(whole, running), pods)) is None:
        yield warning(
            _ABOUT,
            f"no room now for {_describe(pods)}; the run waits in the queue meanwhile",
        )
    else:
        placed = now
        yield ok(_ABOUT, f"room for {_describe(pods)}")
    if len(pods) > 1 and len(set(placed)) == 1:
        yield warning(
            _ABOUT,
            f"server and load generator will share {placed[0]}; the result will carry a caution",
        )
    yield from _load_checks(_load_nodes(placed, pods), faults)


def known_faults(
    benchmarks: Sequence[Json] | Unread, now: datetime
) -> Sequence[LoadNodeFault] | Unread:
    """Return what the NodeBenchmarks of a namespace found against load from their nodes."""
    if isinstance(benchmarks, Unread):
        return () if benchmarks.absent else benchmarks
    statuses = {each["metadata"]["name"]: read_node_status(each) for each in benchmarks}
    return load_node_faults(statuses, now)


def _load_nodes(placed: Sequence[str], pods: Sequence[Pods]) -> frozenset[str]:
    """Return on which of the nodes that were chosen for the pods the load would be generated."""
    names = [each.name for each in pods for _ in range(each.count)]
    return frozenset(node for node, name in zip(placed, names, strict=True) if name == LOAD)


def _load_checks(
    load_nodes: frozenset[str], faults: Sequence[LoadNodeFault] | Unread
) -> Iterator[Check]:
    """Yield why latencies that are measured from the nodes may be wrong."""
    if isinstance(faults, Unread):
        yield unknown(_ABOUT, f"whether they are fit to generate load: {faults.why}")
        return
    for fault in faults:
        if fault.node in load_nodes:
            yield warning(
                _ABOUT,
                f"the load generator may run on {fault.node}. {fault.sentence} Latencies that are "
                "measured from there contain that; the result will carry a caution",
            )


def _unschedulable(nodes: Sequence[Json], pods: Pods) -> str | None:
    """Return why no node, even an empty one, can run a pod; None if one can."""
    faults = [_fault(node, pods) for node in nodes]
    if None in faults:
        return None
    reasons = "; ".join(f"{count} {fault}" for fault, count in Counter(faults).most_common(5))
    return (
        f"none of {len(nodes)} can run the {pods.name} ({_needs(pods)}): {reasons}. Change "
        "spec.server.resources or spec.server.placement, or add a node"
    )


def _fault(node: Json, pods: Pods) -> str | None:
    labels = node["metadata"].get("labels") or {}
    selector = pods.spec.get("nodeSelector") or {}
    missing = [f"{key}={value}" for key, value in selector.items() if labels.get(key) != value]
    if missing:
        return f"without the label {missing[0]}"
    taint = next((t for t in _taints(node) if not _tolerated(t, pods)), None)
    if taint is not None:
        return f"with the taint {taint['key']}:{taint['effect']}, which is not tolerated"
    room = _allocatable(node)
    for name, need in pods.requests.items():
        if name not in room:
            return f"without {name}"
        if need > room[name]:
            return f"with {written(name, room[name])} of {name} at most"
    return None


def _taints(node: Json) -> Iterator[Json]:
    spec = node.get("spec", {})
    hard = (t for t in spec.get("taints") or () if t.get("effect") != "PreferNoSchedule")
    yield from hard


def _tolerated(taint: Json, pods: Pods) -> bool:
    for each in pods.spec.get("tolerations") or ():
        if each.get("effect") not in {None, "", taint["effect"]}:
            continue
        exists = each.get("operator") == "Exists"
        if not each.get("key"):
            if exists:
                return True
            continue
        if each["key"] == taint["key"] and (
            exists or (each.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False


def _allocatable(node: Json) -> Amounts:
    return amounts((node.get("status") or {}).get("allocatable"))


def _free(whole: dict[str, Amounts], running: Sequence[Json]) -> dict[str, Amounts]:
    """Return what is left on each node; other runs' pods are gone before this run starts."""
    left = {name: dict(room) for name, room in whole.items()}
    for pod in running:
        node = left.get(pod.get("spec", {}).get("nodeName", ""))
        own = RUN_UID_LABEL in (pod.get("metadata", {}).get("labels") or {})
        if node is None or own or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        for name, value in Pods("", 1, pod["spec"]).requests.items():
            node[name] = node.get(name, Decimal(0)) - value
        node["pods"] = node.get("pods", Decimal(0)) - 1
    return left


def _placed(
    nodes: Sequence[Json], room: dict[str, Amounts], pods: Sequence[Pods]
) -> list[str] | None:
    """Return a node's name for each pod, the emptiest first; None if there is no room."""
    left = {name: dict(each) for name, each in room.items()}
    chosen: list[str] = []
    for each in pods:
        fitting = [node["metadata"]["name"] for node in nodes if _fault(node, each) is None]
        for _ in range(each.count):
            needs = each.requests | {"pods": Decimal(1)}
            able = [n for n in fitting if all(left[n].get(k, 0) >= v for k, v in needs.items())]
            if not able:
                return None
            # As the scheduler does: avoid nodes with another pod of the run.
            best = max(able, key=lambda name: (name not in chosen, left[name].get("cpu", 0)))
            chosen.append(best)
            for key, value in needs.items():
                left[best][key] -= value
    return chosen


def _needs(pods: Pods) -> str:
    parts = [
        written(name, value) if name in {"cpu", "memory"} else f"{written(name, value)} {name}"
        for name, value in pods.requests.items()
    ]
    return ", ".join(parts)


def _describe(pods: Sequence[Pods]) -> str:
    return " and ".join(
        f"{each.count} x {each.name} ({_needs(each)})"
        if each.count > 1
        else f"the {each.name} ({_needs(each)})"
        for each in pods
    )
