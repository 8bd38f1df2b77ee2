"""State of the server: its Job, its pods and their addresses."""

from dataclasses import dataclass, replace

from inferometer_api.plan.load_plan import PlannedServer, StartEvidence
from inferometer_api.spec.resolve import restarts_server
from inferometer_operator.manifests.inference_service import inference_service
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.manifests.workload import SERVER_PODS, add_to_pods
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.child_faults import child_fault
from inferometer_operator.reconcile.children import deletion_targets
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting
from inferometer_operator.reconcile.external_service import late_until, misdirection, missing_port
from inferometer_operator.reconcile.faults import RunFault, make_fault
from inferometer_operator.reconcile.inference_service import predictor_address
from inferometer_operator.reconcile.model_manifest import node_requirements
from inferometer_operator.reconcile.observed import ChildRole, Json
from inferometer_operator.reconcile.plan import DeletionTarget
from inferometer_operator.reconcile.pods import job_was_created, load_pods, server_pods
from inferometer_operator.reconcile.server_faults import (
    planned_nodes,
    requests_clause,
    servers_fault,
)
from inferometer_operator.reconcile.server_start import start_evidence
from inferometer_operator.reconcile.workload_state import pod_additions


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
        fault=servers_fault(context, owner, live),
        servers=_planned(context, live),
        ready=len(live) == context.run.spec.server.replicas and all(map(pods.is_ready, live)),
    )


def _creation(context: ReconcileContext, repeat: int = 1) -> ServerProgress:
    """Return what starts the server of a repeat, and why it was refused before."""
    child = f"{context.server_kind}/{context.server}"
    refusal = context.observed.refused.get(child)
    fault = (
        None if refusal is None else child_fault(context, child, refusal, requests_clause(context))
    )
    additions = pod_additions(context, SERVER_PODS)
    if additions is None:
        return ServerProgress(fault=fault)
    nodes = planned_nodes(context.observed.plan_map) if repeat > 1 else ()
    job = add_to_pods(
        server_job(
            context.run,
            context.owner,
            context.settings,
            repeat=repeat,
            nodes=nodes,
            requirements=node_requirements(context),
        ),
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
    whole = len(live) == context.run.spec.server.replicas
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
        cluster_node=context.observed.cluster_nodes.get(pods.node(pod)),
        start=_start(context, pod) if context.run.spec.starts_cold else None,
    )


def _start(context: ReconcileContext, pod: Json) -> StartEvidence:
    is_cached = context.run.spec.model.cache is not None
    return start_evidence(pod, context.observed.pulls, is_cached=is_cached)


def _pod_address(context: ReconcileContext, pod: Json) -> str:
    address = pods.address(pod)
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{context.server_port}"


def _scheme(context: ReconcileContext) -> str:
    load = context.run.spec.load
    scheme = "grpc" if load.protocol == "GRPC" else "http"
    return scheme if load.tls is None else f"{scheme}s"
