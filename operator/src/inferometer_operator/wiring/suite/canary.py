"""The canary before a suite: a few seconds that show whether its nodes still are what they were."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog
from pydantic import ValidationError

from inferometer_api.nodes.benchmark import BenchmarkedNode, NodeBenchmarkSpec
from inferometer_api.nodes.canary import CANARY_PRIMITIVES, canary_sentences, unknown_sentence
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.selection import matching_nodes
from inferometer_api.results.reading import UnreadableDocumentError, read_versioned
from inferometer_api.spec.resolve import is_launched
from inferometer_api.spec.server import Toleration
from inferometer_api.suite.plan_suite import SuitePlan
from inferometer_api.wording import short_list
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import LOG_SETTLED_SECONDS
from inferometer_operator.manifests.node_job import DOCUMENT_FILE, node_job
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.manifests.server_job import server_tolerations
from inferometer_operator.reconcile.child_faults import has_ended
from inferometer_operator.reconcile.nodes.draft import read_node_status
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.measured_nodes import is_expired
from inferometer_operator.wiring.nodes.jobs import node_jobs
from inferometer_operator.wiring.nodes.log import NoDocumentError, read_document

_MOST_NODES = 16
_MOST_DOCUMENTS = 8
"""Of a node, with every figure of the canary: earlier measurements are not read."""
_MEASURE_SECONDS, _DEADLINE_SECONDS = 10, 300
"""A node that is not free by then has no canary."""
_TAKEN = 409
_log = structlog.get_logger()


class _KnownNode(NamedTuple):
    """A node on which runs of the suite may start, and what was measured of it."""

    history: tuple[NodeCharacteristics, ...]
    """Its newest measurements, the earliest first."""
    tolerations: list[Toleration]
    """With which a server pod of the suite starts there."""


@dataclass(slots=True)
class NodeCanary:
    """Measures the nodes of one suite that a NodeBenchmark of its namespace has measured."""

    _known: dict[str, _KnownNode] | None = None
    """The nodes that are to be measured again."""
    _found: dict[str, str] = field(default_factory=dict)
    """What is known of the nodes that are measured, or cannot be, as sentences."""
    _left_out: str = ""
    """Which nodes are not measured again, as a sentence."""
    _unread_since: dict[str, float] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """What is known of the nodes, as sentences; empty: nothing yet."""
        found = (text for _, text in sorted(self._found.items()))
        return " ".join(filter(None, (*found, self._left_out)))

    async def advance(self, dependencies: Dependencies, raw: Json, plan: SuitePlan) -> str:
        """Create Jobs and read their documents; return what is waited for, empty at the end."""
        metadata = raw["metadata"]
        owner = Owner(metadata["name"], metadata["namespace"], metadata["uid"], "BenchmarkSuite")
        if self._known is None:
            self._known, self._left_out = await _measured_nodes(dependencies, owner, plan)
        jobs, pods = node_jobs(dependencies.reader, owner, self._known)
        for node in self._known.keys() - self._found.keys():
            if node not in jobs:
                await self._create(dependencies, owner, node, self._known[node].tolerations)
            elif has_ended(jobs[node]):
                await self._read(dependencies, owner, node, jobs[node], pods.get(node))
        going_on = len(self._known.keys() - self._found.keys())
        if not going_on:
            return ""
        return (
            f"Nodes are measured again for 5 s each: {len(self._known) - going_on} of "
            f"{len(self._known)} are done."
        )

    async def _create(
        self, dependencies: Dependencies, owner: Owner, node: str, tolerations: list[Toleration]
    ) -> None:
        spec = NodeBenchmarkSpec(
            only=list(CANARY_PRIMITIVES),
            max_seconds=_MEASURE_SECONDS,
            active_deadline_seconds=_DEADLINE_SECONDS,
        ).model_copy(update={"tolerations": tolerations})  # those of GPUs may exceed the limit
        job = node_job(spec, owner, node, dependencies.settings)
        job["spec"]["activeDeadlineSeconds"] = _DEADLINE_SECONDS
        refusal = await dependencies.writer.create(job)
        if refusal is not None and refusal.code != _TAKEN:
            _log.warning("canary_refused", suite=owner.name, node=node, error=refusal.message)
            self._found[node] = unknown_sentence(node, refusal.message)

    async def _read(
        self, dependencies: Dependencies, owner: Owner, node: str, job: Json, pod: Json | None
    ) -> None:
        """Compare the document of an ended Job, and delete the Job."""
        clock = dependencies.clock
        try:
            _, now = await _read_pod(dependencies, pod)
        except (NoDocumentError, ApiError, ApiUnreachableError) as error:
            if clock() - self._unread_since.setdefault(node, clock()) < LOG_SETTLED_SECONDS:
                return
            _log.warning("canary_not_read", suite=owner.name, node=node, error=str(error))
            self._found[node] = unknown_sentence(node, str(error))
        else:
            self._found[node] = canary_sentences(node, (self._known or {})[node].history, now)
        target = DeletionTarget("Job", job["metadata"]["name"], job["metadata"]["uid"])
        await dependencies.writer.delete(owner.namespace, target)


async def _read_pod(
    dependencies: Dependencies, pod: Json | None
) -> tuple[str, NodeCharacteristics]:
    if pod is None:
        raise NoDocumentError("The pod is gone.")
    return await read_document(dependencies.reader, pod)


async def _measured_nodes(
    dependencies: Dependencies, owner: Owner, plan: SuitePlan
) -> tuple[dict[str, _KnownNode], str]:
    """Return a few of the measured nodes on which the suite may run, and which others it may use.

    The others are named in a sentence, which is empty if there are none.
    """
    settings = dependencies.settings
    if not settings.read_nodes:
        return {}, ""
    # A thousand cells take a second.
    runs = await asyncio.to_thread(lambda: [each.run for each in plan.runs])
    servers = {
        (each.spec.server.placement.model_dump_json(), each.spec.server.device): each.spec.server
        for each in runs
        if is_launched(each.spec)
    }
    nodes = await dependencies.reader.list_nodes()
    tolerations: dict[str, list[Toleration]] = {}
    for server in servers.values():
        tolerated = server_tolerations(server, settings)
        placed = NodeBenchmarkSpec(node_selector=server.placement.node_selector)
        for name in matching_nodes(placed.model_copy(update={"tolerations": tolerated}), nodes):
            tolerations.setdefault(name, tolerated)
    maps = _newest_maps(await dependencies.reader.list_node_benchmarks(owner.namespace))
    chosen = sorted(tolerations.keys() & maps.keys())[:_MOST_NODES]
    found = await asyncio.gather(
        *(_documents(dependencies, owner.namespace, maps[node]) for node in chosen)
    )
    known = {
        node: _KnownNode(each, tolerations[node])
        for node, each in zip(chosen, found, strict=True)
        if each
    }
    others = sorted(tolerations.keys() - known.keys())
    if not others:
        return known, ""
    return known, (
        f"Whether {short_list(others)} changed is not known: at most {_MOST_NODES} nodes are "
        "measured again, and only those of which a NodeBenchmark of this namespace has a "
        "measurement that has not expired."
    )


def _newest_maps(benchmarks: Iterable[Json]) -> dict[str, list[str]]:
    """Return the ConfigMaps of the newest measurements of each node, the earliest first.

    At most 8 have every figure of the canary, and at most 8 have only some. One that has expired
    does not count.
    """
    rows = [
        (row, _has_canary(each, row))
        for each in benchmarks
        if not is_expired(each.get("status") or {})
        for row in read_node_status(each).nodes
        if row.state == "Measured" and row.config_map
    ]
    found: dict[str, list[str]] = {}
    counts: Counter[tuple[str, bool]] = Counter()
    for row, is_complete in sorted(rows, key=lambda each: each[0].finish_time or "", reverse=True):
        counts[row.node, is_complete] += 1
        if counts[row.node, is_complete] <= _MOST_DOCUMENTS:
            found.setdefault(row.node, []).insert(0, row.config_map or "")
    return found


def _has_canary(benchmark: Json, row: BenchmarkedNode) -> bool:
    """Return whether the measurement of a node has every figure of the canary."""
    is_partial = bool((benchmark.get("spec") or {}).get("only"))
    return not is_partial and not any(each in CANARY_PRIMITIVES for each in row.unavailable)


async def _documents(
    dependencies: Dependencies, namespace: str, names: Iterable[str]
) -> tuple[NodeCharacteristics, ...]:
    found = [await _document(dependencies, namespace, each) for each in names]
    return tuple(each for each in found if each is not None)


async def _document(
    dependencies: Dependencies, namespace: str, name: str
) -> NodeCharacteristics | None:
    held = await dependencies.reader.get("ConfigMap", namespace, name)
    try:
        text = ((held or {}).get("data") or {}).get(DOCUMENT_FILE, "")
        return read_versioned(NodeCharacteristics, text, source=f"ConfigMap {name}").document
    except UnreadableDocumentError as error:
        _log.warning("canary_not_read", namespace=namespace, error=str(error))
        return None
    except ValidationError:
        return None
