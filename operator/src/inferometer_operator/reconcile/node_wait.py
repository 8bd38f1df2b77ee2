"""The plans for a run whose pods find no nodes: it goes back to the queue and is tried again."""

from zlib import crc32

from inferometer_api.plan.deadlines import LONGEST_NODE_RETRY_SECONDS, NODE_RETRY_SECONDS
from inferometer_api.status.condition_reasons import REASONS
from inferometer_api.status.run_status import NodeWait
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.reconcile.conditions import ConditionUpdate
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.faults import RunFault
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.suspend import roll_back
from inferometer_operator.reconcile.times import add_seconds, seconds_until

_SPREAD = 0.25
"""How much longer than the pause a run waits at most: two runs that have taken nodes from each
other do not meet again."""


def wait_for_nodes(context: ReconcileContext, found: RunFault) -> Plan:
    """Return the plan that deletes a run's children and puts it back into the queue.

    `found` is what the scheduler said. Nothing was measured yet.
    """
    before = context.status.waiting_for_nodes
    attempts = 1 if before is None else before.attempts + 1
    now = format_time(context.now)
    since = (before and before.since) or context.status.start_time or now
    retry = add_seconds(context.now, retry_seconds(attempts, context.uid))
    wait = NodeWait(attempts=attempts, since=since, retry_time=format_time(retry))
    context.draft.update(phase="Queued", waiting_for_nodes=wait)
    words = found.message.removesuffix(REASONS[found.reason].remedy).strip()
    times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    message = (
        f"{words} The run waits for nodes since {since} ({times}). It is tried again at "
        f"{wait.retry_time}, or when another run ends. {REASONS['WaitingForNodes'].remedy}"
    )
    context.draft.set_conditions(ConditionUpdate("Accepted", "True", "WaitingForNodes", message))
    return roll_back(context)


def back_off(context: ReconcileContext) -> Plan | None:
    """Return the plan of a run that pauses because it found no nodes; None for any other."""
    wait = context.status.waiting_for_nodes
    retry = None if wait is None else parse_time(wait.retry_time)
    if wait is None or retry is None:
        return None
    if context.now < retry and not context.observed.queue_position.nodes_freed:
        return Plan(context.status, look_again_seconds=seconds_until(context.now, retry))
    context.draft.update(waiting_for_nodes=wait.model_copy(update={"retry_time": None}))
    # No watch reports the operator's own status write.
    return Plan(context.status, look_again_seconds=0.1)


def retry_seconds(attempts: int, run_uid: str) -> float:
    """Return the pause after so many attempts: 30 s, doubled with each, at most 300 s.

    Up to a quarter is added, which differs from run to run.
    """
    doubled: int = NODE_RETRY_SECONDS * 2 ** min(attempts - 1, 10)
    share = crc32(run_uid.encode()) % 1000 / 1000
    return min(doubled, LONGEST_NODE_RETRY_SECONDS) * (1 + _SPREAD * share)
