"""The end of a run: stop the load, keep the result, delete the children, expire."""

from dataclasses import replace
from datetime import datetime

from inferometer_api.plan.deadlines import FORCED_SECONDS, SERVER_KEPT_SECONDS, STOP_SECONDS
from inferometer_api.results.result import Outcome, OutcomeState
from inferometer_api.results.verdict_sentences import every_scenario
from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.ceilings import kept_seconds
from inferometer_operator.reconcile.children import (
    KINDS_WITH_PODS,
    QUOTA_KIND,
    Children,
    deletion_targets,
    run_children,
)
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    StatusDraft,
    clip,
    incomplete_condition,
    valid_condition,
)
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.load_state import LoadState, load_state
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget, Plan
from inferometer_operator.reconcile.pods import load_pods, own_pods
from inferometer_operator.reconcile.result_state import (
    ResultState,
    is_awaited,
    is_settled,
    result_state,
)
from inferometer_operator.reconcile.store_state import (
    first_delivery,
    kept_until,
    places,
    with_delivery,
)
from inferometer_operator.reconcile.times import add_seconds, seconds_until

_UNSTOPPED = ResultState(
    lost="ResultLost",
    message=f"The load generator did not end within {STOP_SECONDS} s of the request to stop.",
)
_NOT_MEASURED_YET = {"LoadStarting", "Preparing"}


def fail(context: ReconcileContext, reason: ReasonName, message: str) -> Plan:
    """Return the plan that ends a run as Failed now, and what follows from it at once."""
    draft = context.draft
    draft.update(phase="Failed", completion_time=format_time(context.now))
    awaited = not is_settled(context) and load_state(context).stage in {"running", "over"}
    draft.set_conditions(
        ConditionUpdate("Failed", "True", reason, message),
        incomplete_condition(context.status, len(context.run.spec.scenarios), awaited=awaited),
    )
    return finish(context)


def complete(context: ReconcileContext, result: ResultState) -> Plan:
    """Return the plan that ends a run as Complete now, and what follows from it at once."""
    context.draft.update(
        phase="Complete", progress_percent=100, completion_time=format_time(context.now)
    )
    _report_complete(context, result)
    return finish(context)


def finish(context: ReconcileContext) -> Plan:
    """Return what is left to do for a run that is Complete or Failed.

    Nothing that the result needs is deleted before the result is kept or given up.
    """
    draft, load = context.draft, load_state(context)
    if draft.is_true("Finished"):
        left = Plan(context.status, delete=_leftover_targets(context, load))
        return _expire(context, with_delivery(context, left))
    stop_by = add_seconds(_completed_at(context), STOP_SECONDS)
    if load.stage == "running" and context.now < stop_by:
        _report_stopping(draft)
        look = seconds_until(context.now, stop_by)
        return Plan(context.status, stop=load.pod_name, look_again_seconds=min(5.0, look or 5.0))
    if not is_settled(context) and load.stage == "running":
        _record_result(context, _UNSTOPPED)
    if not is_settled(context) and (load.stage == "over" or is_awaited(context.status)):
        result = result_state(context, load, _outcome(context))
        if not result.done:
            return _await_result(context, result)
        _record_result(context, result)
    return first_delivery(context) or with_delivery(context, _clean_up(context, load))


def _await_result(context: ReconcileContext, result: ResultState) -> Plan:
    """Return the plan of a run whose result is awaited; after a minute its server goes."""
    _report_ended(context.draft)
    plan = result.plan(context)
    finished = context.draft.find("Finished")
    since = None if finished is None else parse_time(finished.last_transition_time)
    if since is None or not _cleans(context):
        return plan
    server_goes = add_seconds(since, SERVER_KEPT_SECONDS)
    if context.now < server_goes:
        look = seconds_until(context.now, server_goes) or 0.0
        return replace(plan, look_again_seconds=min(look, plan.look_again_seconds or look))
    servers = (
        (role, child)
        for role, child in run_children(context.observed, context.uid)
        if role == "server"
    )
    return replace(plan, delete=(*plan.delete, *deletion_targets(servers)))


def record_scenarios(draft: StatusDraft, result: ResultState) -> None:
    """Copy the scenarios of a downloaded result to the status."""
    status = draft.status
    scenarios = status.scenarios if result.scenarios is None else list(result.scenarios)
    draft.update(scenarios=scenarios)


def _report_stopping(draft: StatusDraft) -> None:
    if draft.is_true("Measuring"):
        message = "The operator has requested the load generator to stop and to write its result."
        draft.set_conditions(ConditionUpdate("Measuring", "True", "Stopping", message))


def _report_ended(draft: StatusDraft) -> None:
    measuring = draft.find("Measuring")
    if measuring is not None and (
        measuring.status == "True" or measuring.reason in _NOT_MEASURED_YET
    ):
        message = "The load generator has ended."
        draft.set_conditions(ConditionUpdate("Measuring", "False", "Ended", message))


def _outcome(context: ReconcileContext) -> Outcome:
    """Return the outcome of a run for its result document."""
    failed, collected = context.draft.find("Failed"), context.observed.downloaded
    if failed is not None:
        state: OutcomeState = "Interrupted" if failed.reason == "Cancelled" else "Failed"
        return Outcome(state=state, reason=failed.reason, message=failed.message)
    if collected is not None and collected.result is not None:
        return collected.result.head.outcome
    return Outcome(state="Complete", reason="Measured")


def _record_result(context: ReconcileContext, result: ResultState) -> None:
    """Copy what was measured to the status of a run that has ended, and what became of it."""
    draft = context.draft
    if is_awaited(context.status):
        # The time to live counts from here.
        draft.update(completion_time=format_time(context.now))
    if draft.is_true("Complete"):
        _report_complete(context, result)
        return
    record_scenarios(draft, result)
    draft.update(result=result.reference)
    draft.set_conditions(incomplete_condition(context.status, len(context.run.spec.scenarios)))
    failed = draft.find("Failed")
    if result.lost is None or failed is None:
        return
    note = _lost_note(result)
    message = f"{clip(failed.message)[: 4096 - len(note)]}{note}"
    reason: ReasonName = failed.reason  # type: ignore[assignment] # written from ReasonName
    draft.set_conditions(
        ConditionUpdate("Failed", "True", reason, message),
        ConditionUpdate("Finished", "False", result.lost, note.strip()),
    )


def _report_complete(context: ReconcileContext, result: ResultState) -> None:
    """Report what a Complete run measured, and where its result is, as far as that is known."""
    draft, scenarios = context.draft, len(context.run.spec.scenarios)
    record_scenarios(draft, result)
    draft.update(result=result.reference)
    kept = result.reference
    where = "" if kept is None else places(kept)
    message = f"{every_scenario(scenarios)} measured.{where}{_lost_note(result)}"
    reason: ReasonName = result.lost or "Measured"
    draft.set_conditions(ConditionUpdate("Complete", "True", reason, message))
    if result.done or result.reference is not None:
        draft.set_conditions(valid_condition(context.status, scenarios))


def _lost_note(result: ResultState) -> str:
    if result.lost is None:
        return ""
    if result.lost == "ExportFailed":
        return f" {result.message}"[:2048]
    return f" The result document is not kept ({result.lost}): {result.message}"[:2048]


def _clean_up(context: ReconcileContext, load: LoadState) -> Plan:
    """Return the plan that deletes the children, and sets Finished once they are gone."""
    targets = _leftover_targets(context, load)
    draft = context.draft
    _report_ended(draft)
    if draft.is_true("Failed"):
        draft.set_conditions(incomplete_condition(context.status, len(context.run.spec.scenarios)))
    since = _completed_at(context)
    gone_by = [context.gone_deadline(pod, since) for pod in _pods_to_go(context, load)]
    waits = [each for each in gone_by if each > context.now]
    forced = add_seconds(since, FORCED_SECONDS)
    # An object without pods is gone as soon as it is deleted.
    has_pods = any(target.kind in KINDS_WITH_PODS for target in targets)
    if context.now < forced and (has_pods or waits):
        look = seconds_until(context.now, *waits, forced)
        # The quota of the Workload is for the pods.
        targets = tuple(target for target in targets if target.kind != QUOTA_KIND)
        return Plan(context.status, delete=targets, look_again_seconds=look)
    _report_finished(context)
    return _expire(context, Plan(context.status, delete=targets))


def _report_finished(context: ReconcileContext) -> None:
    draft = context.draft
    complete = draft.is_true("Complete")
    cause = draft.find("Complete" if complete else "Failed")
    ready = draft.find("ServerReady")
    if (
        ready is not None
        and context.observed.server_owner is None
        and context.is_launched
        and ready.reason in {"Ready", "ServerStarting"}
    ):
        message = "The run has ended and its server is deleted."
        draft.set_conditions(ConditionUpdate("ServerReady", "False", "CleanedUp", message))
    reason: ReasonName = "Complete" if complete else "Failed"
    message = "" if cause is None else cause.message
    draft.set_conditions(ConditionUpdate("Finished", "True", reason, message))


def _expire(context: ReconcileContext, plan: Plan) -> Plan:
    """Return the plan, which also deletes the run once its TTL is over."""
    ttl_seconds = context.run.spec.retention.ttl_seconds_after_finished
    due = add_seconds(_completed_at(context), kept_seconds(ttl_seconds, context.settings))
    if context.status.result is not None and context.status.result.config_maps:
        due = kept_until(context.raw, context.settings, due)
    if context.now < due:
        look = seconds_until(context.now, due)
        looks = [each for each in (plan.look_again_seconds, look) if each is not None]
        return replace(plan, look_again_seconds=min(looks, default=None))
    return replace(plan, delete=(DeletionTarget("BenchmarkRun", context.name, context.uid),))


def _cleans(context: ReconcileContext) -> bool:
    match context.run.spec.retention.cleanup:
        case "Always":
            return True
        case "OnSuccess":
            return context.draft.is_true("Complete")
        case "Never":
            return False


def _may_send_load(load: LoadState) -> bool:
    """Return whether a load pod works or may still start: it would disturb the next run."""
    match load.stage:
        case "starting" | "running":
            return True
        case "lost":
            return load.pod is not None and not pods.is_over(load.pod)
        case "absent" | "over":
            return False


def _leftover_targets(context: ReconcileContext, load: LoadState) -> tuple[DeletionTarget, ...]:
    """Return the children to delete now by the run's cleanup policy.

    A Job that may still send load is deleted under every policy.
    """
    children: Children = run_children(context.observed, context.uid)
    if not _cleans(context):
        children = tuple(
            (role, child) for role, child in children if role == "load" and _may_send_load(load)
        )
    return deletion_targets(children)


def _pods_to_go(context: ReconcileContext, load: LoadState) -> tuple[Json, ...]:
    """Return the pods of the children that are deleted."""
    if _cleans(context):
        return own_pods(context)
    return load_pods(context) if _may_send_load(load) else ()


def _completed_at(context: ReconcileContext) -> datetime:
    return parse_time(context.status.completion_time) or context.now
