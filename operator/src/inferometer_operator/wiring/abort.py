"""How does a run end that the operator itself cannot carry out, by a fault of its own?"""

from datetime import datetime
from typing import Literal

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    Moment,
    is_true,
    read_status,
    with_conditions,
)
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.times import format_time
from inferometer_operator.reconcile.verdict import incomplete_condition


def aborted_status(run: Json, error: Exception, now: datetime) -> RunStatus:
    """Return the status of a run at which the operator failed again and again."""
    message = (
        f"The operator failed at this run again and again, by a fault of its own: "
        f"{type(error).__name__}: {error}. Its log says where. Please report it; "
        "children that may be left go when the run is deleted."
    )
    before = read_status(run)
    generation = run["metadata"].get("generation")
    moment = Moment(now, generation)
    ends: tuple[Literal["Complete", "Failed"], ...] = ("Complete", "Failed")
    for end in ends:
        if is_true(before, end):
            # How it ended stays told: only the cleaning up failed.
            return with_conditions(
                before, moment, ConditionUpdate("Finished", "True", end, message)
            )
    status = before.model_copy(
        update={
            "phase": "Failed",
            "completion_time": before.completion_time or format_time(now),
            "observed_generation": generation,
        }
    )
    return with_conditions(
        status,
        moment,
        ConditionUpdate("Failed", "True", "OperatorFailed", message),
        incomplete_condition(status, _asked(run)),
        ConditionUpdate("Finished", "True", "Failed", message),
    )


def _asked(run: Json) -> int | None:
    """Return how many scenarios were asked for, None where nobody can tell."""
    spec = run.get("spec")
    scenarios = spec.get("scenarios") if isinstance(spec, dict) else None
    return len(scenarios) if isinstance(scenarios, list) else None
