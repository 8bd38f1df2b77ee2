"""The status of a NodeBenchmark while one decision is made."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from inferometer_api.nodes.benchmark import (
    NodeBenchmarkCondition,
    NodeBenchmarkConditionType,
    NodeBenchmarkReason,
    NodeBenchmarkStatus,
)
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.conditions import clip

_ORDER: tuple[NodeBenchmarkConditionType, ...] = (
    *("Accepted", "Complete", "Failed"),
    *("Current", "Finished"),
)
Value = Literal["True", "False", "Unknown"]


class NodeBenchmarkDraft:
    """The status, which starts as the cluster holds it."""

    def __init__(self, status: NodeBenchmarkStatus, now: datetime, generation: int | None) -> None:
        self.status = status.model_copy(update={"observed_generation": generation})
        self.now = now
        self._generation = generation

    def update(self, **fields: Any) -> None:
        """Replace fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def set(
        self,
        name: NodeBenchmarkConditionType,
        value: Value,
        reason: NodeBenchmarkReason,
        text: str,
    ) -> None:
        """Set a condition. The time of the last transition changes only with the value."""
        held = {each.type: each for each in self.status.conditions}
        before = held.get(name)
        same = before is not None and before.status == value
        held[name] = NodeBenchmarkCondition(
            type=name,
            status=value,
            observed_generation=self._generation,
            last_transition_time=(
                before.last_transition_time if same and before else format_time(self.now)
            ),
            reason=reason,
            message=clip(text),
        )
        self.update(conditions=[held[each] for each in _ORDER if each in held])

    def end(
        self, phase: Literal["Complete", "Failed"], reason: NodeBenchmarkReason, text: str
    ) -> None:
        """End the measurement."""
        complete = phase == "Complete"
        self.set("Complete", "True" if complete else "False", reason, text)
        self.set("Failed", "False" if complete else "True", reason, text)
        self.set("Finished", "True", reason, text)
        self.update(phase=phase, completion_time=format_time(self.now))

    def wait_for_right(self, text: str) -> None:
        """Record that nothing is measured until the operator has a right that it lacks."""
        self.set("Accepted", "False", "NotAvailable", text)
        self.set("Finished", "False", "NotAvailable", text)

    def refuse(self, reason: NodeBenchmarkReason, text: str) -> None:
        """End it before anything was measured."""
        self.set("Accepted", "False", reason, text)
        self.end("Failed", reason, text)


def is_true(status: NodeBenchmarkStatus, name: NodeBenchmarkConditionType) -> bool:
    """Return whether a condition is True."""
    return any(each.type == name and each.status == "True" for each in status.conditions)


def read_node_status(benchmark: Mapping[str, Any]) -> NodeBenchmarkStatus:
    """Return the status of a raw NodeBenchmark; an empty one if no version of ours wrote it."""
    try:
        return NodeBenchmarkStatus.read(benchmark.get("status") or {})
    except ValidationError:
        return NodeBenchmarkStatus()
