"""How is it kept what holds of a run, since when, and why?"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import Condition, ConditionType, RunStatus
from inferometer_operator.reconcile.times import format_time

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
class ConditionUpdate:
    """What a condition shall say."""

    type: ConditionType
    value: Value
    reason: ReasonName
    message: str


def with_conditions(status: RunStatus, moment: Moment, *all_told: ConditionUpdate) -> RunStatus:
    """Return the status with conditions set, in their order.

    The time of the last transition stays where the value stays.
    """
    held = {find_condition.type: find_condition for find_condition in status.conditions}
    for each in all_told:
        before = held.get(each.type)
        same = before is not None and before.status == each.value
        held[each.type] = Condition(
            type=each.type,
            status=each.value,
            observed_generation=moment.generation,
            last_transition_time=(
                before.last_transition_time if same and before else format_time(moment.now)
            ),
            reason=each.reason,
            message=clip(each.message),
        )
    return status.model_copy(update={"conditions": [held[name] for name in _ORDER if name in held]})


def without_conditions(status: RunStatus, *types: ConditionType) -> RunStatus:
    """Return the status without some conditions."""
    left = [
        find_condition for find_condition in status.conditions if find_condition.type not in types
    ]
    return status.model_copy(update={"conditions": left})


def find_condition(status: RunStatus, name: ConditionType) -> Condition | None:
    """Return a condition, None where nothing was told of it yet."""
    return next((each for each in status.conditions if each.type == name), None)


def is_true(status: RunStatus, name: ConditionType) -> bool:
    """Whether a condition is True."""
    found = find_condition(status, name)
    return found is not None and found.status == "True"


def clip(message: str) -> str:
    """Return a message that is short enough for a condition."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ..."


def read_status(raw: Mapping[str, Any]) -> RunStatus:
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
