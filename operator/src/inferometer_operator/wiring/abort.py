"""The end of a run that no plan can be made for: delete its children, and fail it."""

from datetime import datetime
from typing import Literal

from inferometer_api.status.run_status import RunStatus
from inferometer_api.timestamps import format_time
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.children import Children, child_names, deletion_targets
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    StatusDraft,
    generation_of,
    incomplete_condition,
    read_status,
)
from inferometer_operator.reconcile.observed import Json


async def find_children(reader: Reader, run: Json) -> Children:
    """Return a run's children, whatever its spec says, in the order of deletion."""
    metadata = run["metadata"]
    named = child_names(metadata["name"])
    found = [
        await reader.get_child(each.kind, metadata["namespace"], each.name, metadata["uid"])
        for each in named
    ]
    return tuple(
        (each.role, child) for each, child in zip(named, found, strict=True) if child is not None
    )


async def delete_children(reader: Reader, writer: Writer, run: Json) -> bool:
    """Delete a run's children; return whether none was left."""
    children = await find_children(reader, run)
    for target in deletion_targets(children):
        await writer.delete(run["metadata"]["namespace"], target)
    return not children


def aborted_status(run: Json, error: Exception, now: datetime) -> RunStatus:
    """Return the status of a run that the operator failed to reconcile again and again."""
    message = (
        f"Internal error of the operator: {type(error).__name__}: {error}. It failed to reconcile "
        "this run again and again; its log has the traceback. Please report it. Children that may "
        "be left go when the run is deleted."
    )
    draft = StatusDraft(read_status(run), now, generation_of(run))
    ends: tuple[Literal["Complete", "Failed"], ...] = ("Complete", "Failed")
    for end in ends:
        if draft.is_true(end):
            # The outcome stays: only the cleanup failed.
            draft.set_conditions(ConditionUpdate("Finished", "True", end, message))
            return draft.status
    completed_at = draft.status.completion_time or format_time(now)
    draft.update(phase="Failed", completion_time=completed_at)
    draft.set_conditions(
        ConditionUpdate("Failed", "True", "OperatorFailed", message),
        incomplete_condition(draft.status, _scenario_count(run)),
        ConditionUpdate("Finished", "True", "Failed", message),
    )
    return draft.status


def _scenario_count(run: Json) -> int | None:
    """Return how many scenarios the spec requests, or None if it is unreadable."""
    spec = run.get("spec")
    scenarios = spec.get("scenarios") if isinstance(spec, dict) else None
    return len(scenarios) if isinstance(scenarios, list) else None
