"""Faults of children that cannot be created, and their reasons."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from inferometer_api.plan.deadlines import NAMESAKE_SECONDS
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.reconcile.context import ReconcileContext, creation_time
from inferometer_operator.reconcile.faults import RunFault, make_fault
from inferometer_operator.reconcile.observed import CreateRefusal, Json
from inferometer_operator.reconcile.pods import is_replica_set_of
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
    """Return why `child` ("Deployment/NAME") was not created; `requests` follows its name."""
    kind, _, name = child.partition("/")
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


def replica_failure(deployment: Json) -> str | None:
    """Return why a Deployment's pods cannot be created, or None if they can."""
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason") or "no reason given")
    return None


def job_create_failure(events: Iterable[Json], job: Json) -> str | None:
    """Return the last message about this Job's pod that could not be created."""
    uid = job["metadata"].get("uid")
    return _last(_failed_creates(events, "Job"), lambda event: _about(event).get("uid") == uid)


def replica_set_create_failure(events: Iterable[Json], deployment: Json) -> str | None:
    """Return the last message about a pod of this Deployment that could not be created.

    Its ReplicaSet is known by name alone: older events belong to an earlier one of that name.
    """
    metadata = deployment["metadata"]
    made = creation_time(deployment)

    def is_its_own(event: Json) -> bool:
        at = _event_time(event)
        fresh = at is None or made is None or at >= made
        return fresh and is_replica_set_of(str(_about(event).get("name")), str(metadata["name"]))

    return _last(_failed_creates(events, "ReplicaSet"), is_its_own)


def mount_failure(events: Iterable[Json], pod_uid: str) -> str | None:
    """Return the last message of a kubelet that could not mount a pod's volumes."""
    mounts = (each for each in events if each.get("reason") in _MOUNTS)
    return _last(mounts, lambda event: _about(event).get("uid") == pod_uid)


def _failed_creates(events: Iterable[Json], kind: str) -> Iterator[Json]:
    for event in events:
        if event.get("reason") == "FailedCreate" and _about(event).get("kind") == kind:
            yield event


def _last(events: Iterable[Json], counts: Callable[[Json], bool]) -> str | None:
    messages = [
        str(each.get("message") or each.get("note") or "") for each in events if counts(each)
    ]
    return messages[-1] if messages else None


def _about(event: Json) -> Json:
    found: Json = event.get("involvedObject") or event.get("regarding") or {}
    return found


def _event_time(event: Json) -> datetime | None:
    """Return the last time of an event, or None if it has none."""
    return (
        parse_time(event.get("lastTimestamp"))
        or parse_time(event.get("eventTime"))
        or creation_time(event)
    )
