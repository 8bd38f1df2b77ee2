"""The status of a suite while one decision is made."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from inferometer_api.suite.status import (
    SuiteCondition,
    SuiteConditionType,
    SuiteReason,
    SuiteStatus,
)
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.plan import Event

_ORDER: tuple[SuiteConditionType, ...] = ("Accepted", "Complete", "Failed", "Gate", "Finished")
_LONGEST = 1024
Value = Literal["True", "False", "Unknown"]


class SuiteDraft:
    """The status of a suite, which starts as the cluster holds it."""

    def __init__(self, status: SuiteStatus, now: datetime, generation: int | None) -> None:
        self.status = status.model_copy(update={"observed_generation": generation})
        self.now = now
        self._generation = generation

    @property
    def has_begun(self) -> bool:
        """Whether a run was started; reused runs are known before the first one."""
        return bool(self.status.states.strip(".R"))

    def update(self, **fields: Any) -> None:
        """Replace fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def set(self, name: SuiteConditionType, value: Value, reason: SuiteReason, text: str) -> None:
        """Set a condition. The time of the last transition changes only with the value."""
        held = {each.type: each for each in self.status.conditions}
        before = held.get(name)
        same = before is not None and before.status == value
        held[name] = SuiteCondition(
            type=name,
            status=value,
            observed_generation=self._generation,
            last_transition_time=(
                before.last_transition_time if same and before else format_time(self.now)
            ),
            reason=reason,
            message=clip_message(text),
        )
        self.update(conditions=[held[each] for each in _ORDER if each in held])

    def refuse(self, reason: SuiteReason, text: str) -> None:
        """End the suite before anything was started."""
        self.set("Accepted", "False", reason, text)
        self.end("Failed", reason, text)

    def wait_for_store(self, fault: str) -> None:
        """Record that the suite does not begin before its stored results are known."""
        text = (
            f"spec.reuse is true, and it is not known which results are stored: {fault} It is "
            "tried again. Set reuse to false to measure every cell."
        )
        self.update(phase="Pending")
        self._wait("StoreUnreachable", text)

    def wait_for_right(self, text: str) -> None:
        """Record that the operator lacks a right; a suite that has begun stays accepted."""
        if not self.has_begun:
            self.update(phase="Pending")
            self.set("Accepted", "False", "NotAvailable", text)
        self._wait("NotAvailable", text)

    def _wait(self, reason: SuiteReason, text: str) -> None:
        self.set("Complete", "False", reason, text)
        self.set("Finished", "False", reason, text)

    def end(self, phase: Literal["Complete", "Failed"], reason: SuiteReason, text: str) -> None:
        """End the suite."""
        complete = phase == "Complete"
        self.set("Complete", "True" if complete else "False", reason, text)
        self.set("Failed", "False" if complete else "True", reason, text)
        self.set("Finished", "True", reason, text)
        self.update(phase=phase, completion_time=format_time(self.now), current=[])


def clip_message(text: str) -> str:
    """Return a condition's message, cut to what the status may hold."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def corrected_status(status: SuiteStatus, generation: int | None) -> SuiteStatus:
    """Return the status of a suite that was refused and has been changed since: as if it were new.

    Any other status is returned as it is; so is that of a suite that has begun.
    """
    refused = any(each.type == "Accepted" and each.status == "False" for each in status.conditions)
    has_changed = status.observed_generation != generation
    if not refused or not has_changed or status.states.strip(".R"):
        return status
    return status.model_copy(update={"conditions": [], "phase": None, "completion_time": None})


def end_event(status: SuiteStatus) -> Event:
    """Return the event of a suite that has ended."""
    failed = next(each for each in status.conditions if each.type == "Failed")
    gate = next((each for each in status.conditions if each.type == "Gate"), None)
    if gate is not None and gate.status == "False":
        return Event("Warning", "GateFailed", gate.message)
    kind = "Warning" if failed.status == "True" else "Normal"
    return Event("Warning" if kind == "Warning" else "Normal", failed.reason, failed.message)


def is_true(status: SuiteStatus, name: SuiteConditionType) -> bool:
    """Return whether a condition is True."""
    return any(each.type == name and each.status == "True" for each in status.conditions)


def read_suite_status(suite: Mapping[str, Any]) -> SuiteStatus:
    """Return the status of a raw suite, which an operator of another version may have written.

    A field that this version cannot read is dropped; the others stay.
    """
    data = suite.get("status") or {}
    try:
        return SuiteStatus.read(data)
    except ValidationError:
        return SuiteStatus.read(
            {name: value for name, value in data.items() if _is_readable(name, value)}
        )


def _is_readable(name: str, value: object) -> bool:
    try:
        SuiteStatus.read({name: value})
    except ValidationError:
        return False
    return True
