"""Observation of a run: reads only what can still change the decision."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_api.plan.load_report import LoadReport
from inferometer_operator.cluster.loadgen_client import LoadgenClient
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.children import child_names
from inferometer_operator.reconcile.conditions import is_true, read_status
from inferometer_operator.reconcile.observed import (
    ChildKind,
    Json,
    ObjectReference,
    Observed,
    QueuePosition,
)
from inferometer_operator.reconcile.pods import (
    address,
    component,
    containers,
    has_started,
    is_live,
    main_container,
    master_pod,
    node,
)
from inferometer_operator.reconcile.progress import progress_under_load
from inferometer_operator.reconcile.references import raw_references
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.endpoints import external_service_name, list_agents, list_backends

_POLL_SECONDS, _POLL_BEFORE_LOAD_SECONDS = 10.0, 1.0
LOOK_SECONDS = 5.0
"""How often a run that does not measure yet is observed: some faults appear in Events alone."""
_MOST_LOGS_REQUESTED = 4
"""Of many pods that hang, the first few explain why."""


@dataclass(slots=True)
class PolledReport:
    """The load generator's last report, and when to poll again."""

    report: LoadReport | None = None
    due: float = 0.0


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads the observed state of runs."""

    reader: Reader
    loadgen: LoadgenClient
    settings: Settings
    clock: Callable[[], float] = time.monotonic

    async def observe(self, run: Json, position: QueuePosition, polled: PolledReport) -> Observed:
        """Return the observed state of the run."""
        status = read_status(run)
        if status.start_time is None:
            return await self._before_begin(run, position)
        metadata = run["metadata"]
        uid, namespace = metadata["uid"], metadata["namespace"]
        children, pods, result_maps = await asyncio.gather(
            self._children(run),
            self.reader.list_pods(namespace, uid),
            self.reader.list_result_maps(namespace, uid),
        )
        load = master_pod(load_pods(pods))
        finished = is_true(status, "Finished")
        to_plan = (
            not finished and children.get("ConfigMap") is None and not (load and has_started(load))
        )
        under_load = progress_under_load(polled.report) is not None
        return Observed(
            queue_position=position,
            children=children,
            pods=pods,
            result_maps=result_maps,
            events=()
            if finished or under_load
            else await self._warnings(namespace, children, pods),
            service=None if finished or load else await self._service(run),
            agents=await list_agents(self.reader, self.settings, run, pods) if to_plan else None,
            behind_service=await list_backends(self.reader, run) if to_plan else None,
            report=None if finished or load is None else await self._report(load, polled),
        )

    async def _before_begin(self, run: Json, position: QueuePosition) -> Observed:
        service, found = await asyncio.gather(self._service(run), self._references(run))
        # An External server exists already: the plan is made as soon as the run begins.
        begins = position.admitted and service is not None
        return Observed(
            queue_position=position,
            service=service,
            references=found,
            agents=await list_agents(self.reader, self.settings, run, ()) if begins else None,
            behind_service=await list_backends(self.reader, run) if begins else None,
        )

    async def _references(self, run: Json) -> dict[ObjectReference, Json | None]:
        namespace = run["metadata"]["namespace"]
        named = [
            each
            for each in raw_references(run)
            if each.kind != "Secret" or self.settings.allow_secrets
        ]
        found = await asyncio.gather(
            *(self.reader.get_metadata(each.kind, namespace, each.name) for each in named)
        )
        return dict(zip(named, found, strict=True))

    async def _children(self, run: Json) -> dict[ChildKind, Json | None]:
        metadata = run["metadata"]
        namespace, uid = metadata["namespace"], metadata["uid"]
        wanted = [
            (kind, name)
            for kind, name in child_names(metadata["name"])
            if kind != "Service" or _is_fleet(run)
        ]
        found = await asyncio.gather(
            *(self.reader.get_child(kind, namespace, name, uid) for kind, name in wanted)
        )
        return {kind: child for (kind, _), child in zip(wanted, found, strict=True)}

    async def _service(self, run: Json) -> Json | None:
        name = external_service_name(run)
        if name is None:
            return None
        found: Json | None = await self.reader.get("Service", run["metadata"]["namespace"], name)
        return found

    async def _warnings(
        self, namespace: str, children: Mapping[ChildKind, Json | None], pods: tuple[Json, ...]
    ) -> tuple[Json, ...]:
        """Return why pods are not created or do not start, if any are missing."""
        deployment, job = children.get("Deployment"), children.get("Job")
        requests = [
            self.reader.list_warnings(namespace, pod["metadata"]["uid"])
            for pod in [pod for pod in pods if _hangs(pod)][:_MOST_LOGS_REQUESTED]
        ]
        components = {component(pod) for pod in pods if is_live(pod)}
        if deployment is not None and SERVER not in components:
            requests.append(
                self.reader.list_replica_set_failures(namespace, deployment["metadata"]["name"])
            )
        if job is not None and LOADGEN not in components:
            requests.append(self.reader.list_warnings(namespace, job["metadata"]["uid"]))
        return tuple(event for found in await asyncio.gather(*requests) for event in found)

    async def _report(self, pod: Json, polled: PolledReport) -> LoadReport | None:
        """Return the load generator's report; after its end, its termination message."""
        ended = ending(pod)
        if ended is not None:
            return parse_last_report(ended) or polled.report
        at = running_address(pod)
        if at is not None and self.clock() >= polled.due:
            await self.poll(at, polled)
        return polled.report

    async def poll(self, address: str, polled: PolledReport) -> bool:
        """Poll a load generator; return whether its report is worth a new plan."""
        before = polled.report
        polled.report = await self.loadgen.report(address) or before
        loaded = progress_under_load(polled.report) is not None
        polled.due = self.clock() + (_POLL_SECONDS if loaded else _POLL_BEFORE_LOAD_SECONDS)
        return loaded or _stage(polled.report) != _stage(before)


def _is_fleet(run: Json) -> bool:
    spec = run.get("spec") or {}
    return (spec.get("load") or {}).get("workers", 1) not in {None, 1}


def load_pods(pods: Iterable[Json]) -> list[Json]:
    """Return the load pods among a run's pods."""
    return [pod for pod in pods if component(pod) == LOADGEN]


def _hangs(pod: Json) -> bool:
    """Return whether a pod is bound to a node, and none of its containers has started."""
    begun = any(
        (each.get("state") or {}).keys() & {"running", "terminated"} for each, _ in containers(pod)
    )
    return bool(node(pod)) and not begun


def ending(pod: Json) -> Json | None:
    """Return how the pod's container ended, None while it has not."""
    ended: Json | None = (main_container(pod).get("state") or {}).get("terminated")
    return ended


def running_address(pod: Json) -> str | None:
    """Return the pod's address while its container runs."""
    runs = (main_container(pod).get("state") or {}).get("running") is not None
    return address(pod) or None if runs else None


def parse_last_report(ended: Json) -> LoadReport | None:
    """Return the report in a load generator's termination message, or None."""
    try:
        return LoadReport.read_json(ended.get("message") or "")
    except ValidationError:
        return None


def _stage(report: LoadReport | None) -> str | None:
    return None if report is None or report.progress is None else report.progress.stage
