"""Is the server there: made, bound to its nodes, addressed, ready, and still the same?"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from inferometer_api.plan.cluster_objects import GRPC_PORT, HTTP_PORT
from inferometer_api.plan.load_plan import PlannedServer
from inferometer_api.spec.server import Server
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.plan_map import PLAN_FILE
from inferometer_operator.manifests.server_deployment import server_deployment
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.case import Case, deleting, owner_of
from inferometer_operator.reconcile.children_faults import (
    failed_mount,
    refused_child,
    refused_pods,
    refused_to_replica_set,
    replica_failure,
)
from inferometer_operator.reconcile.conditions import condition
from inferometer_operator.reconcile.faults import Asked, Fault, disrupted, fault, pod_fault
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import load_pods, server_pods
from inferometer_operator.reconcile.times import read

_SAY_MORE = {"OutOfMemory", "Evicted", "NodeLost", "PodRefused"}
"""Faults that explain why a server ended."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How far the server is."""

    fault: Fault | None = None
    servers: tuple[PlannedServer, ...] = ()
    """Where every server is; empty until each has a node and an address."""
    ready: bool = False
    make: tuple[Manifest, ...] = ()


def serving(case: Case) -> Serving:
    """Return how far the server of a run that has begun is."""
    return _launched(case) if case.launched else _external(case)


def job_was_seen(case: Case) -> bool:
    """Whether the run's Job was made: then it is never made again.

    Told by the cluster, or by a condition that is written only once the Job was seen.
    """
    if case.observed.job is not None or load_pods(case):
        return True
    measuring = condition(case.before, "Measuring")
    return measuring is not None and measuring.status != "Unknown"


def leads_anywhere(service: Json | None) -> bool:
    """Whether a Service has no pods behind it, but any name of its author's choice."""
    return service is not None and (service.get("spec") or {}).get("type") == "ExternalName"


def _external(case: Case) -> Serving:
    external = case.run.spec.server.external
    if external is None or external.url is not None:
        url = "" if external is None else str(external.url)
        return Serving(servers=(PlannedServer(url=url),))
    target = external.service
    if target is None or (case.observed.service is None and not job_was_seen(case)):
        name = "" if target is None else target.name
        return Serving(
            fault=fault(
                "ServiceNotFound",
                f"The External server is behind the Service {name}, which does not exist in the "
                f"namespace {case.namespace}",
            )
        )
    if leads_anywhere(case.observed.service):
        found = f"The Service {target.name} became one of type ExternalName"
        return Serving(fault=fault("NotAllowed", found))
    host = f"{target.name}.{case.namespace}.svc"
    return Serving(servers=(PlannedServer(url=f"{_scheme(case)}://{host}:{target.port}"),))


def _launched(case: Case) -> Serving:
    deployment = case.observed.deployment
    child = f"Deployment/{case.server}"
    if deployment is None or deleting(deployment):
        if job_was_seen(case) or deployment is not None:
            gone = f"The Deployment {case.server} was deleted while the run needed it"
            return Serving(fault=fault("ServerDeleted", gone))
        refusal = case.observed.refused.get(child)
        told = None if refusal is None else refused_child(case, child, refusal, _asks(case))
        make = server_deployment(case.run, owner_of(case), case.settings)
        return Serving(fault=told, make=(make,))
    live = tuple(pod for pod in server_pods(case) if pods.is_live(pod))
    return Serving(
        fault=_replaced(case) or _pods_fault(case) or _no_pods(case, deployment, live),
        servers=_planned(case, live),
        ready=len(live) == _server(case).replicas and all(map(pods.is_ready, live)),
    )


def _planned(case: Case, live: tuple[Json, ...]) -> tuple[PlannedServer, ...]:
    whole = len(live) == _server(case).replicas
    if not whole or not all(pods.node(pod) and pods.address(pod) for pod in live):
        return ()
    return tuple(_planned_server(case, pod) for pod in sorted(live, key=pods.name))


def _planned_server(case: Case, pod: Json) -> PlannedServer:
    address = pods.address(pod)
    host = f"[{address}]" if ":" in address else address
    port = GRPC_PORT if case.run.spec.load.protocol == "GRPC" else HTTP_PORT
    return PlannedServer(
        url=f"{_scheme(case)}://{host}:{port}",
        pod=pods.name(pod),
        pod_uid=pods.uid(pod),
        node=pods.node(pod),
        quality_of_service=str(pods.status(pod).get("qosClass") or ""),
    )


def planned_uids(plan_map: Json | None) -> frozenset[str]:
    """Return the UIDs of the server pods that a plan names; none where there is no plan."""
    try:
        plan = json.loads(((plan_map or {}).get("data") or {}).get(PLAN_FILE, ""))
        uids = {server.get("podUid", "") for server in plan["servers"]}
    except (ValueError, TypeError, KeyError, AttributeError):
        return frozenset()
    return frozenset(uids - {""})


def _replaced(case: Case) -> Fault | None:
    """Return that a server which the load generator was told of is not the same any more."""
    if not job_was_seen(case):
        return None
    planned = planned_uids(case.observed.plan_map)
    found = {pods.uid(pod): pod for pod in server_pods(case)}
    for uid in sorted(planned):
        pod = found.get(uid)
        if pod is None:
            return fault("ServerReplaced", "A server pod that the plan names is gone")
        if deleting(pod):
            # How its containers end is no fault of theirs; an eviction says more.
            words = f"The server pod {pods.name(pod)} was deleted by someone else"
            return disrupted(pod, asked_of_server(case), case.now) or fault("ServerReplaced", words)
        name, end = pods.name(pod), _ended_since_ready(case, pod)
        shown = pod_fault(pod, asked_of_server(case), case.now)
        if shown is not None and shown.ends and (end is None or shown.reason in _SAY_MORE):
            return shown
        if end is not None:
            words = f". Its last lines:\n{end.message}\n" if end.message else "."
            return fault("ServerEnded", f"The server in pod {name} ended by code {end.code}{words}")
    return None


def _ended_since_ready(case: Case, pod: Json) -> pods.Ended | None:
    """Return how a server ended that had been ready, None where it has not.

    A server may crash before it is ready, and be started again: that is no fault of the
    measurement.
    """
    end = pods.last_end(pods.main_container(pod))
    ready = condition(case.before, "ServerReady")
    if end is None or ready is None or ready.status != "True":
        return None
    since = read(ready.last_transition_time)
    late = end.at is None or since is None or end.at >= since
    return end if late or not pods.is_ready(pod) else None


def _pods_fault(case: Case) -> Fault | None:
    """Return the worst that a server pod shows: what ends the run before what may heal."""
    asked = asked_of_server(case)
    faults = [found for pod in server_pods(case) if (found := _fault_of(case, pod, asked))]
    return min(faults, key=lambda found: not found.ends, default=None)


def _fault_of(case: Case, pod: Json, asked: Asked) -> Fault | None:
    if deleting(pod):
        # How its containers end is no fault of theirs.
        return disrupted(pod, asked, case.now)
    found = pod_fault(pod, asked, case.now)
    if found is not None or not pods.node(pod) or pods.has_started(pod):
        return found
    words = failed_mount(case.observed.events, pods.uid(pod))
    if words is None:
        return None
    return fault("ContainerNotStarted", f"The server's pod has no volumes yet: {words}")


def _no_pods(case: Case, deployment: Json, live: tuple[Json, ...]) -> Fault | None:
    if len(live) >= _server(case).replicas:
        return None
    words = replica_failure(deployment)
    if words is None and not live:
        words = refused_to_replica_set(case.observed.events, deployment)
    return None if words is None else refused_pods("server", words, _asks(case))


def asked_of_server(case: Case) -> Asked:
    """Return what was asked for each server pod."""
    server = _server(case)
    gpu = server.gpu
    words = [f"cpu {server.resources.cpu}", f"memory {server.resources.memory}"]
    if gpu is not None:
        words.append(f"{gpu.count} {gpu.resource}")
    if server.placement.node_selector:
        words.append(f"nodes with {_labels(server.placement.node_selector)}")
    return Asked("server", ", ".join(words), gpu="" if gpu is None else gpu.resource)


def _asks(case: Case) -> str:
    return f", which asks for {asked_of_server(case).resources}"


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _server(case: Case) -> Server:
    return case.run.spec.server


def _scheme(case: Case) -> str:
    load = case.run.spec.load
    scheme = "grpc" if load.protocol == "GRPC" else "http"
    return scheme if load.tls is None else f"{scheme}s"
