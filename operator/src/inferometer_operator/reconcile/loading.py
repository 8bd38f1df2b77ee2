"""How far is the load generator: made, started, over, or lost?"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from inferometer_api.plan.launch import load_plan
from inferometer_api.plan.load_plan import LoadPlan, PlannedServer
from inferometer_operator.manifests.fleet_service import fleet_service, planned_fleet
from inferometer_operator.manifests.load_job import (
    credentials_of,
    inputs_path,
    load_job,
    trace_paths,
)
from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.manifests.plan_map import plan_map
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.case import Case, deleting, owner_of
from inferometer_operator.reconcile.children_faults import (
    failed_mount,
    refused_child,
    refused_pods,
    refused_to_job,
)
from inferometer_operator.reconcile.conditions import condition
from inferometer_operator.reconcile.faults import Asked, Fault, fault, pod_fault
from inferometer_operator.reconcile.metering import Metering, metering
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import load_pods
from inferometer_operator.reconcile.plan import Target
from inferometer_operator.reconcile.serving import Serving, job_was_seen, planned_uids
from inferometer_operator.reconcile.times import later

Stage = Literal["absent", "starting", "running", "over", "lost"]
_AGENT_SECONDS = 2.0
"""How often it is seen whether an agent that starts is ready: nobody tells."""
_HAD_STARTED = {"Preparing", "Measuring", "Stopping", "Ended"}


@dataclass(frozen=True, slots=True)
class Loading:
    """How far the load generator is."""

    stage: Stage
    """absent: never made; over: it has ended and its log can be read; lost: there is no log."""
    pod: Json | None = None
    fault: Fault | None = None
    end: pods.Ended | None = None
    """How it ended, where it is over."""

    @property
    def pod_name(self) -> str:
        """The name of its pod, empty where it has none."""
        return "" if self.pod is None else pods.name(self.pod)


@dataclass(frozen=True, slots=True)
class LoadChildren:
    """The load generator's plan and Job, where they are still to be made."""

    make: tuple[Manifest, ...] = ()
    delete: tuple[Target, ...] = ()
    fault: Fault | None = None
    again: datetime | None = None
    """When to look again, where they are kept back for now."""


def loading(case: Case) -> Loading:
    """Return how far the load generator of a run that has begun is."""
    # The first one: a second one would measure again, and nobody asks it. Of a fleet that of index
    # 0 speaks for all.
    masters = (pod for pod in load_pods(case) if pods.completion_index(pod) == 0)
    pod = min(masters, key=_made, default=None)
    return _without_pod(case, case.observed.job) if pod is None else _with_pod(case, pod)


def _with_pod(case: Case, pod: Json) -> Loading:
    main = pods.main_container(pod)
    if "terminated" in (main.get("state") or {}):
        return Loading("over", pod, end=pods.last_end(main))
    found = pod_fault(pod, asked_of_load(case), case.now)
    if pods.is_over(pod):
        return _lost(found or _gone(f"The load generator's pod {pods.name(pod)} is over"), pod)
    if deleting(pod) and (found is None or not found.ends):
        found = _gone(f"The load generator's pod {pods.name(pod)} was deleted by someone else")
    if pods.has_started(pod):
        return Loading("running", pod, found or _absent_worker(case))
    if found is not None and found.ends:
        return _lost(found, pod)
    return Loading("starting", pod, found or _no_volumes(case, pod))


def _absent_worker(case: Case) -> Fault | None:
    """Return why a worker of a fleet does not start; once it has, the load generator tells."""
    asked = replace(asked_of_load(case), who="worker")
    workers = (pod for pod in load_pods(case) if pods.completion_index(pod) > 0)
    waiting = (pod for pod in workers if not pods.has_started(pod) and pods.is_live(pod))
    faults = (pod_fault(pod, asked, case.now) or _no_volumes(case, pod) for pod in waiting)
    return next((found for found in faults if found is not None), None)


def _no_volumes(case: Case, pod: Json) -> Fault | None:
    words = failed_mount(case.observed.events, pods.uid(pod)) if pods.node(pod) else None
    if words is None:
        return None
    found = f"The load generator's pod {pods.name(pod)} has no volumes yet: {words}"
    return fault("ContainerNotStarted", found)


def load_children(case: Case, served: Serving) -> LoadChildren:
    """Return what is to be made so that the servers are measured, once and never again."""
    if not served.servers:
        return LoadChildren()
    held = case.observed.plan_map
    seen = job_was_seen(case)
    if seen and (held is not None or any(map(pods.has_started, load_pods(case)))):
        return LoadChildren()
    uids = frozenset(server.pod_uid for server in served.servers if server.pod_uid)
    if held is not None and planned_uids(held) != uids:
        # Made before its server pods were replaced, and nobody has read it.
        uid = str(held["metadata"]["uid"])
        gone = () if deleting(held) else (Target("ConfigMap", case.load, uid),)
        return LoadChildren(delete=gone)
    owner = owner_of(case)
    plan: tuple[Manifest, ...] = ()
    if held is None:
        found = metering(case, served.servers)
        if found.until is not None and case.now < found.until and not served.ready:
            return LoadChildren(again=min(found.until, later(case.now, _AGENT_SECONDS)))
        plan = (plan_map(_plan(case, served.servers, found), owner),)
    # Where the Job came to be without its plan, its pod waits for it.
    fleet = (fleet_service(owner),) if case.run.spec.load.workers > 1 else ()
    make = plan if seen else (*plan, *fleet, load_job(case.run, owner, case.settings))
    told = (
        refused_child(case, child, refusal, "")
        for child, refusal in case.observed.refused.items()
        if child in {f"Job/{case.load}", f"ConfigMap/{case.load}", f"Service/{case.fleet}"}
    )
    return LoadChildren(make=make, fault=next(told, None))


def _plan(case: Case, servers: tuple[PlannedServer, ...], found: Metering) -> LoadPlan:
    return load_plan(
        case.run,
        place="Cluster",
        servers=servers,
        model_sha256=case.run.spec.model.sha256,
        inputs_file=inputs_path(case.run),
        trace_files=trace_paths(case.run),
        credentials=credentials_of(case.run),
        fleet=planned_fleet(case.run, owner_of(case)),
        agents=found.agents,
        unmetered=found.unmetered,
        run_id=case.uid,
        stop_token=case.token,
    )


def asked_of_load(case: Case) -> Asked:
    """Return what was asked for the load pod."""
    resources = case.settings.load.resources
    words = f"cpu {resources.cpu}, memory {resources.memory}"
    return Asked("load generator", words, restarts=False)


def _without_pod(case: Case, job: Json | None) -> Loading:
    if not job_was_seen(case):
        return Loading("absent")
    if job is None or deleting(job):
        return _lost(_gone(f"The Job {case.load} was deleted by someone else"))
    status = job.get("status") or {}
    ended = any(
        each.get("type") in {"Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"}
        and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    told = condition(case.before, "Measuring")
    had_started = told is not None and told.reason in _HAD_STARTED
    if ended or status.get("failed") or status.get("succeeded") or had_started:
        return _lost(_gone(f"The pod of the Job {case.load} is gone, and its log with it"))
    words = refused_to_job(case.observed.events, job)
    asked = f", which asks for {asked_of_load(case).resources}"
    refused = None if words is None else refused_pods("load generator", words, asked)
    return Loading("starting", fault=refused)


def _lost(found: Fault, pod: Json | None = None) -> Loading:
    return Loading("lost", pod, Fault(found.reason, found.message, ends=True))


def _gone(found: str) -> Fault:
    return fault("LoadPodLost", found)


def _made(pod: Json) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")
