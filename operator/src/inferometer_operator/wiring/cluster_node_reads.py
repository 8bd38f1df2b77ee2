"""Reads of what the cluster knows of the nodes of a run's servers."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from inferometer_api.plan.cluster_objects import INSTANCE_TYPE_LABEL, RUN_UID_LABEL, SERVER
from inferometer_api.results.result import ClusterNode
from inferometer_api.suite.systems import node_bytes, node_cpus
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.pods import address, component, node
from inferometer_operator.settings import Settings

_GPU_MODEL = "nvidia.com/gpu.product"
_OF_THE_NODE = {"DaemonSet", "Node"}
"""What controls the pods that every node has: Node, those of its kubelet's files."""
_log = structlog.get_logger()


async def read_cluster_nodes(
    reader: Reader,
    settings: Settings,
    run: Json,
    pods: Iterable[Json],
    known: dict[str, ClusterNode],
) -> Mapping[str, ClusterNode]:
    """Return what the cluster knows of the nodes of a run's server pods, once they have started.

    Each is read once: `known` holds what was read before. A run does not fail without it.
    """
    names = {node(pod) for pod in pods if component(pod) == SERVER and address(pod)}
    missing = sorted(names - known.keys())
    found = await asyncio.gather(*(_read(reader, settings, run, name) for name in missing))
    known.update(zip(missing, found, strict=True))
    return known


async def _read(reader: Reader, settings: Settings, run: Json, name: str) -> ClusterNode:
    try:
        described = await reader.get_node(name) if settings.read_nodes else None
        running = await reader.list_running_pods(settings.namespace, name)
    except ApiError as error:
        if error.passing:
            raise
        _log.warning("server_node_not_read", node=name, error=str(error))
        return ClusterNode()
    others = sum(_is_of_others(pod, str(run["metadata"]["uid"])) for pod in running)
    is_whole = settings.namespace is None
    return describe_node(described, other_pods=others if is_whole or others else None)


def describe_node(described: Json | None, *, other_pods: int | None) -> ClusterNode:
    """Return what a Node object says; None: it could not be read."""
    if described is None:
        return ClusterNode(other_pods=other_pods)
    labels: Mapping[str, Any] = described["metadata"].get("labels") or {}
    status: Mapping[str, Any] = described.get("status") or {}
    capacity: Mapping[str, Any] = status.get("capacity") or {}
    return ClusterNode(
        instance_type=str(labels.get(INSTANCE_TYPE_LABEL, "")),
        gpu_model=str(labels.get(_GPU_MODEL, "")),
        cpu_count=node_cpus(capacity.get("cpu")) or None,
        memory_bytes=node_bytes(capacity.get("memory")) or None,
        kernel=str((status.get("nodeInfo") or {}).get("kernelVersion", "")),
        other_pods=other_pods,
    )


def _is_of_others(pod: Json, run_uid: str) -> bool:
    is_own = (pod["metadata"].get("labels") or {}).get(RUN_UID_LABEL) == run_uid
    return not is_own and controller_of(pod).get("kind") not in _OF_THE_NODE
