"""How is it kept what holds of a run, since when, and why?"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import Condition, ConditionType, RunStatus
from inferometer_operator.reconcile.times import stamp

Value = Literal["True", "False", "Unknown"]
_ORDER: tuple[ConditionType, ...] = (
    "Accepted",
    "ServerReady",
    "Measuring",
    "Complete",
    "Failed",
    "Valid",
    "Finished",
)
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is told, and of which generation of the spec."""

    now: datetime
    generation: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """What a condition shall say."""

    type: ConditionType
    value: Value
    reason: ReasonName
    message: str


def told(status: RunStatus, moment: Moment, *all_told: Told) -> RunStatus:
    """Return the status with conditions set, in their order.

    The time of the last transition stays where the value stays.
    """
    held = {condition.type: condition for condition in status.conditions}
    for each in all_told:
        before = held.get(each.type)
        same = before is not None and before.status == each.value
        held[each.type] = Condition(
            type=each.type,
            status=each.value,
            observed_generation=moment.generation,
            last_transition_time=(
                before.last_transition_time if same and before else stamp(moment.now)
            ),
            reason=each.reason,
            message=clipped(each.message),
        )
    return status.model_copy(update={"conditions": [held[name] for name in _ORDER if name in held]})


def without(status: RunStatus, *types: ConditionType) -> RunStatus:
    """Return the status without some conditions."""
    left = [condition for condition in status.conditions if condition.type not in types]
    return status.model_copy(update={"conditions": left})


def condition(status: RunStatus, name: ConditionType) -> Condition | None:
    """Return a condition, None where nothing was told of it yet."""
    return next((each for each in status.conditions if each.type == name), None)


def holds(status: RunStatus, name: ConditionType) -> bool:
    """Whether a condition is True."""
    found = condition(status, name)
    return found is not None and found.status == "True"


def clipped(message: str) -> str:
    """Return a message that is short enough for a condition."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ..."


def status_of(raw: Mapping[str, Any]) -> RunStatus:
    """Return a run's status as it stands in the cluster.

    Members that this version does not understand are left out rather than make a run unreadable.
    """
    data = raw.get("status") or {}
    try:
        return RunStatus.model_validate(data)
    except ValidationError:
        return RunStatus.model_validate(
            {name: value for name, value in data.items() if _understood(name, value)}
        )


def _understood(name: str, value: object) -> bool:
    try:
        RunStatus.model_validate({name: value})
    except ValidationError:
        return False
    return True
