"""The observed nodes of a NodeBenchmark, and their pods in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.pods import condition, last_end, main_container


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why the API server does not take a node's Job or its document."""

    message: str
    is_final: bool
    """Whether the same request can never succeed."""


@dataclass(frozen=True, slots=True)
class NodesObserved:
    """What is known of each node, by its name.

    Jobs, pods and refusals of its wire are by the keys `wire_key` and `peer_key`.
    """

    admitted: frozenset[str] = frozenset()
    """Nodes whose turn it is in the queue."""
    jobs: Mapping[str, Json] = field(default_factory=dict)
    pods: Mapping[str, Json] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    """Nodes whose own figures are there, and whose wire is to be measured."""
    kept: Mapping[str, tuple[str, NodeCharacteristics]] = field(default_factory=dict)
    """The ConfigMap and the document, once it is kept."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Why the document of a pod that has ended well cannot be had."""
    refused: Mapping[str, NodeRefusal] = field(default_factory=dict)


def wait_words(key: str, observed: NodesObserved) -> str:
    """Return why a pod does not run, empty if it does."""
    refusal, pod = observed.refused.get(key), observed.pods.get(key)
    if refusal is not None:
        return f"The API server does not take the Job: {refusal.message.rstrip('.')}."
    if pod is None:
        return ""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"The pod waits for the node: {str(scheduled.get('message', '')).rstrip('.')}."
    waiting: Json = (main_container(pod).get("state") or {}).get("waiting") or {}
    words = ": ".join(str(waiting[name]) for name in ("reason", "message") if waiting.get(name))
    return f"The container waits: {words.rstrip('.')}." if words else ""


def end_words(pod: Json) -> str:
    """Return how a pod has failed."""
    end = last_end(main_container(pod))
    if end is None:
        status: Mapping[str, Any] = pod.get("status") or {}
        words = ": ".join(str(status[name]) for name in ("reason", "message") if status.get(name))
        return f"The pod failed: {(words or 'its node gave no reason').rstrip('.')}."
    last = end.message.splitlines()[-1] if end.message else ""
    said = f": {last.rstrip('.')}" if last else ""
    return f"The pod ended with exit code {end.code} ({end.reason}){said}."
