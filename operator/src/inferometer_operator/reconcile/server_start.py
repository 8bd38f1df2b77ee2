"""The phases of a server pod's start, from its conditions and the states of its containers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inferometer_api.plan.load_plan import ObservedPhase, StartEvidence
from inferometer_api.results.cold_start import IMAGE_PULLED, MODEL_FETCHED
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.observed import Json

_RESOLUTION_MICROSECONDS = 1_000_000
"""The API server and kubelets write whole seconds."""
_SANDBOX = "PodReadyToStartContainers"
"""Volumes are mounted and the pod has its network; clusters before Kubernetes 1.29 lack it."""
_CACHED = "the pod mounts it from the cache of its node, which may have had it"
_ALWAYS = (
    "imagePullPolicy is Always, and the kubelet then reports a pull also of an image that is there"
)
_CONDITION = "condition {} of the pod"

_PULL_EVIDENCE = "the kubelet's event Pulled"
_PULLED = re.compile(
    r"Successfully pulled image .*?"
    r"(?: in \S+ \((?P<waited>\S+) including waiting\).*?)?"
    r"(?:Image size: (?P<bytes>\d+) bytes|$)"
)
"""The kubelet's message; before Kubernetes 1.30 it has no size. An image that was there has another
message under the same reason."""
_GO_DURATION = re.compile(r"([\d.]+)(h|ms|m|s)")
_MICROSECONDS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000}

Mark = tuple[str, int, str]
"""The name of the phase that ends, when it ends in Unix time, and where that comes from."""


class _Pull(NamedTuple):
    """A pull of an image, in microseconds of Unix time."""

    start: int | None
    """When the container began to wait for it; None if the kubelet does not report it."""
    end: int
    bytes: int | None
    is_certain: bool
    """Whether the node did not have the image; False if the kubelet reports a pull in any case."""


def start_evidence(
    pod: Json, pulls: Iterable[Json] = (), *, is_cached: bool = False
) -> StartEvidence:
    """Return what the cluster shows of the start of a ready server pod.

    `pulls` are Events with the reason Pulled. With `is_cached` the pod mounts the model from the
    cache of its node, which may have had it. Each phase ends where the next begins. The model's
    folder is an emptyDir: before the start the
    model's files did not exist, so that none of them was in memory.
    """
    pull = _pull(pod, pulls)
    created = _microseconds(pod["metadata"].get("creationTimestamp")) or 0
    phases, reached = [], created
    for name, end, evidence in _marks(pod, pull):
        # Times of one second may be out of order by a second.
        phases.append(
            ObservedPhase(
                name=name,
                start_microseconds=reached,
                end_microseconds=max(reached, end),
                evidence=evidence,
                resolution_microseconds=_RESOLUTION_MICROSECONDS,
                bytes=pull.bytes if pull is not None and name == IMAGE_PULLED else None,
            )
        )
        reached = max(reached, end)
    return StartEvidence(
        created_microseconds=created,
        launched_microseconds=reached,
        launched_resolution_microseconds=_RESOLUTION_MICROSECONDS,
        ready_microseconds=_condition_time(pod, "Ready"),
        phases=phases,
        model_bytes=None if is_cached else 0,
        resident_bytes=None if is_cached else 0,
        residency_unknown=_CACHED if is_cached else "",
        image_unknown="" if pull is None or pull.is_certain else _ALWAYS,
    )


def _pull(pod: Json, pulls: Iterable[Json]) -> _Pull | None:
    """Return the first pull of an image of a pod, if possible a certain one; None without any."""
    found = [each for event in pulls if (each := _read_pull(pod, event)) is not None]
    return next((each for each in found if each.is_certain), found[0] if found else None)


def _read_pull(pod: Json, event: Json) -> _Pull | None:
    """Return the pull that an event reports of a pod; None if it reports something else."""
    found = _PULLED.match(str(event.get("message") or ""))
    about: Json = event.get("involvedObject") or {}
    if not found or about.get("uid") != pods.uid(pod):
        return None
    end = _microseconds(event.get("firstTimestamp") or event.get("eventTime"))
    if end is None:
        return None
    waited, size = found["waited"], found["bytes"]
    return _Pull(
        start=None if waited is None else end - _duration_microseconds(waited),
        end=end,
        bytes=None if size is None else int(size),
        is_certain=not _pulls_always(pod, str(about.get("fieldPath") or "")),
    )


def _pulls_always(pod: Json, field_path: str) -> bool:
    """Return whether a pod pulls the image of a container each time.

    The path is the event's, such as spec.containers{server}.
    """
    spec: Json = pod.get("spec") or {}
    return any(
        field_path.endswith(f"{{{each.get('name')}}}") and each.get("imagePullPolicy") == "Always"
        for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    )


def _marks(pod: Json, pull: _Pull | None) -> Iterator[Mark]:
    """Yield the end of each phase until the server's container runs, as far as it is known."""
    scheduled, ready = (_condition_time(pod, each) for each in ("PodScheduled", _SANDBOX))
    if scheduled is not None:
        yield "scheduled", scheduled, _CONDITION.format("PodScheduled")
    fetchers: Sequence[Json] = pods.status(pod).get("initContainerStatuses") or ()
    fetched = _end(fetchers[-1]) if fetchers else None
    # The fetcher may have another image, which is there.
    is_late = pull is not None and fetched is not None and pull.end > fetched
    # Many kubelets write the condition only after the first image is pulled.
    start = None if pull is None or is_late else pull.start
    if start is not None and (ready is None or start < ready):
        yield "volumes", start, _PULL_EVIDENCE
    elif ready is not None:
        yield "volumes", ready, _CONDITION.format(_SANDBOX)
    if pull is not None and not is_late:
        yield IMAGE_PULLED, pull.end, _PULL_EVIDENCE
    for fetcher, name, member in (
        *((each, "fetcherStarted", "startedAt") for each in fetchers[:1]),
        *((each, MODEL_FETCHED, "finishedAt") for each in fetchers[-1:]),
    ):
        ended: Json = (fetcher.get("state") or {}).get("terminated") or {}
        time = _microseconds(ended.get(member))
        if time is not None:
            yield name, time, f"{member} of the container {fetcher.get('name')}"
    if pull is not None and is_late:
        yield IMAGE_PULLED, pull.end, _PULL_EVIDENCE
    main = pods.main_container(pod)
    running: Json = (main.get("state") or {}).get("running") or {}
    time = _microseconds(running.get("startedAt"))
    if time is not None:
        yield "containerStarted", time, f"startedAt of the container {main.get('name')}"


def _end(container: Json) -> int | None:
    ended: Json = (container.get("state") or {}).get("terminated") or {}
    return _microseconds(ended.get("finishedAt"))


def _condition_time(pod: Json, kind: str) -> int | None:
    found = pods.condition(pod, kind)
    return _microseconds(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _microseconds(time: object) -> int | None:
    moment = parse_time(time)
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def _duration_microseconds(text: str) -> int:
    """Return a duration as Go writes it, such as 1m2.5s."""
    parts = _GO_DURATION.findall(text)
    return round(sum(float(number) * _MICROSECONDS[unit] for number, unit in parts))
