"""Admission of a run by Kueue: it waits, may begin, or is evicted.

A run with the label kueue.x-k8s.io/queue-name has a Workload. No other child of it exists before
Kueue has admitted the Workload, and its end ends the run.
"""

from dataclasses import replace
from typing import Any

from inferometer_api.plan.cluster_objects import (
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
    workload_name,
)
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.manifests.workload import WorkloadPriority, workload
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.child_faults import child_fault
from inferometer_operator.reconcile.children import deletion_targets, run_children
from inferometer_operator.reconcile.conditions import ConditionUpdate, is_decided
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting
from inferometer_operator.reconcile.finish import fail
from inferometer_operator.reconcile.model_manifest import node_requirements
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget, Plan, WorkloadReport
from inferometer_operator.reconcile.pods import own_pods
from inferometer_operator.reconcile.queue_position import ADMISSION_WAITS
from inferometer_operator.reconcile.workload_state import (
    assigned_flavors,
    condition_of,
    describe_eviction,
    has_condition,
    is_active,
    is_for_kueue,
    queue_name,
    run_label,
)

_KUEUE_RIGHTS = (
    "Grant the operator the rights that the chart creates with kueue.enabled, or set kueue.enabled "
    "to false."
)
_KUEUE_SECONDS, _MAX_KUEUE_SECONDS = 5.0, 60.0
"""How often to look again for what no watch reports, classes and flavors: less often as a run ages.
"""


def await_admission(context: ReconcileContext) -> Plan | None:
    """Return the plan of a run that has not begun and waits for Kueue; None: it may go on."""
    held = context.observed.workload
    if not is_for_kueue(context):
        leaves = held is not None and not is_deleting(held) and not queue_name(context.raw)
        return _leave_kueue(context) if leaves else _join_queue(context)
    if context.observed.kueue is not None and context.observed.kueue.refusal:
        # To begin would be to bypass its quota.
        message = (
            "The operator may not see Workloads, so Kueue cannot admit the run: "
            f"{context.observed.kueue.refusal} {_KUEUE_RIGHTS}"
        )
        return _wait(context, "AdmissionPending", message, look_again_seconds=_KUEUE_SECONDS)
    if held is None or is_deleting(held):
        return _create(context, workload_name(context.name), goes=held is not None)
    return _await_workload(context, held) or _await_flavors(context, held) or _join_queue(context)


def accepted_condition(context: ReconcileContext) -> ConditionUpdate:
    """Return the condition Accepted of a run that begins."""
    if is_for_kueue(context):
        queue = queue_name(context.raw)
        message = f"The spec is valid and allowed. Kueue has admitted the run in {queue}."
        return ConditionUpdate("Accepted", "True", "Admitted", f"{message} It begins.")
    message = "The spec is valid and allowed. The run begins."
    if not queue_name(context.raw):
        return ConditionUpdate("Accepted", "True", "Accepted", message)
    why = (
        "Kueue is not installed in this cluster"
        if context.settings.kueue.enabled
        else "the operator's setting kueue.enabled is false"
    )
    note = f"Its label {QUEUE_NAME_LABEL} has no effect: {why}."
    return ConditionUpdate("Accepted", "True", "Accepted", f"{message} {note}")


def workload_report(context: ReconcileContext) -> WorkloadReport | None:
    """Return the conditions to write to the run's Workload, or None if there is nothing new.

    Finished frees its quota. PodsReady keeps a Kueue that waits for it from an eviction.
    """
    held, draft = context.observed.workload, context.draft
    if held is None or is_deleting(held) or has_condition(held, "Finished"):
        return None
    if is_decided(context.status) and _holds_no_node(context):
        reason = "Succeeded" if draft.is_true("Complete") else "Failed"
        cause = draft.find("Complete") or draft.find("Failed")
        message = "" if cause is None else cause.message[:1024]
        kind = "Finished"
    elif draft.is_true("Measuring") and not has_condition(held, "PodsReady"):
        kind, reason, message = "PodsReady", "PodsReady", "The run measures."
    else:
        return None
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(context.now),
    }
    metadata = held["metadata"]
    return WorkloadReport(str(metadata["name"]), str(metadata["uid"]), (condition,))


def _holds_no_node(context: ReconcileContext) -> bool:
    """Return whether no pod of a decided run has a node, or will have one."""
    finished = context.draft.find("Finished")
    if finished is None or finished.status == "True":
        return finished is not None
    return not any(pods.is_live(pod) or is_deleting(pod) for pod in own_pods(context))


def _create(context: ReconcileContext, name: str, *, goes: bool) -> Plan:
    """Return the plan that creates the Workload, once an earlier one is gone."""
    wanted = run_label(context.raw, PRIORITY_CLASS_LABEL)
    found = None if context.observed.kueue is None else context.observed.kueue.priority_class
    if wanted and found is None:
        message = f"The WorkloadPriorityClass {wanted} of its label does not exist."
        return _wait(context, "Inadmissible", message, look_again_seconds=_kueue_seconds(context))
    message = f"{_waits(context)}."
    if goes:
        return _wait(context, "AdmissionPending", message)
    refusal = context.observed.refused.get(f"Workload/{name}")
    fault = None if refusal is None else child_fault(context, f"Workload/{name}", refusal, "")
    if fault is not None and fault.ends:
        return fail(context, fault.reason, fault.message)
    made = workload(
        context.run,
        context.owner,
        context.settings,
        queue=queue_name(context.raw),
        priority=WorkloadPriority(wanted, int(found["value"])) if found is not None else None,
        requirements=node_requirements(context),
    )
    message = message if fault is None else fault.message
    return _wait(context, "AdmissionPending", message, create=(made,))


def _await_workload(context: ReconcileContext, held: Json) -> Plan | None:
    """Return the plan of a run whose Workload is not admitted, or no longer."""
    name, reserved = str(held["metadata"]["name"]), has_condition(held, "QuotaReserved")
    if not is_active(held):
        if reserved:
            return fail(context, "Preempted", describe_eviction(held))
        message = f"The Workload {name} is deactivated (spec.active is false)."
        return _wait(context, "Inadmissible", message)
    if has_condition(held, "Finished") or (has_condition(held, "Evicted") and reserved):
        # Kueue keeps the quota of an evicted Workload until its owner lets go of it.
        target = DeletionTarget("Workload", name, str(held["metadata"]["uid"]))
        message = f"{describe_eviction(held)} Nothing had begun: the run waits for Kueue again."
        # No watch reports the operator's own deletion.
        return _wait(context, "AdmissionPending", message, delete=(target,), look_again_seconds=0.1)
    if has_condition(held, "Admitted"):
        return None
    found = condition_of(held, "QuotaReserved")
    words = str(found.get("message") or "").strip()
    if found.get("reason") == "Inadmissible" and not reserved:
        return _wait(context, "Inadmissible", f"Kueue cannot admit the run: {words}.")
    if reserved:
        words = f"quota is reserved, and admission checks are awaited: {_open_checks(held)}"
    quoted = f": {words}" if words else ""
    return _wait(context, "AdmissionPending", f"{_waits(context)}{quoted}.")


def _waits(context: ReconcileContext) -> str:
    name = workload_name(context.name)
    return f"The run waits in {queue_name(context.raw)} for Kueue to admit its Workload {name}"


def _open_checks(held: Json) -> str:
    checks = (held.get("status") or {}).get("admissionChecks") or ()
    words = (f"{each.get('name')} is {each.get('state')}" for each in checks)
    return ", ".join(each for each in words if not each.endswith(" Ready"))


def _await_flavors(context: ReconcileContext, held: Json) -> Plan | None:
    """Return the plan of a run that lacks a flavor: its pods would be on other nodes."""
    flavors = context.observed.kueue_flavors
    missing = [each for each in assigned_flavors(held) if flavors.get(each) is None]
    if not missing:
        return None
    message = (
        f"Kueue has admitted the run, but its ResourceFlavor {missing[0]} does not exist, or the "
        "operator may not read it."
    )
    return _wait(context, "AdmissionPending", message, look_again_seconds=_kueue_seconds(context))


def _kueue_seconds(context: ReconcileContext) -> float:
    created = parse_time(context.raw["metadata"].get("creationTimestamp"))
    age_seconds = 0.0 if created is None else (context.now - created).total_seconds()
    return min(_MAX_KUEUE_SECONDS, max(_KUEUE_SECONDS, age_seconds / 2))


def _wait(context: ReconcileContext, reason: ReasonName, message: str, **more: Any) -> Plan:
    context.draft.update(phase="Queued")
    remedy = REASONS[reason].remedy if reason == "Inadmissible" else ""
    message = f"{message} {remedy}".strip()
    context.draft.set_conditions(ConditionUpdate("Accepted", "True", reason, message))
    return Plan(context.status, **more)


def _leave_kueue(context: ReconcileContext) -> Plan:
    """Return the plan of a run whose label is gone: its Workload would hold quota for ever."""
    joined = _join_queue(context) or Plan(context.status, look_again_seconds=0.1)
    return replace(joined, delete=deletion_targets(run_children(context.observed, context.uid)))


def _join_queue(context: ReconcileContext) -> Plan | None:
    """Return the plan of a run that waits for Kueue no longer: it joins the operator's queue."""
    accepted = context.draft.find("Accepted")
    if accepted is None or accepted.reason not in ADMISSION_WAITS:
        return None
    context.draft.update(phase="Queued")
    message = "The run waits for its turn."
    context.draft.set_conditions(ConditionUpdate("Accepted", "True", "Queued", message))
    # No watch reports the operator's own status write.
    return Plan(context.status, look_again_seconds=0.1)
