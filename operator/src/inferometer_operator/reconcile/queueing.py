"""What does a run tell while it waits for its turn?"""

import re
from datetime import UTC, datetime

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    Moment,
    find_condition,
    with_conditions,
)
from inferometer_operator.reconcile.observed import QueuePosition

_AS_OF = re.compile(r"\(as of (\d{4}-\d{2}-\d{2}T\d{2}:\d{2})Z\)")


def with_queue_position(
    status: RunStatus, turn: QueuePosition, moment: Moment
) -> tuple[RunStatus, float | None]:
    """Return the status of a run that waits, and when to look at it again.

    Its position is written at most once a minute.
    """
    minute = moment.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
    place = f"Position {turn.position} of those that wait for their turn"
    behind = f"; {turn.ahead} is before it" if turn.ahead else ""
    status = status.model_copy(update={"phase": "Queued"})
    before = find_condition(status, "Accepted")
    if before is not None and before.reason == "Queued":
        written = _AS_OF.search(before.message)
        same = before.message.startswith(f"{place} ") and behind in before.message
        if same:
            return _kept(status, moment, before.message), None
        if written is not None and written[1] == minute:
            return _kept(status, moment, before.message), 60.0 - _second(moment.now)
    message = f"{place} (as of {minute}Z){behind}."
    return with_conditions(
        status, moment, ConditionUpdate("Accepted", "True", "Queued", message)
    ), None


def _kept(status: RunStatus, moment: Moment, message: str) -> RunStatus:
    return with_conditions(status, moment, ConditionUpdate("Accepted", "True", "Queued", message))


def _second(now: datetime) -> float:
    return now.second + now.microsecond / 1e6
