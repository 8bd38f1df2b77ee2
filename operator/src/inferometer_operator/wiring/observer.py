"""Observation of a run: reads only what can still change the decision.

Children come from the store of the watches; requests are made for what no watch delivers.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import LOADGEN
from inferometer_api.plan.load_report import LoadReport
from inferometer_api.status.run_status import RunStatus
from inferometer_api.timestamps import parse_time
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.server_clock import local_time
from inferometer_operator.reconcile.children import QUOTA_KIND, child_names, jobs_with_components
from inferometer_operator.reconcile.conditions import (
    find_condition,
    generation_of,
    is_decided,
    is_true,
    read_status,
)
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.external_service import selects_pods, unbacked_run
from inferometer_operator.reconcile.observed import (
    ChildRole,
    EndpointList,
    Json,
    KnownManifest,
    KueueObjects,
    ObjectReference,
    Observed,
    QueuePosition,
    Sightings,
)
from inferometer_operator.reconcile.pods import (
    component,
    condition,
    has_started,
    is_left_behind,
    main_container,
    master_pod,
    node,
    running_address,
)
from inferometer_operator.reconcile.progress import progress_under_load
from inferometer_operator.reconcile.references import raw_references
from inferometer_operator.reconcile.result_state import is_collected
from inferometer_operator.reconcile.sightings import sight
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.cluster_node_reads import ClusterNodeMemory, read_cluster_nodes
from inferometer_operator.wiring.endpoints import external_service_name, list_agents, list_backends
from inferometer_operator.wiring.event_reads import WarningMemory, read_pulls, read_warnings
from inferometer_operator.wiring.kserve_reads import (
    InferenceMemory,
    absent_roles,
    read_inference,
)
from inferometer_operator.wiring.kueue_reads import KueueMemory, read_kueue
from inferometer_operator.wiring.load_node_reads import LoadNodeMemory, read_load_node_faults
from inferometer_operator.wiring.manifest_reads import ManifestMemory, read_known_manifest

_POLL_SECONDS, _POLL_BEFORE_LOAD_SECONDS = 10.0, 1.0
LOOK_SECONDS = 5.0
"""How often a run that does not measure yet is observed: some faults appear in Events alone."""


@dataclass(slots=True)
class RunMemory:
    """What was read of a run by requests; a restarted operator reads it again."""

    report: LoadReport | None = None
    """The load generator's last report."""
    due: float = 0.0
    """When to poll the load generator again."""
    references: dict[ObjectReference, Json | None] | None = None
    """The objects that the run names, of `generation`."""
    generation: int | None = None
    sightings: Sightings | None = None
    """Since when facts about the run's objects hold; None: not looked at yet."""
    warnings: WarningMemory = field(default_factory=WarningMemory)
    kueue: KueueMemory = field(default_factory=KueueMemory)
    inference: InferenceMemory = field(default_factory=InferenceMemory)
    load_nodes: LoadNodeMemory = field(default_factory=LoadNodeMemory)
    cluster_nodes: ClusterNodeMemory = field(default_factory=ClusterNodeMemory)
    manifest: ManifestMemory = field(default_factory=ManifestMemory)


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads the observed state of runs."""

    reader: Reader
    loadgen: LoadgenClient
    settings: Settings
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = local_time
    """The API server's time."""

    async def observe(self, run: Json, position: QueuePosition, memory: RunMemory) -> Observed:
        """Return the observed state of the run."""
        status = read_status(run)
        if status.start_time is None:
            return await self._before_begin(run, status, position, memory)
        metadata = run["metadata"]
        uid, namespace = metadata["uid"], metadata["namespace"]
        children, pods = await self._children(run), self.reader.list_pods(namespace, uid)
        if not is_decided(status) and (_lacks_pods(children, pods) or _lacks_node(pods)):
            # The watch of Jobs may be ahead of that of pods, and a pod that is lost ends the run.
            # A load pod that found no node ends the attempt: it must not measure meanwhile.
            await self.reader.refresh_pods(namespace, uid)
            pods = self.reader.list_pods(namespace, uid)
        known = (run, *(each for each in children.values() if each is not None), *pods)
        still = uid if (uid, "unbacked") in (memory.sightings or {}) else ""
        memory.sightings = sight(memory.sightings, known, self.now(), unbacked=still)
        pods = _of_this_attempt(status, children, pods, memory.sightings)
        load = master_pod(load_pods(pods))
        finished = is_true(status, "Finished")
        to_plan = not finished and children.get("plan") is None and not (load and has_started(load))
        to_keep = load is not None and ending(load) is not None and not is_collected(status)
        report = None if finished or load is None else await self._report(load, memory)
        under_load = progress_under_load(memory.report) is not None
        hands_over = awaits_servers(report)
        service = None if finished or load else await self._service(run)
        backends = await self._backends(run, service, needed=to_plan)
        unbacked = unbacked_run(run, service, backends)
        memory.sightings = sight(memory.sightings, known, self.now(), unbacked=unbacked)
        return Observed(
            queue_position=position,
            children=children,
            sightings=memory.sightings,
            pods=pods,
            result_maps=await self.reader.list_result_maps(namespace, uid) if to_keep else (),
            events=()
            if finished or under_load
            else await read_warnings(
                self.reader, namespace, children, pods, memory.warnings, self.clock()
            ),
            pulls=await read_pulls(self.reader, run, pods) if to_plan or hands_over else (),
            model_manifest=await read_known_manifest(
                self.reader, self.settings, run, memory.manifest
            )
            if to_plan or hands_over
            else None,
            service=service,
            agents=await list_agents(self.reader, self.settings, run, pods)
            if to_plan or hands_over
            else None,
            load_node_faults=await read_load_node_faults(
                self.reader, self.settings, run, memory.load_nodes, self.now(), reads=to_plan
            ),
            cluster_nodes=await read_cluster_nodes(
                self.reader, self.settings, run, pods, memory.cluster_nodes
            )
            if to_plan or hands_over
            else {},
            behind_service=backends,
            report=report,
            kueue=await self._kueue(
                run,
                children,
                memory.kueue,
                reads=not finished and (children.get("load") is None or hands_over),
            ),
            inference=await read_inference(
                self.reader, run, children.get("inference"), pods, memory.inference, reads=to_plan
            ),
        )

    async def _before_begin(
        self, run: Json, status: RunStatus, position: QueuePosition, memory: RunMemory
    ) -> Observed:
        service, found, children = await asyncio.gather(
            self._service(run),
            self._references(run, status, position, memory),
            self._children(run, "workload"),
        )
        # An External server exists already: the plan is made as soon as the run begins.
        begins = position.admitted and service is not None
        backends = await self._backends(run, service, needed=begins)
        # Pods of an attempt that was given up: seen since before the next one begins.
        metadata = run["metadata"]
        left = self.reader.list_pods(metadata["namespace"], metadata["uid"])
        unbacked = unbacked_run(run, service, backends)
        memory.sightings = sight(memory.sightings, (run, *left), self.now(), unbacked=unbacked)
        return Observed(
            queue_position=position,
            children=children,
            sightings=memory.sightings,
            service=service,
            references=found,
            model_manifest=await self._manifest(run, status, position, memory),
            agents=await list_agents(self.reader, self.settings, run, ()) if begins else None,
            load_node_faults=await read_load_node_faults(
                self.reader, self.settings, run, memory.load_nodes, self.now(), reads=begins
            ),
            behind_service=backends,
            kueue=await self._kueue(run, children, memory.kueue, reads=True),
            inference=await read_inference(self.reader, run, None, (), memory.inference),
        )

    async def _manifest(
        self, run: Json, status: RunStatus, position: QueuePosition, memory: RunMemory
    ) -> KnownManifest | None:
        if is_decided(status):
            return None
        begins = position.admitted and _is_queued(status)
        return await read_known_manifest(
            self.reader, self.settings, run, memory.manifest, again=begins
        )

    async def _references(
        self, run: Json, status: RunStatus, position: QueuePosition, memory: RunMemory
    ) -> dict[ObjectReference, Json | None]:
        """Return the objects that the run names; while it is queued, as they were when it came."""
        generation = generation_of(run)
        if (
            _is_queued(status)
            and not position.admitted
            and memory.references is not None
            and memory.generation == generation
        ):
            return memory.references
        namespace = run["metadata"]["namespace"]
        named = [
            each
            for each in raw_references(run)
            if each.kind != "Secret" or self.settings.allow_secrets
        ]
        found = await asyncio.gather(
            *(self.reader.get_metadata(each.kind, namespace, each.name) for each in named)
        )
        memory.references, memory.generation = dict(zip(named, found, strict=True)), generation
        return memory.references

    async def _kueue(
        self,
        run: Json,
        children: Mapping[ChildRole, Json | None],
        memory: KueueMemory,
        *,
        reads: bool,
    ) -> KueueObjects | None:
        """Return the objects of Kueue that the run needs; `reads`: until its pods are made."""
        store = self.reader.children
        if not self.settings.kueue.enabled or QUOTA_KIND in store.unserved:
            return None
        if refusal := store.forbidden.get(QUOTA_KIND):
            return KueueObjects(dict(memory.flavors), refusal=refusal)
        return await read_kueue(self.reader, run, children.get("workload"), memory, reads=reads)

    async def _children(self, run: Json, *roles: ChildRole) -> dict[ChildRole, Json | None]:
        metadata = run["metadata"]
        namespace, uid = metadata["namespace"], metadata["uid"]
        names = child_names(metadata["name"])
        # A Workload outlives the label that names its queue: it holds quota until it is deleted.
        absent = absent_roles(run) | (set() if _has_load_service(run) else {"loadService"})
        wanted = [
            each for each in names if each.role not in absent and (not roles or each.role in roles)
        ]
        found = await asyncio.gather(
            *(self.reader.get_child(each.kind, namespace, each.name, uid) for each in wanted)
        )
        return {each.role: child for each, child in zip(wanted, found, strict=True)}

    async def _service(self, run: Json) -> Json | None:
        name = external_service_name(run)
        if name is None:
            return None
        found: Json | None = await self.reader.get("Service", run["metadata"]["namespace"], name)
        return found

    async def _backends(
        self, run: Json, service: Json | None, *, needed: bool
    ) -> EndpointList | None:
        """Return the endpoints of a Service: those without a selector decide if it may be used."""
        by_slices = service is not None and not selects_pods(service)
        return await list_backends(self.reader, run) if needed or by_slices else None

    async def _report(self, pod: Json, memory: RunMemory) -> LoadReport | None:
        """Return the load generator's report; after its end, its termination message."""
        ended = ending(pod)
        if ended is not None:
            return parse_last_report(ended) or memory.report
        at = running_address(pod)
        if at is not None and self.clock() >= memory.due:
            await self.poll(at, memory)
        return memory.report

    async def poll(self, address: str, memory: RunMemory) -> bool:
        """Poll a load generator; return whether its report is worth a new plan."""
        before = memory.report
        memory.report = await self.loadgen.report(address) or before
        loaded = progress_under_load(memory.report) is not None
        memory.due = self.clock() + (_POLL_SECONDS if loaded else _POLL_BEFORE_LOAD_SECONDS)
        return loaded or _stage(memory.report) != _stage(before)


def awaits_servers(report: LoadReport | None) -> bool:
    """Return whether a load generator awaits the servers of a further repeat."""
    progress = None if report is None else report.progress
    return progress is not None and progress.stage == "WaitingForRestart"


def _is_queued(status: RunStatus) -> bool:
    accepted = find_condition(status, "Accepted")
    return accepted is not None and accepted.reason == "Queued"


def _of_this_attempt(
    status: RunStatus,
    children: Mapping[ChildRole, Json | None],
    pods: tuple[Json, ...],
    sightings: Sightings,
) -> tuple[Json, ...]:
    """Return the pods without those of an earlier attempt of the run, which never disappear."""
    jobs = {each["metadata"].get("uid") for each in children.values() if each is not None}
    started = parse_time(status.start_time)
    return tuple(
        pod
        for pod in pods
        if controller_of(pod).get("uid") in jobs
        or not is_left_behind(pod, sightings[pod["metadata"]["uid"], "created"], started)
    )


def _lacks_pods(children: Mapping[ChildRole, Json | None], pods: tuple[Json, ...]) -> bool:
    """Return whether a Job counts pods that have ended, and none of its pods is known."""
    known = {component(pod) for pod in pods}
    ended = (
        of
        for job, of in jobs_with_components(children)
        if (job.get("status") or {}).keys() & {"failed", "succeeded"}
    )
    return any(of not in known for of in ended)


def _lacks_node(pods: tuple[Json, ...]) -> bool:
    """Return whether the scheduler is known to have found no node for a load pod."""
    return any(
        condition(pod, "PodScheduled").get("status") == "False" and not node(pod)
        for pod in load_pods(pods)
    )


def _has_load_service(run: Json) -> bool:
    load = (run.get("spec") or {}).get("load") or {}
    receives_spans = (load.get("tracing") or {}).get("receiverPort") is not None
    return receives_spans or load.get("workers", 1) not in {None, 1}


def load_pods(pods: Iterable[Json]) -> list[Json]:
    """Return the load pods among a run's pods."""
    return [pod for pod in pods if component(pod) == LOADGEN]


def ending(pod: Json) -> Json | None:
    """Return how the pod's container ended, None while it has not."""
    ended: Json | None = (main_container(pod).get("state") or {}).get("terminated")
    return ended


def parse_last_report(ended: Json) -> LoadReport | None:
    """Return the report in a load generator's termination message, or None."""
    try:
        return LoadReport.read_json(ended.get("message") or "")
    except ValidationError:
        return None


def _stage(report: LoadReport | None) -> str | None:
    return None if report is None or report.progress is None else report.progress.stage
