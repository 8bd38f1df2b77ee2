"""The measurement of the wire of nodes whose own figures are there."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.wire_rates import WIRE_FIGURES, WireRates, is_selected
from inferometer_api.plan.cluster_objects import peer_key, wire_key
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import LOG_SETTLED_SECONDS
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.wire_jobs import peer_job, wire_job
from inferometer_operator.reconcile.nodes.observed import NodeRefusal, NodesObserved
from inferometer_operator.reconcile.nodes.wire import (
    WireStep,
    job_keys,
    peer_of,
    wire_step,
)
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.nodes.log import NoDocumentError, read_wire_rates

_TAKEN = 409
_AGAIN_SECONDS = 1.0
_log = structlog.get_logger()


@dataclass(slots=True)
class NodeWire:
    """Measures the wire of the nodes of one NodeBenchmark."""

    dependencies: Dependencies
    documents: dict[str, NodeCharacteristics] = field(default_factory=dict)
    """What the nodes have measured themselves."""
    refused: dict[str, NodeRefusal] = field(default_factory=dict)
    """Why the API server does not take a Job, by its key."""
    _unread_since: dict[str, float] = field(default_factory=dict)

    def forget(self, node: str) -> None:
        """Forget a node that is over."""
        self.documents.pop(node, None)
        self._unread_since.pop(node, None)
        for key in job_keys(node):
            self.refused.pop(key, None)

    async def advance(
        self,
        owner: Owner,
        spec: NodeBenchmarkSpec,
        node: str,
        names: Sequence[str],
        observed: NodesObserved,
    ) -> tuple[WireRates | None, float | None]:
        """Do what is due for a node; return its figures, or when to look again."""
        step = wire_step(spec, node, names, observed, self.dependencies.now())
        if step.failure:
            return _unavailable(spec, step.failure), None
        if step.create is not None:
            return None, await self._create(owner, spec, node, names, step)
        if step.read:
            return await self._read(spec, node, observed)
        return None, step.look_again_seconds

    async def _create(
        self,
        owner: Owner,
        spec: NodeBenchmarkSpec,
        node: str,
        names: Sequence[str],
        step: WireStep,
    ) -> float | None:
        settings, peer = self.dependencies.settings, peer_of(node, names)
        job: Manifest
        if step.create == "peer" and peer is not None:
            key, job = peer_key(node), peer_job(spec, owner, node, peer, settings)
        else:
            key = wire_key(node)
            job = wire_job(
                spec,
                owner,
                node,
                settings,
                peer_address=step.peer_address,
                no_peer=step.no_peer,
            )
        refusal = await self.dependencies.writer.create(job)
        if refusal is not None and refusal.code != _TAKEN:
            self.refused[key] = NodeRefusal(refusal.message, is_final=False)
            return 0.0
        _log.info("wire_job_created", node=node, job=job["metadata"]["name"])
        # The watch shows the Job; this is for one whose event is lost.
        return _AGAIN_SECONDS

    async def _read(
        self, spec: NodeBenchmarkSpec, node: str, observed: NodesObserved
    ) -> tuple[WireRates | None, float | None]:
        """Read the figures; a fault counts once the log had time to be whole."""
        clock = self.dependencies.clock
        try:
            pod = observed.pods[wire_key(node)]
            return await read_wire_rates(self.dependencies.reader, pod), None
        except (NoDocumentError, ApiError, ApiUnreachableError) as error:
            if clock() - self._unread_since.setdefault(node, clock()) < LOG_SETTLED_SECONDS:
                return None, _AGAIN_SECONDS
            return _unavailable(spec, str(error).rstrip(".")), None


def _unavailable(spec: NodeBenchmarkSpec, why: str) -> WireRates:
    names = [each for each in WIRE_FIGURES if is_selected(each, spec.only)]
    return WireRates(figures=[], unavailable=dict.fromkeys(names, why))
