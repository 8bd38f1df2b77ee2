"""State of the server: its Job, pods, addresses, and whether it is still the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from inferometer_api.plan.load_plan import PlannedServer, StartEvidence
from inferometer_api.spec.resolve import restarts_server
from inferometer_api.spec.server import Server
from inferometer_operator.manifests.config_maps import PLAN_FILE
from inferometer_operator.manifests.inference_service import inference_service
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.manifests.workload import SERVER_PODS, add_to_pods
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.child_faults import (
    child_fault,
    has_ended,
    mount_failure,
    pod_create_failure,
    pod_creation_fault,
)
from inferometer_operator.reconcile.children import deletion_targets
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting, repeat_of
from inferometer_operator.reconcile.external_service import late_until, misdirection
from inferometer_operator.reconcile.faults import (
    PodRequest,
    RunFault,
    disruption_fault,
    make_fault,
    pod_fault,
)
from inferometer_operator.reconcile.inference_service import (
    inference_fault,
    predictor_address,
)
from inferometer_operator.reconcile.observed import ChildRole, Json
from inferometer_operator.reconcile.plan import DeletionTarget
from inferometer_operator.reconcile.pods import load_pods, server_pods
from inferometer_operator.reconcile.server_start import start_evidence
from inferometer_operator.reconcile.workload_state import pod_additions

_SAY_MORE = {"OutOfMemory", "Evicted", "NodeLost", "PodRefused"}
"""Faults that explain the end of a server better than its exit code."""


@dataclass(frozen=True, slots=True)
class ServerProgress:
    """State of the server."""

    fault: RunFault | None = None
    servers: tuple[PlannedServer, ...] = ()
    """Every server's address; empty until each has a node and an address, and for cold starts
    until each is ready."""
    ready: bool = False
    create: tuple[Manifest, ...] = ()
    delete: tuple[DeletionTarget, ...] = ()


def server_state(context: ReconcileContext) -> ServerProgress:
    """Return the state of the server of a run that has begun."""
    return _launched(context) if context.is_launched else _external(context)


def job_was_created(context: ReconcileContext) -> bool:
    """Return whether the run's Job was ever created: then it is never created again.

    Known from the cluster, from a condition that is written only once the Job exists, or from the
    record that stands for it.
    """
    observed = context.observed
    if observed.load_job is not None or load_pods(context) or observed.children.get("begun"):
        return True
    measuring = context.draft.find("Measuring")
    return measuring is not None and measuring.status != "Unknown"


def missing_port(service: Json | None, port: int) -> str:
    """Return that a Service does not have a port, and which it has; empty if it may have it.

    The name of a headless Service leads to its pods, whose ports it need not list.
    """
    if service is None or "ports" not in service["spec"]:
        return ""
    spec = service["spec"]
    listed = [each for each in spec["ports"] if each.get("protocol", "TCP") == "TCP"]
    if spec.get("clusterIP") == "None" or port in [each["port"] for each in listed]:
        return ""
    found = ", ".join(
        f"{each['port']} ({each['name']})" if each.get("name") else str(each["port"])
        for each in listed
    )
    name = service["metadata"]["name"]
    return f"The Service {name} has no TCP port {port}; it has {found or 'none'}."


def _external(context: ReconcileContext) -> ServerProgress:
    external = context.run.spec.server.external
    if external is None or external.url is not None:
        url = "" if external is None else str(external.url)
        return ServerProgress(servers=(PlannedServer(url=url),))
    target = external.service
    if target is None or (context.observed.service is None and not job_was_created(context)):
        name = "" if target is None else target.name
        return ServerProgress(
            fault=make_fault(
                "ServiceNotFound",
                f"The Service {name} of the External server does not exist in the namespace "
                f"{context.namespace}",
            )
        )
    observed = context.observed
    wrong = misdirection(observed.service, observed.behind_service, context.namespace)
    if wrong:
        found = f"The Service {target.name} became one {wrong}"
        fault, late = make_fault("NotAllowed", found), late_until(context)
        if late is not None and context.now < late:
            fault = replace(fault, ends=False, until=late)
        return ServerProgress(fault=fault)
    if found := missing_port(observed.service, target.port):
        return ServerProgress(fault=make_fault("ServicePortNotFound", found))
    host = f"{target.name}.{context.namespace}.svc"
    return ServerProgress(
        servers=(PlannedServer(url=f"{_scheme(context)}://{host}:{target.port}"),)
    )


def _launched(context: ReconcileContext) -> ServerProgress:
    owner = context.observed.server_owner
    if context.is_between_servers:
        return _replacement(context, owner)
    if owner is None or is_deleting(owner):
        if _may_be_between_servers(context):
            return ServerProgress()
        if job_was_created(context) or owner is not None:
            gone = f"The {context.server_kind} {context.server} was deleted while the run needed it"
            return ServerProgress(fault=make_fault("ServerDeleted", gone))
        return _creation(context)
    live = tuple(pod for pod in server_pods(context) if pods.is_live(pod))
    return ServerProgress(
        fault=_replaced(context) or _pods_fault(context) or _no_pods(context, owner, live),
        servers=_planned(context, live),
        ready=len(live) == _server(context).replicas and all(map(pods.is_ready, live)),
    )


def _creation(context: ReconcileContext, repeat: int = 1) -> ServerProgress:
    """Return what starts the server of a repeat, and why it was refused before."""
    child = f"{context.server_kind}/{context.server}"
    refusal = context.observed.refused.get(child)
    fault = None if refusal is None else child_fault(context, child, refusal, _requests(context))
    additions = pod_additions(context, SERVER_PODS)
    if additions is None:
        return ServerProgress(fault=fault)
    nodes = planned_nodes(context.observed.plan_map) if repeat > 1 else ()
    job = add_to_pods(
        server_job(context.run, context.owner, context.settings, repeat=repeat, nodes=nodes),
        additions,
    )
    make = inference_service(job, context.owner) if context.uses_kserve else job
    return ServerProgress(fault=fault, create=(make,))


def _replacement(context: ReconcileContext, owner: Json | None) -> ServerProgress:
    """Return what is left to do until the server of the awaited repeat is there.

    The next server starts once the pods of the last one are gone: it may need what they hold, and
    two servers would not be measured alike. The last one stays while a run that was admitted before
    waits for nodes: it would take this one's.
    """
    if owner is not None and context.observed.queue_position.others_await_nodes:
        return ServerProgress()
    if owner is not None:
        role: ChildRole = "inference" if context.uses_kserve else "server"
        return ServerProgress(delete=deletion_targets([(role, owner)]))
    if any(context.now < context.gone_deadline(pod) for pod in server_pods(context)):
        return ServerProgress()
    return _creation(context, context.awaited_repeat or 1)


def _may_be_between_servers(context: ReconcileContext) -> bool:
    """Return whether the load generator has not yet said what it awaits.

    An operator that has just started may not have reached it: its server may be replaced.
    """
    report = context.observed.report
    is_unknown = report is None or (report.progress is None and report.outcome is None)
    runs = any(pods.has_started(pod) and not pods.is_over(pod) for pod in load_pods(context))
    return is_unknown and runs and restarts_server(context.run.spec)


def _planned(context: ReconcileContext, live: tuple[Json, ...]) -> tuple[PlannedServer, ...]:
    whole = len(live) == _server(context).replicas
    if context.uses_kserve and not predictor_address(context):
        return ()
    if not whole or not all(pods.node(pod) and pods.address(pod) for pod in live):
        return ()
    if context.run.spec.starts_cold and not all(map(pods.is_ready, live)):
        # The plan has the evidence of the whole start.
        return ()
    return tuple(_planned_server(context, pod) for pod in sorted(live, key=pods.completion_index))


def _planned_server(context: ReconcileContext, pod: Json) -> PlannedServer:
    at = predictor_address(context) if context.uses_kserve else _pod_address(context, pod)
    return PlannedServer(
        url=f"{_scheme(context)}://{at}",
        pod=pods.name(pod),
        pod_uid=pods.uid(pod),
        node=pods.node(pod),
        quality_of_service=str(pods.status(pod).get("qosClass") or ""),
        start=_start(context, pod) if context.run.spec.starts_cold else None,
    )


def _start(context: ReconcileContext, pod: Json) -> StartEvidence:
    is_cached = context.run.spec.model.cache is not None
    return start_evidence(pod, context.observed.pulls, is_cached=is_cached)


def _pod_address(context: ReconcileContext, pod: Json) -> str:
    address = pods.address(pod)
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{context.server_port}"


def planned_nodes(plan_map: Json | None) -> tuple[str, ...]:
    """Return the nodes of the servers in a plan, each once; none without a plan."""
    nodes = (str(server.get("node") or "") for server in _planned_servers(plan_map))
    return tuple(dict.fromkeys(node for node in nodes if node))


def planned_pod_uids(plan_map: Json | None) -> frozenset[str]:
    """Return the UIDs of the server pods in a plan; none without a plan."""
    return frozenset({str(each.get("podUid") or "") for each in _planned_servers(plan_map)} - {""})


def _planned_servers(plan_map: Json | None) -> list[Json]:
    try:
        plan = json.loads(((plan_map or {}).get("data") or {}).get(PLAN_FILE, ""))
        return [each for each in plan["servers"] if isinstance(each, dict)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _measured_pod_uids(context: ReconcileContext) -> frozenset[str]:
    """Return the UIDs of the server pods that are measured now.

    Those of the first repeat stand in the plan, and the load generator reports those of a further
    one. Once it has ended, all of the Job's count.
    """
    owner, report = context.observed.server_owner, context.observed.report
    repeat = 1 if owner is None else repeat_of(owner)
    if repeat == 1:
        return planned_pod_uids(context.observed.plan_map)
    progress = None if report is None else report.progress
    if progress is None:
        return frozenset(map(pods.uid, server_pods(context)))
    is_taken = progress.repeat == repeat and progress.stage != "WaitingForRestart"
    return frozenset(progress.server_pods) if is_taken else frozenset()


def _replaced(context: ReconcileContext) -> RunFault | None:
    """Return the fault if a server that is measured is no longer the same."""
    if not job_was_created(context):
        return None
    planned = _measured_pod_uids(context)
    found = {pods.uid(pod): pod for pod in server_pods(context)}
    # If one server ends, the Job deletes the others: its end explains theirs.
    for uid in sorted(planned, key=lambda uid: (not _has_failed(found.get(uid)), uid)):
        pod = found.get(uid)
        if pod is None:
            return make_fault("ServerReplaced", "A server pod that is measured is gone")
        if is_deleting(pod):
            # The exit of its containers explains nothing; an eviction does.
            words = f"The server pod {pods.name(pod)} was deleted by another client"
            return disruption_fault(pod, server_pod_request(context)) or make_fault(
                "ServerReplaced", words
            )
        name, end = pods.name(pod), pods.last_end(pods.main_container(pod))
        if not context.draft.is_true("ServerReady"):
            end = None
        shown = pod_fault(context, pod, server_pod_request(context))
        if shown is not None and shown.ends and (end is None or shown.reason in _SAY_MORE):
            return shown
        if end is not None:
            words = f". Its last lines:\n{end.message}\n" if end.message else "."
            return make_fault(
                "ServerEnded", f"The server in pod {name} exited with code {end.code}{words}"
            )
    return None


def _has_failed(pod: Json | None) -> bool:
    return pod is not None and pods.is_over(pod) and not is_deleting(pod)


def _pods_fault(context: ReconcileContext) -> RunFault | None:
    """Return the worst fault of the server pods: a permanent one before a transient one."""
    request = server_pod_request(context)
    faults = [found for pod in server_pods(context) if (found := _fault_of(context, pod, request))]
    return min(faults, key=lambda found: not found.ends, default=None)


def _fault_of(context: ReconcileContext, pod: Json, request: PodRequest) -> RunFault | None:
    if is_deleting(pod):
        # The exit of its containers explains nothing.
        return disruption_fault(pod, request)
    found = pod_fault(context, pod, request)
    if found is not None or not pods.node(pod) or pods.has_started(pod):
        return found
    words = mount_failure(context.observed.events, pods.uid(pod))
    if words is None:
        return None
    return make_fault("ContainerNotStarted", f"The server's pod has no volumes yet: {words}")


def _no_pods(context: ReconcileContext, owner: Json, live: tuple[Json, ...]) -> RunFault | None:
    if len(live) >= _server(context).replicas:
        return None
    if context.uses_kserve:
        return inference_fault(context, owner, _requests(context))
    if has_ended(owner):
        return make_fault("ServerReplaced", f"A pod of the Job {context.server} is gone")
    words = pod_create_failure(context.observed.events, owner)
    return None if words is None else pod_creation_fault("server", words, _requests(context))


def server_pod_request(context: ReconcileContext) -> PodRequest:
    """Return what each server pod requests."""
    server = _server(context)
    gpu = server.gpu
    words = [f"cpu {server.resources.cpu}", f"memory {server.resources.memory}"]
    if gpu is not None:
        words.append(f"{gpu.count} {gpu.resource}")
    return PodRequest(
        "server",
        ", ".join(words),
        gpu="" if gpu is None else gpu.resource,
        nodes=_labels(server.placement.node_selector),
    )


def _requests(context: ReconcileContext) -> str:
    request = server_pod_request(context)
    labels = f", nodes with {request.nodes}" if request.nodes else ""
    return f", which requests {request.resources}{labels}"


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _server(context: ReconcileContext) -> Server:
    return context.run.spec.server


def _scheme(context: ReconcileContext) -> str:
    load = context.run.spec.load
    scheme = "grpc" if load.protocol == "GRPC" else "http"
    return scheme if load.tls is None else f"{scheme}s"
