"""The plans for a run that is suspended before it measures, and for any run that is rolled back."""

from inferometer_operator.reconcile.children import deletion_targets, run_children
from inferometer_operator.reconcile.conditions import ConditionUpdate
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.pods import own_pods

_SUSPENDED = (
    "The run is suspended because spec.suspend is true. Set it to false to let the run continue. "
    "Its deadline does not count meanwhile."
)


def hold(context: ReconcileContext) -> Plan:
    """Return the plan of a suspended run that has not begun."""
    context.draft.update(phase="Suspended")
    context.draft.set_conditions(ConditionUpdate("Accepted", "True", "Suspended", _SUSPENDED))
    # Before it begins, a run has no other child than its Workload.
    return Plan(
        context.status, delete=deletion_targets(run_children(context.observed, context.uid))
    )


def roll_back(context: ReconcileContext) -> Plan:
    """Return the plan that deletes a run's children before it measures, so that it can start again.

    Once nothing is left, the status is that of a run that never began. The condition Accepted says
    why; the caller sets it.
    """
    children = run_children(context.observed, context.uid)
    with_pods = tuple(each for each in children if each[0] != "workload")
    if with_pods or any(not _is_lost(context, pod) for pod in own_pods(context)):
        return Plan(context.status, delete=deletion_targets(with_pods), look_again_seconds=5.0)
    accepted = context.draft.find("Accepted")
    if children and accepted is not None and accepted.reason != "WaitingForNodes":
        # A run that is tried again keeps its quota; one that is suspended does not.
        return Plan(context.status, delete=deletion_targets(children), look_again_seconds=0.1)
    context.draft.remove_conditions("ServerReady", "Measuring")
    context.draft.update(start_time=None, nodes=[])
    # The run may be resumed already, and no watch reports the operator's own status write.
    return Plan(context.status, look_again_seconds=0.1)


def _is_lost(context: ReconcileContext, pod: Json) -> bool:
    return is_deleting(pod) and context.now >= context.gone_deadline(pod)
