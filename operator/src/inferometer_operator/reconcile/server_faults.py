"""Faults of the server pods: one that is measured is gone, one does not start, one is missing."""

import json
from collections.abc import Mapping

from inferometer_operator.manifests.config_maps import PLAN_FILE
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.child_faults import (
    has_ended,
    mount_failure,
    pod_create_failure,
    pod_creation_fault,
)
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting, repeat_of
from inferometer_operator.reconcile.faults import (
    PodRequest,
    RunFault,
    disruption_fault,
    make_fault,
    pod_fault,
)
from inferometer_operator.reconcile.inference_service import inference_fault
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.pods import job_was_created, server_pods

_SAY_MORE = {"OutOfMemory", "Evicted", "NodeLost", "PodRefused"}
"""Faults that explain the end of a server better than its exit code."""


def servers_fault(
    context: ReconcileContext, owner: Json, live: tuple[Json, ...]
) -> RunFault | None:
    """Return the fault of the servers that `owner` created; `live` are the pods that may serve."""
    return _replaced(context) or _pods_fault(context) or _no_pods(context, owner, live)


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
    if len(live) >= context.run.spec.server.replicas:
        return None
    if context.uses_kserve:
        return inference_fault(context, owner, requests_clause(context))
    if has_ended(owner):
        return make_fault("ServerReplaced", f"A pod of the Job {context.server} is gone")
    words = pod_create_failure(context.observed.events, owner)
    return None if words is None else pod_creation_fault("server", words, requests_clause(context))


def server_pod_request(context: ReconcileContext) -> PodRequest:
    """Return what each server pod requests."""
    server = context.run.spec.server
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


def requests_clause(context: ReconcileContext) -> str:
    """Return what each server pod requests, as a clause that follows its name."""
    request = server_pod_request(context)
    labels = f", nodes with {request.nodes}" if request.nodes else ""
    return f", which requests {request.resources}{labels}"


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
