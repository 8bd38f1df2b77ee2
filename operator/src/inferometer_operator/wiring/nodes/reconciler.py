"""The reconciliation of one NodeBenchmark: choose nodes, take turns, create Jobs, keep results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from inferometer_api.nodes.benchmark import (
    MOST_NODES,
    BenchmarkedNode,
    NodeBenchmark,
    NodeBenchmarkReason,
    NodeBenchmarkSpec,
    NodeBenchmarkStatus,
)
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.selection import nodes_to_measure
from inferometer_api.nodes.wire_rates import WireRates, with_wire_rates
from inferometer_api.plan.cluster_objects import QUEUE_NAME_LABEL
from inferometer_api.timestamps import format_time
from inferometer_operator.cluster.errors import (
    ApiError,
    ApiUnreachableError,
    NodesForbiddenError,
)
from inferometer_operator.cluster.reader import LOG_SETTLED_SECONDS
from inferometer_operator.cluster.results_client import DeliveryError
from inferometer_operator.manifests.node_job import DOCUMENT_FILE, document_map, node_job
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.reconcile.nodes.decide import OVER, decide
from inferometer_operator.reconcile.nodes.draft import NodeBenchmarkDraft, is_true, read_node_status
from inferometer_operator.reconcile.nodes.observed import NodeRefusal, NodesObserved
from inferometer_operator.reconcile.nodes.wire import job_keys, measures_wire, startable
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget, Event
from inferometer_operator.reconcile.raw_objects import InvalidObjectError, read_object
from inferometer_operator.reconcile.workload_state import queue_name
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.nodes.jobs import node_jobs
from inferometer_operator.wiring.nodes.log import NoDocumentError, read_document
from inferometer_operator.wiring.nodes.queue import NodeQueue, queue_entries
from inferometer_operator.wiring.nodes.wire import NodeWire

KIND: Final = "NodeBenchmark"
_NEVER_ACCEPTED = frozenset({400, 422})
_TAKEN = 409
_NAME_TAKEN = NodeRefusal("another object has the Job's name", is_final=False)
_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 5.0, 600.0
_LOG_SECONDS = 1.0
_OTHER_SECONDS = 15.0
_log = structlog.get_logger()


class _RefusedError(Exception):
    """The nodes cannot be measured; the message says why."""

    def __init__(self, reason: NodeBenchmarkReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class NodeReconciler:
    """Works on one NodeBenchmark."""

    dependencies: Dependencies
    queue: NodeQueue
    _kept: dict[str, tuple[str, NodeCharacteristics]] = field(default_factory=dict)
    _faults: dict[str, str] = field(default_factory=dict)
    _refused: dict[str, NodeRefusal] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    """Nodes whose Job has a name that is taken: by another object, unless it is their own Job, of
    which the watch is late."""
    _unread_since: dict[str, float] = field(default_factory=dict)
    _store_pause_seconds: float = _RETRY_SECONDS
    _wire: NodeWire = field(init=False)

    def __post_init__(self) -> None:
        self._wire = NodeWire(self.dependencies)

    async def reconcile(self, raw: Json) -> tuple[Json, float | None]:
        """Do what is due; return the object as it is then, and when to look again."""
        status = read_node_status(raw)
        if await self.dependencies.ownership.other_operator(raw):
            return raw, _OTHER_SECONDS
        draft = NodeBenchmarkDraft(
            status, self.dependencies.now(), raw["metadata"].get("generation")
        )
        if own := self.dependencies.ownership.own:
            draft.update(operator=own)
        try:
            spec = _parse(raw, is_accepted=bool(status.nodes)).spec
            if not status.nodes and not is_true(status, "Finished"):
                self._check_queue(raw)
                await self._choose(spec, draft)
        except _RefusedError as refusal:
            if is_true(status, "Finished"):
                return raw, None
            draft.refuse(refusal.reason, str(refusal))
            return await self._write(raw, draft.status), None
        except NodesForbiddenError as error:
            draft.wait_for_right(str(error))
            return await self._write(raw, draft.status), _RETRY_SECONDS
        return await self._carry_out(raw, spec, draft)

    def _check_queue(self, raw: Json) -> None:
        """Refuse a NodeBenchmark that Kueue is to admit: its pods would have no quota."""
        name = queue_name(raw)
        if name and self.dependencies.settings.kueue.enabled:
            raise _RefusedError(
                "NotAvailable",
                f"Kueue cannot admit a NodeBenchmark: its pods are each for one node, whatever "
                f"flavor Kueue assigns. Leave the label {QUEUE_NAME_LABEL} ({name}) out: then it "
                "waits in the operator's own queue, and takes 1 CPU and 1 GiB on one node at a "
                "time, and half of that on another, without quota.",
            )

    async def _choose(self, spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft) -> None:
        """Put the matching nodes into the status: they stay the same from then on."""
        if not self.dependencies.settings.read_nodes:
            raise _RefusedError(
                "NotAvailable",
                "The operator may not read nodes (its setting readNodes is false). Set "
                "readNodes=true in the chart's values.",
            )
        self._check_gpus(spec)
        nodes = await self.dependencies.reader.list_nodes()
        gpus = nodes_to_measure(spec, nodes, self.dependencies.settings.gpu.tolerations)
        if not 1 <= len(gpus) <= MOST_NODES:
            raise _RefusedError(
                "NoNodes",
                f"{len(gpus) or 'No'} nodes match spec.nodeSelector and are ready, schedulable "
                f"and without a taint that is not tolerated. It must be 1 to {MOST_NODES}.",
            )
        draft.update(
            start_time=format_time(draft.now),
            nodes=[
                BenchmarkedNode(node=name, state="Waiting", gpus=count or None)
                for name, count in gpus.items()
            ],
        )

    def _check_gpus(self, spec: NodeBenchmarkSpec) -> None:
        """Refuse more GPUs than the admin lets a run request."""
        most = self.dependencies.settings.ceilings.gpus
        if most is not None and spec.gpus > most:
            raise _RefusedError(
                "NotAvailable",
                f"spec.gpus: the pods request {spec.gpus} GPUs each, and the operator's setting "
                f"ceilings.gpus allows {most}.",
            )

    async def _carry_out(
        self, raw: Json, spec: NodeBenchmarkSpec, draft: NodeBenchmarkDraft
    ) -> tuple[Json, float | None]:
        observed = self._observe(raw, spec, draft.status)
        decision = decide(spec, draft, observed)
        try:
            raw = await self._write(raw, decision.status)
        finally:
            # Turns that the status does not show are given back.
            self.queue.replace(raw, queue_entries(raw, read_node_status(raw)))
        self._forget_nodes(row.node for row in decision.status.nodes if row.state in OVER)
        owner = _owner(raw)
        gpus = {row.node: row.gpus or 0 for row in decision.status.nodes}
        for node in decision.create:
            job = node_job(spec, owner, node, self.dependencies.settings, gpus[node])
            await self._create(node, job)
        for node in decision.read:
            await self._read(owner, spec, node, observed.pods[node])
        names = [row.node for row in decision.status.nodes]
        pauses = []
        for node in decision.wire:
            rates, again = await self._wire.advance(owner, spec, node, names, observed)
            pauses.append(again if rates is None else await self._keep_with(owner, node, rates))
        for target in decision.delete:
            await self.dependencies.writer.delete(owner.namespace, target)
        raw, pause = await self._deliver(raw)
        if decision.is_expired and pause is None:
            target = DeletionTarget(KIND, owner.name, owner.uid)
            version = raw["metadata"]["resourceVersion"]
            await self.dependencies.writer.delete(owner.namespace, target, version=version)
            return raw, None
        return raw, _soonest(
            decision.look_again_seconds, pause, self._pause(decision.read), *pauses
        )

    def _pause(self, read: Sequence[str]) -> float | None:
        """Return when to look again after these nodes were read, and others refused."""
        known = {**self._kept, **self._faults, **self._wire.documents}
        if any(node in known for node in read):
            return 0.0
        if read:
            return _LOG_SECONDS
        return _RETRY_SECONDS if self._refused or self._taken else None

    def _observe(
        self, raw: Json, spec: NodeBenchmarkSpec, status: NodeBenchmarkStatus
    ) -> NodesObserved:
        keys = (key for row in status.nodes for key in job_keys(row.node))
        jobs, pods = node_jobs(self.dependencies.reader, _owner(raw), keys)
        self._taken.difference_update(jobs)
        waiting = startable(status.nodes, spec)
        return NodesObserved(
            admitted=self.queue.admit(raw, waiting, queue_entries(raw, status)),
            jobs=jobs,
            pods=pods,
            measured=frozenset(self._wire.documents),
            kept=self._kept,
            faults=self._faults,
            refused={
                **self._refused,
                **dict.fromkeys(self._taken, _NAME_TAKEN),
                **self._wire.refused,
            },
        )

    def _forget_nodes(self, nodes: Iterable[str]) -> None:
        """Forget what was read of nodes that are over: a document takes memory."""
        for node in nodes:
            self._wire.forget(node)
            self._taken.discard(node)
            for memory in (self._kept, self._faults, self._refused):
                memory.pop(node, None)

    async def _create(self, node: str, job: Manifest) -> None:
        refusal = await self.dependencies.writer.create(job)
        if refusal is None:
            self._refused.pop(node, None)
            self._taken.discard(node)
            _log.info("node_job_created", node=node, job=job["metadata"]["name"])
        elif refusal.code != _TAKEN:
            self._refused[node] = NodeRefusal(refusal.message, refusal.code in _NEVER_ACCEPTED)
        else:
            self._taken.add(node)

    async def _read(self, owner: Owner, spec: NodeBenchmarkSpec, node: str, pod: Json) -> None:
        """Read a document, and keep it if the wire is not measured.

        A fault counts once the log had time to be whole.
        """
        clock = self.dependencies.clock
        try:
            text, document = await read_document(self.dependencies.reader, pod)
        except (NoDocumentError, ApiError, ApiUnreachableError) as error:
            since = self._unread_since.setdefault(node, clock())
            if clock() - since >= LOG_SETTLED_SECONDS:
                self._faults[node] = str(error)
            return
        if measures_wire(spec):
            self._wire.documents[node] = document
        else:
            await self._keep(owner, node, text, document)

    async def _keep_with(self, owner: Owner, node: str, rates: WireRates) -> float:
        """Keep what a node has measured, with the figures of its wire; return when to go on."""
        document = with_wire_rates(self._wire.documents[node], rates)
        text = document.model_dump_json(by_alias=True, exclude_none=True)
        await self._keep(owner, node, text, document)
        return 0.0 if node in self._kept else _RETRY_SECONDS

    async def _keep(
        self, owner: Owner, node: str, text: str, document: NodeCharacteristics
    ) -> None:
        config_map = document_map(text, owner, node)
        refusal = await self.dependencies.writer.create(config_map)
        if refusal is not None and refusal.code != _TAKEN:
            self._refused[node] = NodeRefusal(refusal.message, refusal.code in _NEVER_ACCEPTED)
            return
        self._refused.pop(node, None)
        self._kept[node] = (config_map["metadata"]["name"], document)

    async def _deliver(self, raw: Json) -> tuple[Json, float | None]:
        """Send one document to the results service; return when to go on, None: all are there."""
        client, status, owner = self.dependencies.results, read_node_status(raw), _owner(raw)
        row = next((row for row in status.nodes if row.config_map and not row.stored), None)
        if client is None or row is None:
            return raw, None
        held = await self.dependencies.reader.get("ConfigMap", owner.namespace, str(row.config_map))
        try:
            if held is not None:
                text = str((held.get("data") or {}).get(DOCUMENT_FILE, ""))
                await client.deliver_characteristics(owner.namespace, text.encode())
        except DeliveryError as error:
            _log.warning("node_not_stored", node=row.node, error=str(error))
            if not error.refused:
                self._store_pause_seconds = min(
                    2 * self._store_pause_seconds, _LONGEST_RETRY_SECONDS
                )
                return raw, self._store_pause_seconds
            return raw, _LONGEST_RETRY_SECONDS
        self._store_pause_seconds = _RETRY_SECONDS
        stored = [
            each.model_copy(update={"stored": True}) if each.node == row.node else each
            for each in status.nodes
        ]
        return await self._write(raw, status.model_copy(update={"nodes": stored})), 0.0

    async def _write(self, raw: Json, status: NodeBenchmarkStatus) -> Json:
        """Write the status if it differs; report the end as an event."""
        before = read_node_status(raw)
        if before == status:
            return raw
        written = await self.dependencies.writer.apply_status(raw, status)
        if is_true(status, "Finished") and not is_true(before, "Finished"):
            _log.info("node_benchmark_ended", name=raw["metadata"]["name"], phase=status.phase)
            await self.dependencies.writer.create_event(written, _end_event(status))
        return written


def _soonest(*pauses: float | None) -> float | None:
    return min((each for each in pauses if each is not None), default=None)


def _owner(raw: Json) -> Owner:
    metadata = raw["metadata"]
    return Owner(metadata["name"], metadata["namespace"], metadata["uid"], KIND)


def _end_event(status: NodeBenchmarkStatus) -> Event:
    failed = next(each for each in status.conditions if each.type == "Failed")
    return Event("Warning" if failed.status == "True" else "Normal", failed.reason, failed.message)


def _parse(raw: Json, *, is_accepted: bool) -> NodeBenchmark:
    try:
        return read_object(raw, NodeBenchmark, is_accepted=is_accepted)
    except InvalidObjectError as error:
        raise _RefusedError("InvalidSpec", str(error)) from error
