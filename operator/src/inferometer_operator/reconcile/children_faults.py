"""Why does a child of a run not come to be: who refuses it, and can that heal?

The API server refuses Deployment, Job and ConfigMaps themselves; their pods are refused to the
controllers that make them, which tell it in a condition or in an event.
"""

import re
from collections.abc import Iterable

from inferometer_api.deadlines import NAMESAKE_SECONDS
from inferometer_api.reasons import REASONS, ReasonName
from inferometer_operator.reconcile.case import Case
from inferometer_operator.reconcile.faults import Fault, fault
from inferometer_operator.reconcile.observed import Json, Refusal
from inferometer_operator.reconcile.times import later, stamp

_CLASH_CODE = 409

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
"""What the messages of the API server's admission say, by reason."""


def refused_child(case: Case, child: str, refusal: Refusal, asked: str) -> Fault:
    """Return why an object was not made; `child` is "Deployment/NAME", `asked` what it asks for."""
    kind, _, name = child.partition("/")
    if refusal.code == _CLASH_CODE:
        return _clash(case, kind, name, refusal)
    found = f"The API server refuses the {kind} {name}{asked}: {refusal.message}"
    return fault(reason_of(refusal.message), found)


def _clash(case: Case, kind: str, name: str, refusal: Refusal) -> Fault:
    found = f"The run needs a {kind} of the name {name}, but there is one that is not the run's"
    until = later(refusal.since, NAMESAKE_SECONDS)
    if case.now >= until or not _goes(case, refusal.holder):
        return fault("NameClash", found)
    message = (
        f"{found}. It is about to go, or is left from an earlier run of that name: it is waited "
        f"for until {stamp(until)}. {REASONS['NameClash'].remedy}"
    )
    return Fault("NameClash", message, ends=False, until=until)


def _goes(case: Case, holder: Json | None) -> bool:
    """Whether an object goes by itself: it is being deleted, or its run was and had this name."""
    if holder is None or holder.get("deletionTimestamp"):
        return True
    return any(
        owner.get("controller")
        and owner.get("kind") == "BenchmarkRun"
        and owner.get("name") == case.name
        and owner.get("uid") != case.uid
        for owner in holder.get("ownerReferences") or ()
    )


def refused_pods(who: str, message: str, asked: str) -> Fault:
    """Return why a controller cannot make the pods of a child."""
    found = f"The {who}'s pod cannot be made{asked}: {message}"
    return fault(reason_of(message), found)


def reason_of(message: str) -> ReasonName:
    """Return who refuses an object, by the API server's words."""
    for reason, pattern in _SIGNS:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    return "CreationRefused"


def replica_failure(deployment: Json) -> str | None:
    """Return why a Deployment's pods cannot be made, None where they can."""
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason") or "no reason was told")
    return None


def failed_create(events: Iterable[Json], kind: str, uid: str) -> str | None:
    """Return the last that a controller said when it could not make a pod of an object."""
    found = None
    for event in events:
        about = event.get("involvedObject") or event.get("regarding") or {}
        if event.get("reason") == "FailedCreate" and about.get("kind") == kind:
            if uid and about.get("uid") not in {uid, None}:
                continue
            found = str(event.get("message") or event.get("note") or "")
    return found


def failed_mount(events: Iterable[Json], pod_uid: str) -> str | None:
    """Return the last that a kubelet said when it could not mount a pod's volumes."""
    found = None
    for event in events:
        about = event.get("involvedObject") or event.get("regarding") or {}
        if about.get("uid") == pod_uid and event.get("reason") in {
            "FailedMount",
            "FailedAttachVolume",
        }:
            found = str(event.get("message") or event.get("note") or "")
    return found
