"""Whose turn is it? Benchmarks on one node disturb each other, so few run at a time."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from inferometer_operator.reconcile.observed import Json, QueuePosition


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """What counts of a run when turns are given."""

    uid: str
    created: str
    """Its creationTimestamp, whose order as text is that of time."""
    namespace: str
    name: str
    state: Literal["waiting", "admitted", "inactive"]
    """Whether it waits for a turn, holds one, or wants none: it is finished or suspended, or is
    being deleted and nothing of it is left."""


def queued_run(run: Json) -> QueuedRun:
    """Return what counts of a run as the cluster gave it, valid or not."""
    metadata = run["metadata"]
    return QueuedRun(
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        state=_state(run),
    )


def queue_position(run: QueuedRun, runs: Collection[QueuedRun], slots: int) -> QueuePosition:
    """Return the run's turn: the oldest first, and never more than `slots` at a time.

    A run that holds a turn or wants none is admitted.
    """
    if run.state != "waiting":
        return QueuePosition(admitted=True)
    holding = sorted((each for each in runs if each.state == "admitted"), key=_age)
    before = sorted(
        (each for each in runs if each.state == "waiting" and _age(each) < _age(run)), key=_age
    )
    position = len(before) + 1 - max(0, slots - len(holding))
    if position <= 0:
        return QueuePosition(admitted=True)
    ahead = before[-1] if before else holding[0]
    return QueuePosition(admitted=False, position=position, ahead=f"{ahead.namespace}/{ahead.name}")


def _age(run: QueuedRun) -> tuple[str, str, str]:
    return run.created, run.namespace, run.name


def _state(run: Json) -> Literal["waiting", "admitted", "inactive"]:
    status = run.get("status") or {}
    conditions = status.get("conditions") or []
    if any(each["type"] == "Finished" and each["status"] == "True" for each in conditions):
        return "inactive"
    if status.get("startTime"):
        return "admitted"
    spec = run.get("spec") or {}
    held = spec.get("suspend") or run["metadata"].get("deletionTimestamp")
    return "inactive" if held else "waiting"
