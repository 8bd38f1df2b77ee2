"""State of a run's Workload, as Kueue writes it, and what its admission means for the run."""

from collections.abc import Iterator
from typing import Any

from inferometer_api.plan.cluster_objects import QUEUE_NAME_LABEL, workload_name
from inferometer_operator.manifests.workload import PodAdditions
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting
from inferometer_operator.reconcile.faults import RunFault, make_fault
from inferometer_operator.reconcile.observed import Json


def is_for_kueue(context: ReconcileContext) -> bool:
    """Return whether Kueue must admit the run."""
    return bool(queue_name(context.raw)) and context.observed.kueue is not None


def queue_name(run: Json) -> str:
    """Return the LocalQueue in the label of a raw run, empty without one."""
    return run_label(run, QUEUE_NAME_LABEL)


def run_label(run: Json, name: str) -> str:
    """Return a label of a raw run, empty without it."""
    return str((run["metadata"].get("labels") or {}).get(name, ""))


def eviction_fault(context: ReconcileContext) -> RunFault | None:
    """Return that Kueue has evicted a run that it had admitted, or None.

    The run's label may be gone since: its pods have quota all the same.
    """
    accepted, held = context.draft.find("Accepted"), context.observed.workload
    if context.observed.kueue is None:
        return None
    if held is None or is_deleting(held):
        if accepted is None or accepted.reason != "Admitted" or context.observed.kueue.refusal:
            # It began without Kueue, or it is unknown whether its Workload is there.
            return None
        gone = f"The Workload {workload_name(context.name)} was deleted, and its quota with it"
        return make_fault("Preempted", gone)
    if has_condition(held, "Admitted") and not has_condition(held, "Evicted") and is_active(held):
        return None
    return make_fault("Preempted", describe_eviction(held))


def pod_additions(context: ReconcileContext, pod_set: str) -> PodAdditions | None:
    """Return what Kueue adds to the pods of a set; None: it cannot be read now."""
    held = context.observed.workload
    if held is None or is_deleting(held) or context.observed.kueue is None:
        return PodAdditions()
    flavors = [context.observed.kueue_flavors.get(name) for name in _flavors(held, pod_set)]
    if None in flavors:
        return None
    selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    for flavor in flavors:
        spec = (flavor or {}).get("spec") or {}
        selector |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for update in _pod_set_updates(held, pod_set):
        selector |= update.get("nodeSelector") or {}
        tolerations += update.get("tolerations") or ()
        labels |= update.get("labels") or {}
        annotations |= update.get("annotations") or {}
    distinct = tuple(each for at, each in enumerate(tolerations) if each not in tolerations[:at])
    return PodAdditions(selector, distinct, labels, annotations)


def assigned_flavors(held: Json) -> tuple[str, ...]:
    """Return the names of the flavors that Kueue has assigned to the pods of a raw Workload."""
    names = (name for each in _assignments(held) for name in _flavors(held, str(each["name"])))
    return tuple(dict.fromkeys(names))


def describe_eviction(held: Json) -> str:
    """Return why Kueue took its admission back, in its own words."""
    found = condition_of(held, "Evicted")
    words = str(found.get("message") or "").strip().rstrip(".")
    reason = str(found.get("reason") or "")
    if not words and not is_active(held):
        words = "it is deactivated (spec.active is false)"
    because = f" ({reason})" if reason else ""
    return (
        f"Kueue evicted the Workload {held['metadata']['name']}{because}: {words or 'no reason'}."
    )


def is_active(held: Json) -> bool:
    """Return whether a Workload may be admitted."""
    return (held.get("spec") or {}).get("active") is not False


def condition_of(held: Json, kind: str) -> Json:
    """Return a condition of a Workload, empty if it has none of that type."""
    conditions = (held.get("status") or {}).get("conditions") or ()
    found: Json = next((each for each in conditions if each.get("type") == kind), {})
    return found


def has_condition(held: Json, kind: str) -> bool:
    """Return whether a condition of a Workload is True."""
    return condition_of(held, kind).get("status") == "True"


def _assignments(held: Json) -> list[Json]:
    admission = (held.get("status") or {}).get("admission") or {}
    return list(admission.get("podSetAssignments") or ())


def _flavors(held: Json, pod_set: str) -> tuple[str, ...]:
    """Return the flavors of a pod set, each once: one may be assigned for several resources."""
    names = (
        name
        for each in _assignments(held)
        if each.get("name") == pod_set
        for name in (each.get("flavors") or {}).values()
    )
    return tuple(dict.fromkeys(names))


def _pod_set_updates(held: Json, pod_set: str) -> Iterator[Json]:
    for check in (held.get("status") or {}).get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") == pod_set:
                yield update
