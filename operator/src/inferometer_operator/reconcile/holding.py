"""What becomes of a run that is suspended before it measures?"""

from datetime import UTC, datetime

from inferometer_operator.reconcile.case import Case, deleting, given_up_at
from inferometer_operator.reconcile.conditions import Told, condition, told, without
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import own_pods
from inferometer_operator.reconcile.plan import Plan, Target

_HELD = (
    "The run is held, since spec.suspend is true. Set it to false to let the run go on; its "
    "deadline does not count meanwhile."
)


def held(case: Case) -> Plan:
    """Return the plan of a run that has not begun, and shall not begin now."""
    status = case.before.model_copy(update={"phase": "Suspended"})
    return Plan(told(status, case.moment, Told("Accepted", "True", "Suspended", _HELD)))


def is_taken_back(case: Case) -> bool:
    """Whether what was begun is being taken back."""
    accepted = condition(case.before, "Accepted")
    return accepted is not None and accepted.reason == "Suspended"


def taken_back(case: Case) -> Plan:
    """Return the plan that deletes what was made before a measurement, so that it can begin anew.

    Once nothing is left the status is that of a run which never began.
    """
    plan = held(case)
    observed = case.observed
    children: tuple[tuple[Json | None, Target | None], ...] = (
        _child(case, observed.job, "Job"),
        _child(case, observed.deployment, "Deployment"),
        _child(case, observed.plan_map, "ConfigMap"),
        _child(case, observed.fleet_service, "Service"),
    )
    left = [found for found, _ in children if found is not None]
    pods = [pod for pod in own_pods(case) if not _is_given_up(case, pod)]
    if left or pods:
        return Plan(
            plan.status,
            delete=tuple(target for _, target in children if target is not None),
            look_again_seconds=5.0,
        )
    status = without(plan.status, "ServerReady", "Measuring")
    # It may go on again already, and nobody is told of a status of one's own.
    return Plan(status.model_copy(update={"start_time": None}), look_again_seconds=0.1)


def _is_given_up(case: Case, pod: Json) -> bool:
    gone_by = given_up_at(pod, datetime.min.replace(tzinfo=UTC))
    return deleting(pod) and case.now >= gone_by


def _child(case: Case, found: Json | None, kind: str) -> tuple[Json | None, Target | None]:
    if found is None or not case.owns(found):
        return None, None
    uid, name = str(found["metadata"].get("uid", "")), str(found["metadata"]["name"])
    if deleting(found):
        return found, None
    match kind:
        case "Job" | "Deployment" | "ConfigMap" | "Service":
            return found, Target(kind, name, uid)
        case _:
            raise ValueError(f"{kind} is no kind of child.")
