"""Which pods and ConfigMaps are a run's own? Labels anyone may write; the controller counts."""

import re

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.context import ReconcileContext, controller_of
from inferometer_operator.reconcile.observed import Json


def own_pods(context: ReconcileContext) -> tuple[Json, ...]:
    """Return the run's pods, of server and load, those too that are over or being deleted."""
    return (*server_pods(context), *load_pods(context))


def server_pods(context: ReconcileContext) -> tuple[Json, ...]:
    """Return the run's server pods: those of a ReplicaSet of its Deployment."""
    return tuple(
        pod
        for pod in context.observed.pods
        if pods.component(pod) == SERVER and is_replica_set_of(_replica_set(pod), context.server)
    )


def load_pods(context: ReconcileContext) -> tuple[Json, ...]:
    """Return the run's load pods, those of its Job: there is never more than one of an index."""
    return tuple(
        pod
        for pod in context.observed.pods
        if pods.component(pod) == LOADGEN and _is_of_job(context, controller_of(pod))
    )


def own_result_maps(context: ReconcileContext) -> dict[str, Json]:
    """Return the ConfigMaps of the run's result, by name."""
    return {
        str(each["metadata"]["name"]): each
        for each in context.observed.result_maps
        if context.owns(each)
    }


def is_replica_set_of(name: str, deployment: str) -> bool:
    """Whether a Deployment calls its ReplicaSets so: by its own name and a hash."""
    return re.fullmatch(f"{re.escape(deployment)}-[a-z0-9]+", name) is not None


def _replica_set(pod: Json) -> str:
    owner = controller_of(pod)
    return str(owner.get("name", "")) if owner.get("kind") == "ReplicaSet" else ""


def _is_of_job(context: ReconcileContext, owner: Json) -> bool:
    job = context.observed.job
    same = job is None or owner.get("uid") == job["metadata"].get("uid")
    return owner.get("kind") == "Job" and owner.get("name") == context.load and same
