"""What is to be done for a run now, given all that the cluster says of it?"""

from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from inferometer_api.spec.run import Retention
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.acceptance import NotAccepted, not_accepted, parsed
from inferometer_operator.reconcile.case import Case, deleting, moment_of
from inferometer_operator.reconcile.conditions import Told, condition, holds, status_of, told
from inferometer_operator.reconcile.ending import ended, failed, has_ended
from inferometer_operator.reconcile.events import events_of
from inferometer_operator.reconcile.holding import held, is_taken_back, taken_back
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import Plan, Target
from inferometer_operator.reconcile.queueing import queued
from inferometer_operator.reconcile.running import running, too_old
from inferometer_operator.reconcile.times import later, read, seconds_until, stamp
from inferometer_operator.reconcile.verdict import not_complete
from inferometer_operator.settings import Settings

CANCELLED = "The run was cancelled (spec.cancel)."


def plan(run: Json, observed: Observed, settings: Settings, now: datetime, token: str) -> Plan:
    """Return what is to be done for a run now; the same for the same arguments.

    `run` is the raw object, valid or not. `token` is a secret that a new plan gives to whoever may
    stop its load generator. Once a plan is carried out and nothing else has changed, the next one
    holds no write.
    """
    before = status_of(run)
    if deleting(run):
        # Its children have it as owner, and go with it.
        return Plan(before)
    accepted = parsed(run)
    if isinstance(accepted, NotAccepted):
        decided = _rejected(run, before, accepted, observed, now)
        scenarios = 0
    else:
        case = Case(run, accepted, _observing(run, before), observed, settings, now, token)
        decided = _decided(case)
        scenarios = len(accepted.spec.scenarios)
    return replace(decided, events=events_of(before, decided.status, scenarios))


def _decided(case: Case) -> Plan:
    if has_ended(case.before):
        return ended(case)
    if case.before.start_time is None:
        return _waiting(case)
    if is_taken_back(case):
        return too_old(case) or taken_back(case)
    return running(case)


def _observing(run: Json, before: RunStatus) -> RunStatus:
    generation = run["metadata"].get("generation")
    return before.model_copy(
        update={"observed_generation": generation if isinstance(generation, int) else None}
    )


def _waiting(case: Case) -> Plan:
    """Return the plan of a run that has not begun."""
    status = case.before.model_copy(update={"phase": case.before.phase or "Pending"})
    refusal = not_accepted(case)
    if refusal is not None and refusal.may_appear:
        return Plan(status, look_again_seconds=1.0)
    if refusal is not None:
        return failed(case, _not_accepted(case, refusal), refusal.reason, refusal.message)
    spec = case.run.spec
    if spec.cancel:
        accepted = Told("Accepted", "True", "Cancelled", CANCELLED)
        return failed(case, told(status, case.moment, accepted), "Cancelled", CANCELLED)
    if spec.suspend:
        return held(case)
    if not case.observed.turn.admitted:
        status, look = queued(status, case.observed.turn, case.moment)
        return Plan(status, look_again_seconds=look)
    status = status.model_copy(update={"phase": "Starting", "start_time": stamp(case.now)})
    words = "The spec is valid and allowed; the run goes on."
    status = told(status, case.moment, Told("Accepted", "True", "Accepted", words))
    return running(replace(case, before=status))


def _not_accepted(case: Case, refusal: NotAccepted) -> RunStatus:
    accepted = Told("Accepted", "False", refusal.reason, refusal.message)
    return told(case.before, case.moment, accepted)


def _rejected(
    run: Json, before: RunStatus, refusal: NotAccepted, observed: Observed, now: datetime
) -> Plan:
    """Return the plan of a run that nobody can read: it fails, and lives as long as it was asked.

    Whatever an operator that could read it has begun is deleted.
    """
    moment = moment_of(run, now)
    status = _observing(run, before)
    if not has_ended(status):
        status = status.model_copy(update={"phase": "Failed", "completion_time": stamp(now)})
        status = told(
            status,
            moment,
            Told("Accepted", "False", refusal.reason, refusal.message),
            Told("Failed", "True", refusal.reason, refusal.message),
            not_complete(status, None),
        )
    if not holds(status, "Finished"):
        because = condition(status, "Failed") or condition(status, "Complete")
        words = "" if because is None else because.message
        status = told(status, moment, Told("Finished", "True", "Failed", words))
    due = later(read(status.completion_time) or now, _retention(run).ttl_seconds_after_finished)
    if now >= due:
        metadata = run["metadata"]
        gone = Target("BenchmarkRun", str(metadata["name"]), str(metadata["uid"]))
        return Plan(status, delete=(gone,))
    return Plan(status, delete=_begun(run, observed), look_again_seconds=seconds_until(now, due))


def _begun(run: Json, observed: Observed) -> tuple[Target, ...]:
    uid = run["metadata"]["uid"]
    found: list[Target] = []
    for kind, child in (
        ("Job", observed.job),
        ("Deployment", observed.deployment),
        ("ConfigMap", observed.plan_map),
        ("Service", observed.fleet_service),
    ):
        if child is None or deleting(child):
            continue
        metadata = child["metadata"]
        if any(owner.get("uid") == uid for owner in metadata.get("ownerReferences") or ()):
            found.append(Target(kind, str(metadata["name"]), str(metadata.get("uid", ""))))  # type: ignore[arg-type] # one of those above
    return tuple(found)


def _retention(run: Json) -> Retention:
    spec = run.get("spec")
    try:
        return Retention.model_validate(spec.get("retention") or {} if spec else {}, by_name=False)
    except (ValidationError, AttributeError):
        return Retention()
