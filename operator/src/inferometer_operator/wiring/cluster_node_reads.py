"""Reads of what the cluster knows of the nodes of a run's servers."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from inferometer_api.plan.cluster_objects import INSTANCE_TYPE_LABEL, RUN_UID_LABEL, SERVER
from inferometer_api.results.result import ClusterNode
from inferometer_api.suite.systems import node_bytes, node_cpus
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.context import controller_of, is_deleting
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.pods import address, component, node, uid
from inferometer_operator.settings import Settings

_GPU_MODEL = "nvidia.com/gpu.product"
_OF_THE_NODE = {"DaemonSet", "Node"}
"""What controls the pods that every node has: Node, those of its kubelet's files."""
_Found = TypeVar("_Found")
_log = structlog.get_logger()


@dataclass(slots=True)
class ClusterNodeMemory:
    """What was read of the nodes of one set of server pods."""

    pods: frozenset[str] = frozenset()
    """Their UIDs."""
    nodes: dict[str, ClusterNode | None] = field(default_factory=dict)


async def read_cluster_nodes(
    reader: Reader, settings: Settings, run: Json, pods: Iterable[Json], memory: ClusterNodeMemory
) -> Mapping[str, ClusterNode | None]:
    """Return what the cluster knows of the nodes of a run's server pods that have an address.

    Each is read once, and again for the pods of a further repeat. A run does not fail without it.
    """
    placed = [pod for pod in pods if component(pod) == SERVER and address(pod)]
    uids = frozenset(map(uid, placed))
    if not memory.pods <= uids:
        memory.nodes = {}
    memory.pods = uids
    missing = sorted({node(pod) for pod in placed} - memory.nodes.keys())
    found = await asyncio.gather(*(_read(reader, settings, run, name) for name in missing))
    memory.nodes.update(zip(missing, found, strict=True))
    return memory.nodes


async def _read(reader: Reader, settings: Settings, run: Json, name: str) -> ClusterNode | None:
    described = await _unless_refused(name, reader.get_node(name)) if settings.read_nodes else None
    running = await _unless_refused(name, reader.list_running_pods(settings.namespace, name))
    if described is None and running is None:
        return None
    others = sum(_is_of_others(pod, str(run["metadata"]["uid"])) for pod in running or ())
    is_known = running is not None and (settings.namespace is None or others > 0)
    return describe_node(described, other_pods=others if is_known else None)


async def _unless_refused(name: str, reading: Awaitable[_Found]) -> _Found | None:
    """Return what is read, None if that is refused; raises what may pass."""
    try:
        return await reading
    except ApiError as error:
        if error.passing:
            raise
        _log.warning("server_node_not_read", node=name, error=str(error))
        return None


def describe_node(described: Json | None, *, other_pods: int | None) -> ClusterNode:
    """Return what a Node object says; None: it could not be read."""
    if described is None:
        return ClusterNode(other_pods=other_pods)
    labels: Mapping[str, Any] = described["metadata"].get("labels") or {}
    status: Mapping[str, Any] = described.get("status") or {}
    capacity: Mapping[str, Any] = status.get("capacity") or {}
    return ClusterNode(
        instance_type=str(labels.get(INSTANCE_TYPE_LABEL, "")),
        gpu_model=_plain(str(labels.get(_GPU_MODEL, ""))),
        cpu_count=node_cpus(capacity.get("cpu")) or None,
        memory_bytes=node_bytes(capacity.get("memory")) or None,
        kernel=str((status.get("nodeInfo") or {}).get("kernelVersion", "")),
        other_pods=other_pods,
    )


def _is_of_others(pod: Json, run_uid: str) -> bool:
    is_own = (pod["metadata"].get("labels") or {}).get(RUN_UID_LABEL) == run_uid
    is_of_node = controller_of(pod).get("kind") in _OF_THE_NODE
    return not (is_own or is_of_node or is_deleting(pod))


def _plain(product: str) -> str:
    """Return the name of a GPU as servers report it: a label has no blanks."""
    return product.removesuffix("-SHARED").replace("-", " ")
