"""Faults of a pod, by signatures in the raw object, and whether each is transient.

The first signature that matches is reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from inferometer_api.plan.deadlines import NODE_LOST_SECONDS, UNSCHEDULED_SECONDS
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.times import add_seconds

REFUSED_CODE = 2
"""The exit code of this project's programs for a request that they refuse."""
_MANIFEST_REFUSED_CODE = 3
"""That of the fetcher for a manifest which excludes the engine or the node."""
_OF_FETCHER: Mapping[int | None, ReasonName] = {
    REFUSED_CODE: "ModelRefused",
    _MANIFEST_REFUSED_CODE: "TaskRefused",
}
"""What exit codes of a server's fetcher say; others: the model could not be fetched."""

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"}
_NOT_STARTED = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
}
_NODE_LOST = {"DeletionByTaintManager", "DeletionByPodGC"}
_KILLED = "OOMKilled"
_NO_NODE: frozenset[ReasonName] = frozenset({"Unschedulable", "GpuUnavailable"})


@dataclass(frozen=True, slots=True)
class RunFault:
    """A problem that blocks a run."""

    reason: ReasonName
    message: str
    ends: bool
    """Whether the run ends now. Otherwise it continues, and ends at a deadline."""
    until: datetime | None = None
    """When it ends the run, if that is not the ready deadline."""

    @property
    def lacks_node(self) -> bool:
        """Whether the scheduler found no node: at `until` the run goes back to the queue."""
        return self.reason in _NO_NODE


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod requests, for the messages of its faults."""

    who: str
    """"server" or "load generator"."""
    resources: str
    """"cpu 1, memory 2Gi": what a new pod requests."""
    gpu: str = ""
    """The extended resource that it requests, empty for none."""
    nodes: str = ""
    """The labels that its node must have: "zone=a, disk=fast"; empty for none."""

    def of(self, pod: Json) -> str:
        """Return what an existing pod requests, in the words of its own spec."""
        labels = f"nodes with {self.nodes}" if self.nodes else ""
        return ", ".join(filter(None, (pods.requests(pod) or self.resources, labels)))


def make_fault(reason: ReasonName, found: str, *, until: datetime | None = None) -> RunFault:
    """Return a fault with the catalogue's remedy: what was found, and what to do."""
    entry = REASONS[reason]
    return RunFault(
        reason,
        f"{_sentence(found)} {entry.remedy}".strip(),
        ends=not entry.is_transient,
        until=until,
    )


def pod_fault(context: ReconcileContext, pod: Json, request: PodRequest) -> RunFault | None:
    """Return the first fault that a pod shows, or None."""
    found = next((found for sign in _SIGNS if (found := sign(pod, request))), None)
    return found or _unschedulable(context, pod, request) or _node_silent(context, pod, request)


def disruption_fault(pod: Json, request: PodRequest) -> RunFault | None:
    """Return that the cluster took a pod away: evicted it, or lost its node."""
    who = _who(pod, request)
    status = pods.status(pod)
    message = str(status.get("message") or "").strip()
    target = pods.condition(pod, "DisruptionTarget")
    why = str(target.get("reason") or "") if target.get("status") == "True" else ""
    if why in _NODE_LOST or status.get("reason") == "NodeLost":
        lost = f"The node {pods.node(pod)} of {who} no longer answers"
        words = _quoted(str(target.get("message") or message))
        return RunFault("NodeLost", f"{lost}{words} {REASONS['NodeLost'].remedy}", ends=True)
    if status.get("reason") == "Evicted" or why:
        words = _quoted(message or str(target.get("message") or why))
        return make_fault(
            "Evicted", f"The cluster evicted {who} from the node {pods.node(pod)}{words}"
        )
    return None


def _refused_by_node(pod: Json, request: PodRequest) -> RunFault | None:
    status = pods.status(pod)
    if pods.phase(pod) != "Failed" or status.get("reason") is None:
        return None
    words = _quoted(f"{status['reason']}: {status.get('message') or ''}")
    return make_fault(
        "PodRefused", f"The node {pods.node(pod)} refused {_who(pod, request)}{words}"
    )


def _unschedulable(context: ReconcileContext, pod: Json, request: PodRequest) -> RunFault | None:
    scheduled = pods.condition(pod, "PodScheduled")
    if scheduled.get("status") != "False" or pods.node(pod):
        return None
    words = str(scheduled.get("message") or scheduled.get("reason") or "")
    lower = words.lower()
    requests = f"which requests {request.of(pod)}"
    if "persistentvolumeclaim" in lower:
        found = f"The {request.who}'s pod needs a claim that no volume is bound to{_quoted(words)}"
        return make_fault("VolumeNotBound", found)
    found = f"No node takes the {request.who}'s pod, {requests}{_quoted(words)}"
    lacking = request.gpu and f"insufficient {request.gpu}".lower() in lower
    return make_fault(
        "GpuUnavailable" if lacking else "Unschedulable",
        found,
        until=add_seconds(context.since(pod, "created"), UNSCHEDULED_SECONDS),
    )


def _image(pod: Json, request: PodRequest) -> RunFault | None:
    for container, _is_init in pods.containers(pod):
        reason, words = _waiting(container)
        found = f"The image {container.get('image')} of the {request.who}'s pod"
        if reason in _IMAGE:
            return make_fault(
                "ImageNotPulled", f"{found} cannot be pulled{_quoted(words or reason)}"
            )
        if reason == "InvalidImageName":
            return make_fault("ImageNameInvalid", f"{found} has no valid name{_quoted(words)}")
    return None


def _not_started(pod: Json, request: PodRequest) -> RunFault | None:
    for container, _is_init in pods.containers(pod):
        reason, words = _waiting(container)
        if reason in _NOT_STARTED:
            found = (
                f"The container {container.get('name')} of the {request.who}'s pod does not start"
            )
            return make_fault("ContainerNotStarted", f"{found}{_quoted(words or reason)}")
    return None


def _memory(pod: Json, request: PodRequest) -> RunFault | None:
    for container, _is_init in pods.containers(pod):
        end = pods.last_end(container)
        if end is not None and end.reason == _KILLED:
            return make_fault(
                "OutOfMemory",
                f"The container {end.container} of the {request.who}'s pod {pods.name(pod)} was "
                f"killed because it used more memory than its limit; it requests "
                f"{request.of(pod)}",
            )
    return None


def _fetching(pod: Json, request: PodRequest) -> RunFault | None:
    """Return why a server's model, or a load generator's file of inputs, is missing."""
    for container, is_init in pods.containers(pod):
        end = pods.last_end(container)
        if not is_init or end is None or end.code == 0:
            continue
        words = end.message or f"The fetcher exited with code {end.code} and printed nothing"
        if request.who == "server":
            return make_fault(_OF_FETCHER.get(end.code, "ModelNotFetched"), words)
        return make_fault("InputRefused" if end.code == REFUSED_CODE else "InputsNotFetched", words)
    return None


def _ended(pod: Json, request: PodRequest) -> RunFault | None:
    """Return how the container of a server exited before it was ready."""
    end = pods.last_end(pods.main_container(pod))
    if end is None or request.who != "server":
        return None
    if end.code == REFUSED_CODE:
        return make_fault(
            "ServerRefused", end.message or "The server refused to start, without a message"
        )
    found = f"The server in pod {pods.name(pod)} exited with code {end.code} before it was ready"
    return make_fault("ServerCrashed", f"{found}{_last_lines(end.message)}")


def _node_silent(context: ReconcileContext, pod: Json, request: PodRequest) -> RunFault | None:
    """Return that a pod's node is silent."""
    if not pods.is_silent(pod):
        return None
    until = add_seconds(context.since(pod, "silent"), NODE_LOST_SECONDS)
    found = f"The node {pods.node(pod)} of {_who(pod, request)} no longer answers."
    message = f"{found} {REASONS['NodeLost'].remedy}"
    return RunFault("NodeLost", message, ends=context.now >= until, until=until)


_SIGNS: tuple[Callable[[Json, PodRequest], RunFault | None], ...] = (
    _memory,
    disruption_fault,
    _fetching,
    _refused_by_node,
    _image,
    _not_started,
    _ended,
)
"""The most explanatory first: an eviction may follow from the use of memory."""


def _waiting(container: Json) -> tuple[str, str]:
    waiting = (container.get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason") or ""), str(waiting.get("message") or "")


def _who(pod: Json, request: PodRequest) -> str:
    return f"the {request.who}'s pod {pods.name(pod)}"


def _quoted(words: str) -> str:
    words = words.strip().rstrip(":. ")
    return f": {words}." if words else "."


def _last_lines(message: str) -> str:
    return f". Its last lines:\n{message}\n" if message else "."


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "\n")) else f"{text}."
