"""How does a run end that the operator itself cannot carry out, by a fault of its own?"""

from datetime import datetime

from inferometer_api.status import RunStatus
from inferometer_operator.reconcile.conditions import Moment, Told, status_of, told
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.times import stamp


def given_up(run: Json, error: Exception, now: datetime) -> RunStatus:
    """Return the status of a run at which the operator failed again and again."""
    message = (
        f"The operator failed at this run again and again, by a fault of its own: "
        f"{type(error).__name__}: {error}. Its log says where. Please report it; "
        "children that may be left go when the run is deleted."
    )
    before = status_of(run)
    status = before.model_copy(
        update={
            "phase": "Failed",
            "completion_time": before.completion_time or stamp(now),
            "observed_generation": run["metadata"].get("generation"),
        }
    )
    return told(
        status,
        Moment(now, run["metadata"].get("generation")),
        Told("Failed", "True", "OperatorFailed", message),
        Told("Finished", "True", "Failed", message),
    )
