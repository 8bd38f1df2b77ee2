"""The queue of runs: benchmarks on one node disturb each other, so few run at a time."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from inferometer_operator.reconcile.conditions import ConditionUpdate, StatusDraft
from inferometer_operator.reconcile.observed import Json, QueuePosition

_AS_OF = re.compile(r"\(as of (\d{4}-\d{2}-\d{2}T\d{2}:\d{2})Z\)")


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """The facts about a run that decide its queue position."""

    uid: str
    created: str
    """Its creationTimestamp; text order is time order."""
    namespace: str
    name: str
    state: Literal["waiting", "admitted", "inactive"]
    """inactive: finished, suspended, or being deleted with nothing left to clean up."""


def queued_run(run: Json) -> QueuedRun:
    """Return the queue entry of a raw run, valid or not."""
    metadata = run["metadata"]
    return QueuedRun(
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        state=_state(run),
    )


def queue_position(run: QueuedRun, runs: Collection[QueuedRun], slots: int) -> QueuePosition:
    """Return a run's position: oldest first, with at most `slots` runs admitted at a time.

    A run that is admitted already, or inactive, counts as admitted.
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


def report_queue_position(draft: StatusDraft, queued: QueuePosition, now: datetime) -> float | None:
    """Write a waiting run's position to its status, at most once a minute.

    Return in how many seconds to look again; None if only another run's end can change it.
    """
    minute = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
    place = f"Position {queued.position} in the queue"
    behind = f"; {queued.ahead} is ahead" if queued.ahead else ""
    draft.update(phase="Queued")
    message, look = f"{place} (as of {minute}Z){behind}.", None
    before = draft.find("Accepted")
    if before is not None and before.reason == "Queued":
        written = _AS_OF.search(before.message)
        if before.message.startswith(f"{place} ") and behind in before.message:
            message = before.message
        elif written is not None and written[1] == minute:
            message, look = before.message, 60.0 - (now.second + now.microsecond / 1e6)
    draft.set_conditions(ConditionUpdate("Accepted", "True", "Queued", message))
    return look
