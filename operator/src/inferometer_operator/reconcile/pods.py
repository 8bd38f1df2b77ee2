"""Facts about raw pods, and which of them belong to a run.

Any author may write the labels of a run; the controller decides whose pod it is.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    EXPORTER,
    JOB_INDEX_LABEL,
    LOADGEN,
    SERVER,
)
from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_api.runtimes.kserve import KSERVE_CONTAINER
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile.conditions import load_job_was_created
from inferometer_operator.reconcile.context import ReconcileContext, controller_of, is_deleting
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.times import add_seconds

_MAIN_CONTAINERS = frozenset({SERVER, LOADGEN, KSERVE_CONTAINER})


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How a container ended."""

    container: str
    code: int
    reason: str
    """The kubelet's reason: Completed, Error, OOMKilled, ..."""
    message: str
    """The termination message."""


def component(pod: Json) -> str:
    """Return the component of a pod: server or loadgen."""
    return str((pod["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


def name(pod: Json) -> str:
    """Return a pod's name."""
    return str(pod["metadata"]["name"])


def uid(pod: Json) -> str:
    """Return a pod's UID."""
    return str(pod["metadata"].get("uid", ""))


def node(pod: Json) -> str:
    """Return the node that a pod is bound to, empty before that."""
    return str(_spec(pod).get("nodeName") or "")


def address(pod: Json) -> str:
    """Return a pod's IP address, empty before it has one."""
    return str(status(pod).get("podIP") or "")


def running_address(pod: Json) -> str | None:
    """Return the pod's address while its container runs."""
    runs = (main_container(pod).get("state") or {}).get("running") is not None
    return address(pod) or None if runs else None


def status(pod: Json) -> Json:
    """Return a pod's status."""
    found: Json = pod.get("status") or {}
    return found


def phase(pod: Json) -> str:
    """Return a pod's phase."""
    return str(status(pod).get("phase", "Pending"))


def completion_index(pod: Json) -> int:
    """Return the pod's index in its Job: 0 if the Job has no indices."""
    labels = pod["metadata"].get("labels") or {}
    index = str(labels.get(JOB_INDEX_LABEL, ""))
    return int(index) if index.isdecimal() else 0


def is_over(pod: Json) -> bool:
    """Return whether none of a pod's containers will run again."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_live(pod: Json) -> bool:
    """Return whether a pod is neither over nor being deleted."""
    return not is_over(pod) and not is_deleting(pod)


def condition(pod: Json, kind: str) -> Json:
    """Return a condition of a pod, empty if it has none of that type."""
    found: Json = next(
        (each for each in status(pod).get("conditions") or () if each.get("type") == kind), {}
    )
    return found


def is_ready(pod: Json) -> bool:
    """Return whether a pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


def is_silent(pod: Json) -> bool:
    """Return whether a pod's node is silent: only the cluster reports that of a ready container."""
    inside = condition(pod, "ContainersReady")
    return not is_ready(pod) and inside.get("status") == "True" and not is_deleting(pod)


def containers(pod: Json) -> Iterator[tuple[Json, bool]]:
    """Yield the status of each container, and whether it is an init container.

    The exporter is none of them: it neither measures nor starts or ends anything.
    """
    for each in status(pod).get("initContainerStatuses") or ():
        yield each, True
    for each in status(pod).get("containerStatuses") or ():
        if each.get("name") != EXPORTER:
            yield each, False


def exporter_container(pod: Json) -> Json:
    """Return the status of a load pod's exporter, empty while there is none."""
    found = status(pod).get("containerStatuses") or ()
    return next((each for each in found if each.get("name") == EXPORTER), {})


def main_container(pod: Json) -> Json:
    """Return the status of the server or load generator of a pod, empty while there is none.

    The kubelet orders containers by name: one that a webhook injected may come first.
    """
    found = [each for each, is_init in containers(pod) if not is_init]
    named = (each for each in found if each.get("name") in _MAIN_CONTAINERS)
    return next(named, found[0] if found else {})


def is_placed(run_pods: Collection[Json]) -> bool:
    """Return whether a run has load pods, and none of its pods waits for a node."""
    has_load = any(component(pod) == LOADGEN for pod in run_pods)
    return has_load and all(node(pod) for pod in run_pods if is_live(pod))


def has_started(pod: Json) -> bool:
    """Return whether a pod's container runs or has run."""
    state = main_container(pod).get("state") or {}
    return "running" in state or "terminated" in state


def last_end(container: Json) -> ContainerExit | None:
    """Return how a container ended, None if it has not.

    Only KServe's Deployment restarts one: its last end counts.
    """
    ends = ((container.get(each) or {}).get("terminated") for each in ("state", "lastState"))
    end: dict[str, Any] | None = next((each for each in ends if each is not None), None)
    if end is None:
        return None
    return ContainerExit(
        container=str(container.get("name", "")),
        code=int(end.get("exitCode", 0)),
        reason=str(end.get("reason") or ""),
        message=str(end.get("message") or "").strip(),
    )


def image_digest(pod: Json) -> str:
    """Return the image that a pod's container runs, by digest where the node knows it."""
    container = main_container(pod)
    return str(container.get("imageID") or container.get("image") or "")


def requests(pod: Json) -> str:
    """Return what a pod's one container requests: "cpu 1, memory 2Gi"; empty if it does not say.

    A pod may come from an operator with other settings than today's.
    """
    container: Json = next(iter(_spec(pod).get("containers") or ()), {})
    found: Json = (container.get("resources") or {}).get("requests") or {}
    # Extended resources are named as the node names them.
    return ", ".join(
        f"{amount} {kind}" if "/" in kind else f"{kind} {amount}" for kind, amount in found.items()
    )


def _spec(pod: Json) -> Json:
    found: Json = pod.get("spec") or {}
    return found


def master_pod(load_pods: Iterable[Json]) -> Json | None:
    """Return the load pod that reports for the run, or None if there is none.

    Of a fleet that is the pod of index 0; of several the oldest, because a second one would
    measure again and is never polled.
    """
    masters = (pod for pod in load_pods if completion_index(pod) == 0)
    return min(masters, key=_created, default=None)


def _created(pod: Json) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def own_pods(context: ReconcileContext) -> tuple[Json, ...]:
    """Return the pods of server and load, those that are over or being deleted too."""
    return (*server_pods(context), *load_pods(context))


def server_pods(context: ReconcileContext) -> tuple[Json, ...]:
    """Return the run's server pods: those of the server's Job or InferenceService."""
    if not context.uses_kserve:
        return _pods_of(context, SERVER, context.server, context.observed.server_owner)
    inference = context.observed.inference
    known = frozenset[str]() if inference is None else inference.replica_sets
    return tuple(
        pod
        for pod in context.observed.pods
        if component(pod) == SERVER and controller_of(pod).get("uid") in known
    )


def load_pods(context: ReconcileContext) -> tuple[Json, ...]:
    """Return the run's load pods: those of its Job, at most one per completion index."""
    return _pods_of(context, LOADGEN, context.load, context.observed.load_job)


def job_was_created(context: ReconcileContext) -> bool:
    """Return whether the run's Job was ever created: then it is never created again.

    Known from the cluster, from a condition that is written only once the Job exists, or from the
    record that stands for it.
    """
    observed = context.observed
    if observed.load_job is not None or load_pods(context) or observed.children.get("begun"):
        return True
    return load_job_was_created(context.status)


def _pods_of(
    context: ReconcileContext, of: str, job_name: str, job: Json | None
) -> tuple[Json, ...]:
    return tuple(
        pod
        for pod in context.observed.pods
        if component(pod) == of
        and _is_of_job(controller_of(pod), job_name, job)
        and (job is not None or not _is_left_behind(context, pod))
    )


def is_left_behind(pod: Json, created: datetime, started: datetime | None) -> bool:
    """Return whether an earlier attempt of its run, which began anew at `started`, gave a pod up.

    It was waited for at least GONE_SECONDS before `started`. One that is younger, or that nothing
    deletes, may still send load. Half of that time is left to clocks that differ.
    """
    if started is None or not is_deleting(pod):
        return False
    return add_seconds(created, GONE_SECONDS / 2) < started


def _is_left_behind(context: ReconcileContext, pod: Json) -> bool:
    return is_left_behind(pod, context.since(pod, "created"), parse_time(context.status.start_time))


def _is_of_job(owner: Json, name: str, job: Json | None) -> bool:
    same = job is None or owner.get("uid") == job["metadata"].get("uid")
    return owner.get("kind") == "Job" and owner.get("name") == name and same
