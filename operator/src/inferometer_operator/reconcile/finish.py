"""What is left to do for a run that has ended: stop, collect, clean up, forget?"""

from dataclasses import replace
from datetime import datetime

from inferometer_api.plan.deadlines import FORCED_SECONDS, STOP_SECONDS
from inferometer_api.results.result import Outcome
from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    clip,
    find_condition,
    is_true,
    with_conditions,
)
from inferometer_operator.reconcile.context import ReconcileContext, gone_deadline, is_deleting
from inferometer_operator.reconcile.load_state import LoadState, load_state
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import load_pods, own_pods
from inferometer_operator.reconcile.plan import Plan, Target
from inferometer_operator.reconcile.progress import final_figures
from inferometer_operator.reconcile.result_state import ResultState, result_state
from inferometer_operator.reconcile.times import add_seconds, format_time, parse_time, seconds_until
from inferometer_operator.reconcile.verdict import incomplete_condition

_WORKED = {"LoadStarting", "Preparing"}


def fail(context: ReconcileContext, status: RunStatus, reason: ReasonName, message: str) -> Plan:
    """Return the plan that ends a run as Failed now, and what follows from it at once."""
    asked = len(context.run.spec.scenarios)
    status = status.model_copy(
        update={"phase": "Failed", "completion_time": format_time(context.now)}
    )
    status = with_conditions(
        status,
        context.moment,
        ConditionUpdate("Failed", "True", reason, message),
        incomplete_condition(status, asked),
    )
    return finish(replace(context, before=status))


def is_decided(status: RunStatus) -> bool:
    """Whether it is decided how a run ended."""
    return is_true(status, "Complete") or is_true(status, "Failed")


def finish(context: ReconcileContext) -> Plan:
    """Return what is left to do for a run of which it is decided how it ended."""
    status = context.before
    load = load_state(context)
    if is_true(status, "Finished"):
        return _forgotten(context, Plan(status, delete=_leftovers(context, load)))
    stop_by = add_seconds(_completed_at(context), STOP_SECONDS)
    if load.stage == "running" and context.now < stop_by:
        status = _stopping(context)
        look = seconds_until(context.now, stop_by)
        return Plan(status, stop=load.pod_name, look_again_seconds=min(5.0, look or 5.0))
    if load.stage == "over" and status.result is None and is_true(status, "Failed"):
        found = result_state(context, load, _outcome(status))
        if not found.done:
            return found.plan(status)
        context = replace(context, before=_with_collected(context, found))
    return _cleaned(context, load)


def _stopping(context: ReconcileContext) -> RunStatus:
    if not is_true(context.before, "Measuring"):
        return context.before
    words = "The load generator was asked to end and to hand over what it measured."
    return with_conditions(
        context.before, context.moment, ConditionUpdate("Measuring", "True", "Stopping", words)
    )


def _outcome(status: RunStatus) -> Outcome:
    """Return how a failed run ended, as its result tells it."""
    found = find_condition(status, "Failed")
    reason, message = ("Failed", "") if found is None else (found.reason, found.message)
    return Outcome(
        state="Interrupted" if reason == "Cancelled" else "Failed", reason=reason, message=message
    )


def _with_collected(context: ReconcileContext, found: ResultState) -> RunStatus:
    """Return the status of a failed run with what was measured until its end."""
    status = with_result_scenarios(context.before, found)
    told_before = find_condition(status, "Failed")
    if found.lost is None or told_before is None:
        status = status.model_copy(update={"result": found.kept})
        return with_conditions(
            status, context.moment, incomplete_condition(status, len(context.run.spec.scenarios))
        )
    note = f" The result document is not kept ({found.lost}): {found.message}"
    message = told_before.message
    if note not in message:
        message = f"{clip(message)[: 4096 - len(note)]}{note}"
    reason: ReasonName = told_before.reason  # type: ignore[assignment] # written from ReasonName
    return with_conditions(
        status,
        context.moment,
        ConditionUpdate("Failed", "True", reason, message),
        incomplete_condition(status, len(context.run.spec.scenarios)),
    )


def with_result_scenarios(status: RunStatus, found: ResultState) -> RunStatus:
    """Return the status with the scenarios of a collected result."""
    scenarios = status.scenarios if found.scenarios is None else list(found.scenarios)
    update = {"scenarios": scenarios, "display": final_figures(scenarios) or status.display}
    return status.model_copy(update=update)


def _cleaned(context: ReconcileContext, load: LoadState) -> Plan:
    """Return the plan that deletes what is not kept, and says Finished when it is gone."""
    targets = _leftovers(context, load)
    status = context.before
    measuring = find_condition(status, "Measuring")
    if measuring is not None and (measuring.status == "True" or measuring.reason in _WORKED):
        words = "The load generator has ended."
        status = with_conditions(
            status, context.moment, ConditionUpdate("Measuring", "False", "Ended", words)
        )
    since = _completed_at(context)
    gone_by = [gone_deadline(pod, since) for pod in _pods_to_go(context, load)]
    waits = [each for each in gone_by if each > context.now]
    forced = add_seconds(since, FORCED_SECONDS)
    # What has no pods is gone as soon as it is deleted.
    lasting = any(target.kind in {"Job", "Deployment"} for target in targets)
    if context.now < forced and (lasting or waits):
        look = seconds_until(context.now, *waits, forced)
        return Plan(status, delete=targets, look_again_seconds=look)
    return _forgotten(context, Plan(_finished(context, status), delete=targets))


def _finished(context: ReconcileContext, status: RunStatus) -> RunStatus:
    complete = is_true(status, "Complete")
    because = find_condition(status, "Complete" if complete else "Failed")
    message = "" if because is None else because.message
    ready = find_condition(status, "ServerReady")
    if (
        ready is not None
        and context.observed.deployment is None
        and context.launched
        and (ready.reason in {"Ready", "ServerStarting"})
    ):
        words = "The run has ended and its server is deleted."
        status = with_conditions(
            status, context.moment, ConditionUpdate("ServerReady", "False", "CleanedUp", words)
        )
    reason: ReasonName = "Complete" if complete else "Failed"
    return with_conditions(
        status, context.moment, ConditionUpdate("Finished", "True", reason, message)
    )


def _forgotten(context: ReconcileContext, plan: Plan) -> Plan:
    """Return the plan with the run's own end, where it has lived as long as it was asked to."""
    due = add_seconds(_completed_at(context), context.run.spec.retention.ttl_seconds_after_finished)
    if context.now < due:
        return replace(plan, look_again_seconds=seconds_until(context.now, due))
    return replace(plan, delete=(Target("BenchmarkRun", context.name, context.uid),))


def _cleans(context: ReconcileContext) -> bool:
    match context.run.spec.retention.cleanup:
        case "Always":
            return True
        case "OnSuccess":
            return is_true(context.before, "Complete")
        case "Never":
            return False


def _may_send_load(load: LoadState) -> bool:
    """Whether a load pod works, or may start yet: it would measure beside the next run."""
    match load.stage:
        case "starting" | "running":
            return True
        case "lost":
            return load.pod is not None and not pods.is_over(load.pod)
        case "absent" | "over":
            return False


def _leftovers(context: ReconcileContext, load: LoadState) -> tuple[Target, ...]:
    """Return what is to be deleted and is not being deleted yet.

    That goes by the run's policy; only a Job that may still send load is never kept.
    """
    observed = context.observed
    if not _cleans(context):
        return _target(context, "Job", context.load, observed.job) if _may_send_load(load) else ()
    return (
        *_target(context, "Job", context.load, observed.job),
        *_target(context, "Deployment", context.server, observed.deployment),
        *_target(context, "ConfigMap", context.load, observed.plan_map),
        *_target(context, "Service", context.fleet, observed.fleet_service),
    )


def _pods_to_go(context: ReconcileContext, load: LoadState) -> tuple[Json, ...]:
    """Return the pods that go with what is deleted."""
    if _cleans(context):
        return own_pods(context)
    return load_pods(context) if _may_send_load(load) else ()


def _target(
    context: ReconcileContext, kind: str, name: str, found: Json | None
) -> tuple[Target, ...]:
    if found is None or is_deleting(found) or not context.owns(found):
        return ()
    uid = str(found["metadata"].get("uid", ""))
    match kind:
        case "Job" | "Deployment" | "ConfigMap" | "Service":
            return (Target(kind, name, uid),)
        case _:
            raise ValueError(f"{kind} is no kind of child.")


def _completed_at(context: ReconcileContext) -> datetime:
    return parse_time(context.before.completion_time) or context.now
