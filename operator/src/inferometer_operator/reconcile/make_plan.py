"""What is to be done for a run now, given all that the cluster says of it?"""

from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from inferometer_api.spec.run import Retention
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.acceptance import Rejection, find_rejection, parse_run
from inferometer_operator.reconcile.advance import advance, fail_if_too_old
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    find_condition,
    is_true,
    read_status,
    with_conditions,
)
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting, moment_of
from inferometer_operator.reconcile.events import run_events
from inferometer_operator.reconcile.finish import fail, finish, is_decided
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import Plan, Target
from inferometer_operator.reconcile.queueing import with_queue_position
from inferometer_operator.reconcile.suspend import hold, is_rolling_back, roll_back
from inferometer_operator.reconcile.times import add_seconds, format_time, parse_time, seconds_until
from inferometer_operator.reconcile.verdict import incomplete_condition
from inferometer_operator.settings import Settings

CANCELLED = "The run was cancelled (spec.cancel)."


def make_plan(run: Json, observed: Observed, settings: Settings, now: datetime, token: str) -> Plan:
    """Return what is to be done for a run now; the same for the same arguments.

    `run` is the raw object, valid or not. `token` is a secret that a new plan gives to whoever may
    stop its load generator. Once a plan is carried out and nothing else has changed, the next one
    holds no write.
    """
    before = read_status(run)
    if is_deleting(run):
        # Its children have it as owner, and go with it.
        return Plan(before)
    accepted = parse_run(run)
    if isinstance(accepted, Rejection):
        decided = _rejected(run, before, accepted, observed, now)
        scenarios = 0
    else:
        context = ReconcileContext(
            run, accepted, _observing(run, before), observed, settings, now, token
        )
        decided = _decided(context)
        scenarios = len(accepted.spec.scenarios)
    return replace(decided, events=run_events(before, decided.status, scenarios))


def _decided(context: ReconcileContext) -> Plan:
    if is_decided(context.before):
        return finish(context)
    if context.before.start_time is None:
        return _waiting(context)
    if is_rolling_back(context):
        return fail_if_too_old(context) or roll_back(context)
    return advance(context)


def _observing(run: Json, before: RunStatus) -> RunStatus:
    generation = run["metadata"].get("generation")
    return before.model_copy(
        update={"observed_generation": generation if isinstance(generation, int) else None}
    )


def _waiting(context: ReconcileContext) -> Plan:
    """Return the plan of a run that has not begun."""
    status = context.before.model_copy(update={"phase": context.before.phase or "Pending"})
    refusal = find_rejection(context)
    if refusal is not None and refusal.may_appear:
        return Plan(status, look_again_seconds=1.0)
    if refusal is not None:
        return fail(context, _not_accepted(context, refusal), refusal.reason, refusal.message)
    spec = context.run.spec
    if spec.cancel:
        accepted = ConditionUpdate("Accepted", "True", "Cancelled", CANCELLED)
        return fail(
            context, with_conditions(status, context.moment, accepted), "Cancelled", CANCELLED
        )
    if spec.suspend:
        return hold(context)
    if not context.observed.queue_position.admitted:
        status, look = with_queue_position(status, context.observed.queue_position, context.moment)
        return Plan(status, look_again_seconds=look)
    status = status.model_copy(update={"phase": "Starting", "start_time": format_time(context.now)})
    words = "The spec is valid and allowed; the run goes on."
    status = with_conditions(
        status, context.moment, ConditionUpdate("Accepted", "True", "Accepted", words)
    )
    return advance(replace(context, before=status))


def _not_accepted(context: ReconcileContext, refusal: Rejection) -> RunStatus:
    accepted = ConditionUpdate("Accepted", "False", refusal.reason, refusal.message)
    return with_conditions(context.before, context.moment, accepted)


def _rejected(
    run: Json, before: RunStatus, refusal: Rejection, observed: Observed, now: datetime
) -> Plan:
    """Return the plan of a run that nobody can read: it fails, and lives as long as it was asked.

    Whatever an operator that could read it has begun is deleted.
    """
    moment = moment_of(run, now)
    status = _observing(run, before)
    if not is_decided(status):
        status = status.model_copy(update={"phase": "Failed", "completion_time": format_time(now)})
        status = with_conditions(
            status,
            moment,
            ConditionUpdate("Accepted", "False", refusal.reason, refusal.message),
            ConditionUpdate("Failed", "True", refusal.reason, refusal.message),
            incomplete_condition(status, None),
        )
    if not is_true(status, "Finished"):
        because = find_condition(status, "Failed") or find_condition(status, "Complete")
        words = "" if because is None else because.message
        status = with_conditions(
            status, moment, ConditionUpdate("Finished", "True", "Failed", words)
        )
    due = add_seconds(
        parse_time(status.completion_time) or now, _retention(run).ttl_seconds_after_finished
    )
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
        if child is None or is_deleting(child):
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
