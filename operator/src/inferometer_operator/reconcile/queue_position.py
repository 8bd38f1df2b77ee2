"""The queue of runs: benchmarks on one node disturb each other, so few run at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Literal

from inferometer_api.suite.labels import POSITION_ANNOTATION
from inferometer_operator.reconcile.conditions import ConditionUpdate, StatusDraft
from inferometer_operator.reconcile.observed import Json, QueuePosition

ADMISSION_WAITS = frozenset({"AdmissionPending", "Inadmissible"})
"""Reasons of the condition Accepted with which a run waits for Kueue. It has no position here."""
_EXACT = 10
"""Positions after the tenth are reported in bands that end at powers of ten. Each band costs a
write for every run that begins, so that hundreds of runs have few."""


QueueState = Literal["waiting", "backing-off", "admitted", "collecting", "inactive"]
"""backing-off: it found no nodes and pauses; collecting: its result is awaited, and its pods have
nodes, but it holds no slot; inactive: finished, suspended, waiting for Kueue, or being deleted with
nothing left to clean up."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """The facts about a run that decide its queue position."""

    uid: str
    created: str
    """Its creationTimestamp; text order is time order."""
    namespace: str
    name: str
    state: QueueState
    begun: str = ""
    """Its startTime, empty before it begins."""
    attempts: int = 0
    """How often it found no nodes."""
    position: str = ""
    """Its place in the plan of its suite; text order is their order."""


def queued_run(run: Json) -> QueuedRun:
    """Return the queue entry of a raw run, valid or not."""
    metadata, status = run["metadata"], run.get("status") or {}
    return QueuedRun(
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        state=_state(run),
        begun=str(status.get("startTime") or ""),
        position=(metadata.get("annotations") or {}).get(POSITION_ANNOTATION, ""),
        attempts=int((status.get("waitingForNodes") or {}).get("attempts") or 0),
    )


def queue_order(waiting: Iterable[QueuedRun], served: Mapping[str, str]) -> list[QueuedRun]:
    """Return the waiting runs in the order of their turns.

    The namespaces take turns, the one that was served longest ago first; `served` says when a run
    of a namespace last began, as text. Within a namespace the oldest run goes first, and
    of the runs that a suite created in one second the first of its plan.
    """
    by_namespace: dict[str, list[QueuedRun]] = {}
    for run in sorted(waiting, key=_age):
        by_namespace.setdefault(run.namespace, []).append(run)
    # By age where they were served at the same time, or never: a dict keeps its order.
    namespaces = sorted(by_namespace, key=lambda name: served.get(name, ""))
    rounds = zip_longest(*(by_namespace[name] for name in namespaces))
    return [run for turn in rounds for run in turn if run is not None]


def band(position: int) -> tuple[int, int]:
    """Return the first and the last position of a band: 1 to 10 exactly, then coarser.

    The bands end at 100, 1,000, 10,000 and so on.
    """
    if position <= _EXACT:
        return position, position
    power: int = 10 ** len(str(position - 1))
    return power // 10 + 1, power


def describe_position(queued: QueuePosition) -> str:
    """Return what a waiting run's status says of its position."""
    first, last = band(queued.position)
    if first < last:
        return f"Position {first} to {last} in the queue"
    behind = f"; {queued.ahead} is ahead" if queued.ahead else ""
    return f"Position {first} in the queue{behind}"


def _age(run: QueuedRun) -> tuple[str, str, str, str]:
    return run.created, run.namespace, run.position, run.name


def _state(run: Json) -> QueueState:
    status = run.get("status") or {}
    conditions = status.get("conditions") or []
    finished: Json = next((each for each in conditions if each["type"] == "Finished"), {})
    if finished.get("status") == "True":
        return "inactive"
    if finished.get("reason") == "ResultPending":
        # A result may be awaited for long, and nothing of the run sends load.
        return "collecting"
    if status.get("startTime"):
        return "admitted"
    accepted: Json = next((each for each in conditions if each["type"] == "Accepted"), {})
    if accepted.get("reason") in ADMISSION_WAITS:
        return "inactive"
    spec = run.get("spec") or {}
    held = spec.get("suspend") or run["metadata"].get("deletionTimestamp")
    if held:
        return "inactive"
    return "backing-off" if (status.get("waitingForNodes") or {}).get("retryTime") else "waiting"


def report_queue_position(draft: StatusDraft, queued: QueuePosition, now: datetime) -> None:
    """Write a waiting run's position to its status."""
    draft.update(phase="Queued")
    place = describe_position(queued)
    message = f"{place} (as of {now.astimezone(UTC):%Y-%m-%dT%H:%M}Z)."
    before = draft.find("Accepted")
    if before is not None and before.reason == "Queued" and before.message.startswith(f"{place} ("):
        message = before.message
    draft.set_conditions(ConditionUpdate("Accepted", "True", "Queued", message))
