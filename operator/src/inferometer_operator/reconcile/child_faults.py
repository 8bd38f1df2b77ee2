"""Faults of children that cannot be created, and their reasons."""

import re
from collections.abc import Collection, Iterable

from inferometer_api.plan.deadlines import NAMESAKE_SECONDS
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.faults import RunFault, make_fault
from inferometer_operator.reconcile.observed import NOT_REMOVED, CreateRefusal, Json
from inferometer_operator.reconcile.times import add_seconds

_CLASH_CODE = 409
_MOUNTS = {"FailedMount", "FailedAttachVolume"}

_SIGNS: tuple[tuple[ReasonName, str], ...] = (
    ("QuotaExceeded", r"exceeded quota|failed quota|insufficient quota"),
    (
        "LimitRangeRefused",
        r"(maximum|minimum) [\w./-]+ usage per |limit to request ratio per ",
    ),
    (
        "AdmissionRefused",
        r"violates |admission webhook|calling webhook|ValidatingAdmissionPolicy|denied ",
    ),
)
"""Patterns in the messages of the API server's admission, by reason."""


def child_fault(
    context: ReconcileContext, child: str, refusal: CreateRefusal, requests: str
) -> RunFault:
    """Return why `child` ("Job/NAME") was not created; `requests` follows its name."""
    kind, _, name = child.partition("/")
    if refusal.reason == NOT_REMOVED:
        return make_fault("ImageNotRemoved", refusal.message)
    if refusal.code == _CLASH_CODE:
        return _clash(context, kind, name, refusal)
    found = f"The API server refuses the {kind} {name}{requests}: {refusal.message}"
    return make_fault(reason_of(refusal.message), found)


def _clash(context: ReconcileContext, kind: str, name: str, refusal: CreateRefusal) -> RunFault:
    found = f"The run needs a {kind} named {name}, but one exists that is not the run's"
    until = add_seconds(refusal.since, NAMESAKE_SECONDS)
    if context.now >= until or not _goes(context, refusal.holder):
        return make_fault("NameClash", found)
    message = (
        f"{found}. It is being deleted, or left from an earlier run of that name: the run waits "
        f"for it until {format_time(until)}. {REASONS['NameClash'].remedy}"
    )
    return RunFault("NameClash", message, ends=False, until=until)


def _goes(context: ReconcileContext, holder: Json | None) -> bool:
    """Return whether an object goes by itself.

    It is being deleted, or belongs to an earlier run of the same name.
    """
    if holder is None or holder.get("deletionTimestamp"):
        return True
    return any(
        owner.get("controller")
        and owner.get("kind") == "BenchmarkRun"
        and owner.get("name") == context.name
        and owner.get("uid") != context.uid
        for owner in holder.get("ownerReferences") or ()
    )


def pod_creation_fault(who: str, message: str, requests: str) -> RunFault:
    """Return why a controller cannot create the pods of a child."""
    found = f"The {who}'s pod cannot be made{requests}: {message}"
    return make_fault(reason_of(message), found)


def reason_of(message: str) -> ReasonName:
    """Return the reason for the API server's message."""
    for reason, pattern in _SIGNS:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    return "CreationRefused"


def has_ended(job: Json) -> bool:
    """Return whether a Job has ended, or lost a pod: none is replaced."""
    status = job.get("status") or {}
    return bool(status.get("failed") or status.get("succeeded")) or any(
        each.get("type") in {"Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"}
        and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )


def pod_create_failure(events: Iterable[Json], job: Json) -> str | None:
    """Return the last message about a pod of this Job that could not be created."""
    return _last_message(events, {"FailedCreate"}, job["metadata"].get("uid"))


def mount_failure(events: Iterable[Json], pod_uid: str) -> str | None:
    """Return the last message of a kubelet that could not mount a pod's volumes."""
    return _last_message(events, _MOUNTS, pod_uid)


def _last_message(events: Iterable[Json], reasons: Collection[str], uid: object) -> str | None:
    messages = [
        str(each.get("message") or each.get("note") or "")
        for each in events
        if each.get("reason") in reasons and _about(each).get("uid") == uid
    ]
    return messages[-1] if messages else None


def _about(event: Json) -> Json:
    found: Json = event.get("involvedObject") or event.get("regarding") or {}
    return found
