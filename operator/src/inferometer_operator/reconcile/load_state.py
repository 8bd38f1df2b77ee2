"""State of the load generator: absent, starting, running, over or lost."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import LoadPlan, PlannedServer
from inferometer_operator.manifests.config_maps import plan_config_map
from inferometer_operator.manifests.load_job import (
    credentials_of,
    inputs_path,
    load_job,
    manifest_path,
    trace_paths,
)
from inferometer_operator.manifests.load_service import load_service, planned_fleet
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.workload import LOAD_PODS, add_to_pods
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.agent_assignment import AgentAssignment, assign_agents
from inferometer_operator.reconcile.child_faults import (
    child_fault,
    has_ended,
    mount_failure,
    pod_create_failure,
    pod_creation_fault,
)
from inferometer_operator.reconcile.children import deletion_targets
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting
from inferometer_operator.reconcile.faults import PodRequest, RunFault, make_fault, pod_fault
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget
from inferometer_operator.reconcile.pods import job_was_created, load_pods, master_pod
from inferometer_operator.reconcile.server_faults import planned_pod_uids
from inferometer_operator.reconcile.server_state import ServerProgress
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.reconcile.workload_state import pod_additions

Stage = Literal["absent", "starting", "running", "over", "lost"]
_AGENT_SECONDS = 2.0
"""How often to look whether a starting agent is ready: no watch reports it."""
_HAD_STARTED = {"Preparing", "Measuring", "Stopping", "Ended"}


@dataclass(frozen=True, slots=True)
class LoadState:
    """State of the load generator."""

    stage: Stage
    """absent: never created; over: it has ended and its log can be read; lost: there is no log."""
    pod: Json | None = None
    fault: RunFault | None = None
    end: pods.ContainerExit | None = None
    """How it ended, if it is over."""

    @property
    def pod_name(self) -> str:
        """The name of its pod, or an empty string."""
        return "" if self.pod is None else pods.name(self.pod)


@dataclass(frozen=True, slots=True)
class LoadChildren:
    """The load generator's plan, Service and Job, if they are still to be created."""

    create: tuple[Manifest, ...] = ()
    delete: tuple[DeletionTarget, ...] = ()
    fault: RunFault | None = None
    again: datetime | None = None
    """When to look again, if their creation is postponed."""


def load_state(context: ReconcileContext) -> LoadState:
    """Return the state of the load generator of a run that has begun."""
    pod = master_pod(load_pods(context))
    return _without_pod(context) if pod is None else _with_pod(context, pod)


def _with_pod(context: ReconcileContext, pod: Json) -> LoadState:
    main = pods.main_container(pod)
    if "terminated" in (main.get("state") or {}):
        return LoadState("over", pod, end=pods.last_end(main))
    found = pod_fault(context, pod, load_pod_request(context))
    if pods.is_over(pod):
        return _lost(found or _gone(f"The load generator's pod {pods.name(pod)} is over"), pod)
    if is_deleting(pod) and (found is None or not found.ends):
        found = _gone(f"The load generator's pod {pods.name(pod)} was deleted by another client")
    if pods.has_started(pod):
        return LoadState("running", pod, found or _absent_worker(context))
    if found is not None and found.ends:
        return _lost(found, pod)
    return LoadState("starting", pod, found or _no_volumes(context, pod))


def _absent_worker(context: ReconcileContext) -> RunFault | None:
    """Return why a worker of a fleet does not start; a started one reports for itself."""
    request = replace(load_pod_request(context), who="worker")
    workers = (pod for pod in load_pods(context) if pods.completion_index(pod) > 0)
    waiting = (pod for pod in workers if not pods.has_started(pod) and pods.is_live(pod))
    faults = (pod_fault(context, pod, request) or _no_volumes(context, pod) for pod in waiting)
    return next((found for found in faults if found is not None), None)


def _no_volumes(context: ReconcileContext, pod: Json) -> RunFault | None:
    words = mount_failure(context.observed.events, pods.uid(pod)) if pods.node(pod) else None
    if words is None:
        return None
    found = f"The load generator's pod {pods.name(pod)} has no volumes yet: {words}"
    return make_fault("ContainerNotStarted", found)


def plan_load_children(context: ReconcileContext, served: ServerProgress) -> LoadChildren:
    """Return the children to create so that the servers are measured, exactly once."""
    if not served.servers:
        return LoadChildren()
    held = context.observed.plan_map
    seen = job_was_created(context)
    if seen and (held is not None or any(map(pods.has_started, load_pods(context)))):
        return LoadChildren()
    uids = frozenset(server.pod_uid for server in served.servers if server.pod_uid)
    if held is not None and planned_pod_uids(held) != uids:
        # Created before its server pods were replaced, and not read by any pod.
        return LoadChildren(delete=deletion_targets([("plan", held)]))
    additions = pod_additions(context, LOAD_PODS)
    if additions is None:
        return LoadChildren(again=add_seconds(context.now, _AGENT_SECONDS))
    owner = context.owner
    plan: tuple[Manifest, ...] = ()
    if held is None:
        found = assign_agents(context, served.servers)
        if found.until is not None and context.now < found.until and not served.ready:
            return LoadChildren(again=min(found.until, add_seconds(context.now, _AGENT_SECONDS)))
        plan = (plan_config_map(_plan(context, served.servers, found), owner),)
    # If the Job exists without its plan, its pod waits for the plan.
    service = load_service(context.run, owner)
    job = add_to_pods(load_job(context.run, owner, context.settings), additions)
    make = plan if seen else (*plan, *filter(None, (service, job)))
    faults = (
        child_fault(context, child, refusal, "")
        for child, refusal in context.observed.refused.items()
        if child
        in {f"Job/{context.load}", f"ConfigMap/{context.load}", f"Service/{context.load_service}"}
    )
    return LoadChildren(create=make, fault=next(faults, None))


def _plan(
    context: ReconcileContext, servers: tuple[PlannedServer, ...], found: AgentAssignment
) -> LoadPlan:
    engine, engines = context.settings.engine_of(context.run.spec)
    return load_plan(
        context.run,
        place="Cluster",
        servers=servers,
        model_sha256=context.run.spec.model.sha256,
        engine_version=engines.get(engine, ""),
        inputs_file=inputs_path(context.run),
        trace_files=trace_paths(context.run),
        manifest_file=manifest_path(context.run),
        credentials=credentials_of(context.run),
        fleet=planned_fleet(context.run, context.owner, context.token),
        agents=found.agents,
        unmetered=found.unmetered,
        load_node_faults=context.observed.load_node_faults,
        run_id=context.uid,
        stop_token=context.token,
    )


def load_pod_request(context: ReconcileContext) -> PodRequest:
    """Return what each load pod requests."""
    resources = context.settings.load.resources
    words = f"cpu {resources.cpu}, memory {resources.memory}"
    return PodRequest("load generator", words)


def _without_pod(context: ReconcileContext) -> LoadState:
    job = context.observed.load_job
    if not job_was_created(context):
        return LoadState("absent")
    if job is None or is_deleting(job):
        return _lost(_gone(f"The Job {context.load} was deleted by another client"))
    measuring = context.draft.find("Measuring")
    had_started = measuring is not None and measuring.reason in _HAD_STARTED
    if has_ended(job) or had_started:
        return _lost(_gone(f"The pod of the Job {context.load} is gone, and its log with it"))
    words = pod_create_failure(context.observed.events, job)
    # The Job may come from an operator with other settings than today's.
    template = (job.get("spec") or {}).get("template") or {}
    requests = f", which requests {load_pod_request(context).of(template)}"
    refused = None if words is None else pod_creation_fault("load generator", words, requests)
    return LoadState("starting", fault=refused)


def _lost(found: RunFault, pod: Json | None = None) -> LoadState:
    return LoadState("lost", pod, RunFault(found.reason, found.message, ends=True))


def _gone(found: str) -> RunFault:
    return make_fault("LoadPodLost", found)
