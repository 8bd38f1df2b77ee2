"""Conditions of a run, and the draft of its status that one plan edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from inferometer_api.results.rule_pages import explain_command
from inferometer_api.results.verdict_sentences import (
    SharedReason,
    invalid_sentence,
    scenario_count,
    shared_reasons,
    valid_sentence,
)
from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import Condition, ConditionType, RunStatus
from inferometer_api.timestamps import format_time

Value = Literal["True", "False", "Unknown"]
_ORDER: tuple[ConditionType, ...] = (
    "Accepted",
    "ServerReady",
    "Measuring",
    "Complete",
    "Failed",
    "Valid",
    "Finished",
    "Stored",
)
_MAX_MESSAGE_CHARACTERS = 4096
_MAX_REASON_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """The new content of one condition."""

    type: ConditionType
    value: Value
    reason: ReasonName
    message: str


class StatusDraft:
    """The status of a run while one plan is made: it starts as the cluster holds it."""

    def __init__(self, status: RunStatus, now: datetime, generation: int | None) -> None:
        self.status = status.model_copy(update={"observed_generation": generation})
        self._now = now
        self._generation = generation

    def update(self, **fields: Any) -> None:
        """Replace fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def set_conditions(self, *updates: ConditionUpdate) -> None:
        """Set conditions. The time of the last transition changes only with the value."""
        held = {condition.type: condition for condition in self.status.conditions}
        for each in updates:
            before = held.get(each.type)
            same = before is not None and before.status == each.value
            held[each.type] = Condition(
                type=each.type,
                status=each.value,
                observed_generation=self._generation,
                last_transition_time=(
                    before.last_transition_time if same and before else format_time(self._now)
                ),
                reason=each.reason,
                message=clip(each.message),
            )
        self.update(conditions=[held[name] for name in _ORDER if name in held])

    def remove_conditions(self, *types: ConditionType) -> None:
        """Remove conditions."""
        left = [condition for condition in self.status.conditions if condition.type not in types]
        self.update(conditions=left)

    def find(self, name: ConditionType) -> Condition | None:
        """Return a condition, or None if it is not set yet."""
        return find_condition(self.status, name)

    def is_true(self, name: ConditionType) -> bool:
        """Return whether a condition is True."""
        return is_true(self.status, name)


def generation_of(run: Mapping[str, Any]) -> int | None:
    """Return the generation of a raw run's spec."""
    generation = run["metadata"].get("generation")
    return generation if isinstance(generation, int) else None


def find_condition(status: RunStatus, name: ConditionType) -> Condition | None:
    """Return a condition, or None if it is not set yet."""
    return next((each for each in status.conditions if each.type == name), None)


def is_true(status: RunStatus, name: ConditionType) -> bool:
    """Return whether a condition is True."""
    found = find_condition(status, name)
    return found is not None and found.status == "True"


def is_decided(status: RunStatus) -> bool:
    """Return whether the run is Complete or Failed."""
    return is_true(status, "Complete") or is_true(status, "Failed")


def load_job_was_created(status: RunStatus) -> bool:
    """Return whether a status has the condition that is written only once the load's Job exists."""
    measuring = find_condition(status, "Measuring")
    return measuring is not None and measuring.status != "Unknown"


def clip(message: str) -> str:
    """Return a message that is short enough for a condition."""
    if len(message) <= _MAX_MESSAGE_CHARACTERS:
        return message
    return f"{message[: _MAX_MESSAGE_CHARACTERS - 4]} ..."


def valid_condition(status: RunStatus, scenarios: int) -> ConditionUpdate:
    """Return the condition Valid of a complete run of so many scenarios."""
    # Of the repeats of a scenario, the first INVALID one gives the reasons.
    invalid = {each.name: each for each in reversed(status.scenarios) if each.verdict == "INVALID"}
    if invalid:
        # A rule that several scenarios violate is explained once, by the first of them.
        reasons = shared_reasons(reversed(invalid.values()))
        message = f"{invalid_sentence(len(invalid), scenarios)} {_explained(reasons)}"
        return ConditionUpdate("Valid", "False", "Invalid", message)
    if (measured := _measured(status)) < scenarios:
        message = f"The summary has {measured} of {scenario_count(scenarios)}."
        return ConditionUpdate("Valid", "False", "NotComplete", message)
    # A caution that several scenarios share counts once, as in the tables of the CLI.
    cautions = len({caution for each in status.scenarios for caution in each.cautions})
    return ConditionUpdate("Valid", "True", "AllValid", valid_sentence(scenarios, cautions))


def incomplete_condition(
    status: RunStatus, scenarios: int | None, *, awaited: bool = False
) -> ConditionUpdate:
    """Return the condition Valid of a failed run; `scenarios` None: the spec is unreadable.

    `awaited`: whether its load generator may still hand over what it measured.
    """
    if awaited:
        message = "The run did not complete. What it measured is not read yet."
    elif not status.scenarios or scenarios is None:
        message = "The run did not complete; no scenario was measured to its end."
    else:
        measured = f"{_measured(status)} of {scenario_count(scenarios)}"
        message = f"The run did not complete. The status keeps {measured}, measured until then."
    return ConditionUpdate("Valid", "False", "NotComplete", message)


def _measured(status: RunStatus) -> int:
    """Return how many scenarios were measured, whatever their repeats."""
    return len({each.name for each in status.scenarios})


def _explained(reasons: list[SharedReason]) -> str:
    """Return the reasons after the scenarios that they apply to, and where to read on."""
    if not reasons:
        return "See the result for the reasons."
    by_scenarios: dict[tuple[str, ...], list[str]] = {}
    for each in reasons:
        by_scenarios.setdefault(each.scenarios, []).append(each.message)
    text = " ".join(f"{', '.join(key)}: {_shortened(some)}" for key, some in by_scenarios.items())
    return f"{text} What to do: {explain_command(reasons[0].rule)}." if reasons[0].rule else text


def _shortened(reasons: list[str]) -> str:
    """Return the first reasons as a whole, with the number of those left out."""
    shown, left = reasons[:1], _MAX_REASON_CHARACTERS - len(reasons[0])
    for reason in reasons[1:]:
        left -= len(reason)
        if left < 0:
            break
        shown.append(reason)
    more = len(reasons) - len(shown)
    return " ".join((*shown, *([f"({more} more in status.scenarios.)"] if more else [])))


def read_status(run: Mapping[str, Any]) -> RunStatus:
    """Return the status of a raw run, which an operator of another version may have written.

    Fields that this version does not know are ignored. A field with a value that it cannot read
    is dropped; the others stay.
    """
    data = run.get("status") or {}
    try:
        return RunStatus.read(data)
    except ValidationError:
        return RunStatus.read(
            {name: value for name, value in data.items() if _is_readable(name, value)}
        )


def _is_readable(name: str, value: object) -> bool:
    try:
        RunStatus.read({name: value})
    except ValidationError:
        return False
    return True
