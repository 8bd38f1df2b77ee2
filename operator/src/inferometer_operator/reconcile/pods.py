"""What does a raw pod say?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inferometer_api.plan.cluster_objects import COMPONENT_LABEL, JOB_INDEX_LABEL
from inferometer_operator.reconcile.context import is_deleting
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.times import parse_time


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How a container ended."""

    container: str
    code: int
    reason: str
    """The kubelet's word: Completed, Error, OOMKilled, ..."""
    message: str
    """The termination message: its last words."""
    at: datetime | None


def component(pod: Json) -> str:
    """Return the component that a pod is of: server or loadgen."""
    return str((pod["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


def name(pod: Json) -> str:
    """Return a pod's name."""
    return str(pod["metadata"]["name"])


def uid(pod: Json) -> str:
    """Return a pod's UID."""
    return str(pod["metadata"].get("uid", ""))


def node(pod: Json) -> str:
    """Return the node that a pod is bound to, empty while it is bound to none."""
    return str(_spec(pod).get("nodeName") or "")


def address(pod: Json) -> str:
    """Return a pod's IP address, empty while it has none."""
    return str(status(pod).get("podIP") or "")


def status(pod: Json) -> Json:
    """Return a pod's status."""
    found: Json = pod.get("status") or {}
    return found


def phase(pod: Json) -> str:
    """Return a pod's phase."""
    return str(status(pod).get("phase", "Pending"))


def completion_index(pod: Json) -> int:
    """Return which pod of its Job a pod is: 0 where the Job has no others."""
    labels = pod["metadata"].get("labels") or {}
    told = str(labels.get(JOB_INDEX_LABEL, ""))
    return int(told) if told.isdecimal() else 0


def is_over(pod: Json) -> bool:
    """Whether none of a pod's containers will run again."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_live(pod: Json) -> bool:
    """Whether a pod is neither over nor being deleted."""
    return not is_over(pod) and not is_deleting(pod)


def condition(pod: Json, kind: str) -> Json:
    """Return a condition of a pod, empty where it has none of that type."""
    found: Json = next(
        (each for each in status(pod).get("conditions") or () if each.get("type") == kind), {}
    )
    return found


def is_ready(pod: Json) -> bool:
    """Whether a pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


def containers(pod: Json) -> Iterator[tuple[Json, bool]]:
    """Yield the status of each container, and whether it is an init container."""
    for each in status(pod).get("initContainerStatuses") or ():
        yield each, True
    for each in status(pod).get("containerStatuses") or ():
        yield each, False


def main_container(pod: Json) -> Json:
    """Return the status of a pod's one container, empty while there is none."""
    return next((each for each, is_init in containers(pod) if not is_init), {})


def has_started(pod: Json) -> bool:
    """Whether a pod's container runs or has run."""
    container = main_container(pod)
    state = container.get("state") or {}
    return "running" in state or "terminated" in state or bool(container.get("restartCount"))


def last_end(container: Json) -> ContainerExit | None:
    """Return how a container ended last, None where it never did."""
    for member in ("state", "lastState"):
        end: dict[str, Any] | None = (container.get(member) or {}).get("terminated")
        if end is not None:
            return ContainerExit(
                container=str(container.get("name", "")),
                code=int(end.get("exitCode", 0)),
                reason=str(end.get("reason") or ""),
                message=str(end.get("message") or "").strip(),
                at=parse_time(end.get("finishedAt")),
            )
    return None


def image_digest(pod: Json) -> str:
    """Return the image that a pod's container runs, by digest where the node knows it."""
    container = main_container(pod)
    return str(container.get("imageID") or container.get("image") or "")


def _spec(pod: Json) -> Json:
    found: Json = pod.get("spec") or {}
    return found
