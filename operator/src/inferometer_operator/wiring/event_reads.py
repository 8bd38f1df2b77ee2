"""Reads of the Events about objects of a run, which no watch delivers."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from inferometer_api.plan.cluster_objects import SERVER
from inferometer_api.scenarios.table import COLD_STARTS
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.children import jobs_with_components
from inferometer_operator.reconcile.observed import ChildRole, Json
from inferometer_operator.reconcile.pods import component, containers, is_live, is_ready, node, uid

_MOST_LOGS_REQUESTED = 4
"""Of many pods that hang, the first few explain why."""
_FIRST_WARNINGS_SECONDS, _LONGEST_WARNINGS_SECONDS = 3.0, 60.0
"""How long pods hang before Events are read, and then the longest pause; the pauses double."""


@dataclass(slots=True)
class WarningMemory:
    """The Events about objects that hang, and when to read them again."""

    about: frozenset[str] = frozenset()
    """UIDs of the objects that hang."""
    due: float = 0.0
    pause_seconds: float = 0.0
    found: tuple[Json, ...] = ()


async def read_warnings(
    reader: Reader,
    namespace: str,
    children: Mapping[ChildRole, Json | None],
    pods: tuple[Json, ...],
    memory: WarningMemory,
    now: float,
) -> tuple[Json, ...]:
    """Return why pods are not created or do not start, if any have been missing for long."""
    about = [pod["metadata"]["uid"] for pod in pods if _hangs(pod)][:_MOST_LOGS_REQUESTED]
    live = Counter(component(pod) for pod in pods if is_live(pod))
    for job, of in jobs_with_components(children):
        if live[of] < job["spec"]["parallelism"]:
            about.append(job["metadata"]["uid"])
    inference = children.get("inference")
    if inference is not None and not live[SERVER]:
        about.append(inference["metadata"]["uid"])
    if not memory.about & set(about):
        memory.found, memory.pause_seconds = (), _FIRST_WARNINGS_SECONDS
        memory.due = now + memory.pause_seconds
    memory.about = frozenset(about)
    if about and now >= memory.due:
        memory.pause_seconds = min(2 * memory.pause_seconds, _LONGEST_WARNINGS_SECONDS)
        memory.due = now + memory.pause_seconds
        requests = (reader.list_warnings(namespace, uid) for uid in about)
        memory.found = tuple(event for found in await asyncio.gather(*requests) for event in found)
    return memory.found


async def read_pulls(reader: Reader, run: Json, pods: tuple[Json, ...]) -> tuple[Json, ...]:
    """Return the Events about images of ready server pods, if these start cold."""
    if not _starts_cold(run):
        return ()
    started = [each for each in pods if component(each) == SERVER and is_ready(each)]
    namespace = run["metadata"]["namespace"]
    requests = (reader.list_pulls(namespace, uid(each)) for each in started)
    return tuple(event for found in await asyncio.gather(*requests) for event in found)


def _starts_cold(run: Json) -> bool:
    scenarios = (run.get("spec") or {}).get("scenarios") or ()
    return any(each.get(kind) is not None for each in scenarios for kind in COLD_STARTS)


def _hangs(pod: Json) -> bool:
    """Return whether a pod is bound to a node, and none of its containers has started."""
    begun = any(
        (each.get("state") or {}).keys() & {"running", "terminated"} for each, _ in containers(pod)
    )
    return bool(node(pod)) and not begun
