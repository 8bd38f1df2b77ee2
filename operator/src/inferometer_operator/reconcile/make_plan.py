"""The one decision of the operator: what to do for a run now, given the observed state."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from inferometer_api.spec.scenario import Scenario
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.reconcile.acceptance import Rejection, find_rejection, parse_run
from inferometer_operator.reconcile.admission import (
    accepted_condition,
    await_admission,
    workload_report,
)
from inferometer_operator.reconcile.advance import advance, fail_if_too_old
from inferometer_operator.reconcile.ceilings import kept_seconds
from inferometer_operator.reconcile.children import deletion_targets, run_children
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    StatusDraft,
    generation_of,
    incomplete_condition,
    is_decided,
    read_status,
)
from inferometer_operator.reconcile.context import ReconcileContext, is_deleting
from inferometer_operator.reconcile.display import with_display
from inferometer_operator.reconcile.events import run_events
from inferometer_operator.reconcile.expiry import read_retention
from inferometer_operator.reconcile.finish import fail, finish
from inferometer_operator.reconcile.node_wait import back_off
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import DeletionTarget, Plan
from inferometer_operator.reconcile.queue_position import report_queue_position
from inferometer_operator.reconcile.status_size import fit_status
from inferometer_operator.reconcile.suspend import hold, roll_back
from inferometer_operator.reconcile.times import add_seconds, seconds_until
from inferometer_operator.settings import Settings

_CANCELLED = "The run was cancelled (spec.cancel)."


def make_plan(run: Json, observed: Observed, settings: Settings, now: datetime, token: str) -> Plan:
    """Return what to do for a run now; the same for the same arguments.

    `run` is the raw object, valid or not. `token` is the bearer token that a new plan gives to its
    load generator. Once a plan is carried out and nothing else has changed, the next plan holds no
    write.
    """
    before = read_status(run)
    if is_deleting(run):
        # Its children have it as owner: the garbage collector deletes them.
        return Plan(before)
    draft = StatusDraft(before, now, generation_of(run))
    accepted = parse_run(run, begun=before.start_time is not None)
    if isinstance(accepted, Rejection):
        plan = _reject(run, draft, accepted, observed, settings, now)
        scenarios: Sequence[Scenario] = ()
    else:
        context = ReconcileContext(run, accepted, draft, observed, settings, now, token)
        plan = _continue(context)
        plan = replace(plan, workload=workload_report(context))
        scenarios = accepted.spec.scenarios
    status = fit_status(with_display(plan.status, scenarios))
    return replace(plan, status=status, events=run_events(before, status, len(scenarios)))


def _continue(context: ReconcileContext) -> Plan:
    if is_decided(context.status):
        return finish(context)
    if context.status.start_time is None:
        return _begin(context)
    accepted = context.draft.find("Accepted")
    match None if accepted is None else accepted.reason:
        case "Suspended":
            return fail_if_too_old(context) or roll_back(context)
        case "WaitingForNodes":
            return roll_back(context)
        case _:
            return advance(context)


def _begin(context: ReconcileContext) -> Plan:
    """Return the plan of a run that has not begun."""
    draft, spec = context.draft, context.run.spec
    rejection = find_rejection(context)
    if rejection is not None and not rejection.may_appear:
        draft.set_conditions(
            ConditionUpdate("Accepted", "False", rejection.reason, rejection.message)
        )
        return fail(context, rejection.reason, rejection.message)
    draft.update(phase=context.status.phase or "Pending")
    if rejection is not None:
        return Plan(context.status, look_again_seconds=1.0)
    if spec.cancel:
        draft.set_conditions(ConditionUpdate("Accepted", "True", "Cancelled", _CANCELLED))
        return fail(context, "Cancelled", _CANCELLED)
    if spec.suspend:
        return hold(context)
    return await_admission(context) or _start(context)


def _start(context: ReconcileContext) -> Plan:
    """Return the plan of a run that begins, or waits for its turn."""
    draft = context.draft
    if not context.observed.queue_position.admitted:
        return _wait(context)
    draft.update(phase="Starting", start_time=format_time(context.now))
    draft.set_conditions(accepted_condition(context))
    return advance(context)


def _wait(context: ReconcileContext) -> Plan:
    """Return the plan of a run that has no turn yet."""
    if pausing := back_off(context):
        return pausing
    report_queue_position(context.draft, context.observed.queue_position, context.now)
    return Plan(context.status)


def _reject(
    run: Json,
    draft: StatusDraft,
    rejection: Rejection,
    observed: Observed,
    settings: Settings,
    now: datetime,
) -> Plan:
    """Return the plan of a run with an unreadable spec: it fails, and is deleted by its TTL.

    The children that an operator of another version created are deleted.
    """
    if not is_decided(draft.status):
        draft.update(phase="Failed", completion_time=format_time(now))
        draft.set_conditions(
            ConditionUpdate("Accepted", "False", rejection.reason, rejection.message),
            ConditionUpdate("Failed", "True", rejection.reason, rejection.message),
            incomplete_condition(draft.status, None),
        )
    if not draft.is_true("Finished"):
        cause = draft.find("Failed") or draft.find("Complete")
        message = "" if cause is None else cause.message
        draft.set_conditions(ConditionUpdate("Finished", "True", "Failed", message))
    completed_at = parse_time(draft.status.completion_time) or now
    ttl_seconds = read_retention(run).ttl_seconds_after_finished
    due = add_seconds(completed_at, kept_seconds(ttl_seconds, settings))
    metadata = run["metadata"]
    if now >= due:
        gone = DeletionTarget("BenchmarkRun", str(metadata["name"]), str(metadata["uid"]))
        return Plan(draft.status, delete=(gone,))
    targets = deletion_targets(run_children(observed, metadata["uid"]))
    return Plan(draft.status, delete=targets, look_again_seconds=seconds_until(now, due))
