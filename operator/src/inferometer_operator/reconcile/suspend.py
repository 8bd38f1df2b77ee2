"""What becomes of a run that is suspended before it measures?"""

from datetime import UTC, datetime

from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    find_condition,
    with_conditions,
    without_conditions,
)
from inferometer_operator.reconcile.context import ReconcileContext, gone_deadline, is_deleting
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import own_pods
from inferometer_operator.reconcile.plan import Plan, Target

_HELD = (
    "The run is held, since spec.suspend is true. Set it to false to let the run go on; its "
    "deadline does not count meanwhile."
)


def hold(context: ReconcileContext) -> Plan:
    """Return the plan of a run that has not begun, and shall not begin now."""
    status = context.before.model_copy(update={"phase": "Suspended"})
    return Plan(
        with_conditions(
            status, context.moment, ConditionUpdate("Accepted", "True", "Suspended", _HELD)
        )
    )


def is_rolling_back(context: ReconcileContext) -> bool:
    """Whether what was begun is being taken back."""
    accepted = find_condition(context.before, "Accepted")
    return accepted is not None and accepted.reason == "Suspended"


def roll_back(context: ReconcileContext) -> Plan:
    """Return the plan that deletes what was made before a measurement, so that it can begin anew.

    Once nothing is left the status is that of a run which never began.
    """
    plan = hold(context)
    observed = context.observed
    children: tuple[tuple[Json | None, Target | None], ...] = (
        _child(context, observed.job, "Job"),
        _child(context, observed.deployment, "Deployment"),
        _child(context, observed.plan_map, "ConfigMap"),
        _child(context, observed.fleet_service, "Service"),
    )
    left = [found for found, _ in children if found is not None]
    pods = [pod for pod in own_pods(context) if not _is_given_up(context, pod)]
    if left or pods:
        return Plan(
            plan.status,
            delete=tuple(target for _, target in children if target is not None),
            look_again_seconds=5.0,
        )
    status = without_conditions(plan.status, "ServerReady", "Measuring")
    # It may go on again already, and nobody is told of a status of one's own.
    return Plan(status.model_copy(update={"start_time": None}), look_again_seconds=0.1)


def _is_given_up(context: ReconcileContext, pod: Json) -> bool:
    gone_by = gone_deadline(pod, datetime.min.replace(tzinfo=UTC))
    return is_deleting(pod) and context.now >= gone_by


def _child(
    context: ReconcileContext, found: Json | None, kind: str
) -> tuple[Json | None, Target | None]:
    if found is None or not context.owns(found):
        return None, None
    uid, name = str(found["metadata"].get("uid", "")), str(found["metadata"]["name"])
    if is_deleting(found):
        return found, None
    match kind:
        case "Job" | "Deployment" | "ConfigMap" | "Service":
            return found, Target(kind, name, uid)
        case _:
            raise ValueError(f"{kind} is no kind of child.")
