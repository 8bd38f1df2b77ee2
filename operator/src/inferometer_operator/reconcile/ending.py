"""What is left to do for a run that has ended: stop, collect, clean up, forget?"""

from dataclasses import replace
from datetime import datetime

from inferometer_api.plan.deadlines import FORCED_SECONDS, STOP_SECONDS
from inferometer_api.results.result import Outcome
from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.case import Case, deleting, given_up_at
from inferometer_operator.reconcile.collecting import Collection, collection
from inferometer_operator.reconcile.conditions import Told, clipped, condition, holds, told
from inferometer_operator.reconcile.loading import Loading, loading
from inferometer_operator.reconcile.measuring import shown_of
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.owned import load_pods, own_pods
from inferometer_operator.reconcile.plan import Plan, Target
from inferometer_operator.reconcile.times import later, read, seconds_until, stamp
from inferometer_operator.reconcile.verdict import not_complete

_WORKED = {"LoadStarting", "Preparing"}


def failed(case: Case, status: RunStatus, reason: ReasonName, message: str) -> Plan:
    """Return the plan that ends a run as Failed now, and what follows from it at once."""
    asked = len(case.run.spec.scenarios)
    status = status.model_copy(update={"phase": "Failed", "completion_time": stamp(case.now)})
    status = told(
        status,
        case.moment,
        Told("Failed", "True", reason, message),
        not_complete(status, asked),
    )
    return ended(replace(case, before=status))


def has_ended(status: RunStatus) -> bool:
    """Whether it is decided how a run ended."""
    return holds(status, "Complete") or holds(status, "Failed")


def ended(case: Case) -> Plan:
    """Return what is left to do for a run of which it is decided how it ended."""
    status = case.before
    load = loading(case)
    if holds(status, "Finished"):
        return _forgotten(case, Plan(status, delete=_leftovers(case, load)))
    stop_by = later(_completed_at(case), STOP_SECONDS)
    if load.stage == "running" and case.now < stop_by:
        status = _stopping(case)
        look = seconds_until(case.now, stop_by)
        return Plan(status, stop=load.pod_name, look_again_seconds=min(5.0, look or 5.0))
    if load.stage == "over" and status.result is None and holds(status, "Failed"):
        found = collection(case, load, _outcome(status))
        if not found.done:
            return found.plan(status)
        case = replace(case, before=_with_collected(case, found))
    return _cleaned(case, load)


def _stopping(case: Case) -> RunStatus:
    if not holds(case.before, "Measuring"):
        return case.before
    words = "The load generator was asked to end and to hand over what it measured."
    return told(case.before, case.moment, Told("Measuring", "True", "Stopping", words))


def _outcome(status: RunStatus) -> Outcome:
    """Return how a failed run ended, as its result tells it."""
    found = condition(status, "Failed")
    reason, message = ("Failed", "") if found is None else (found.reason, found.message)
    return Outcome(
        state="Interrupted" if reason == "Cancelled" else "Failed", reason=reason, message=message
    )


def _with_collected(case: Case, found: Collection) -> RunStatus:
    """Return the status of a failed run with what was measured until its end."""
    status = with_scenarios(case.before, found)
    told_before = condition(status, "Failed")
    if found.lost is None or told_before is None:
        status = status.model_copy(update={"result": found.kept})
        return told(status, case.moment, not_complete(status, len(case.run.spec.scenarios)))
    note = f" The result document is not kept ({found.lost}): {found.message}"
    message = told_before.message
    if note not in message:
        message = f"{clipped(message)[: 4096 - len(note)]}{note}"
    reason: ReasonName = told_before.reason  # type: ignore[assignment] # written from ReasonName
    return told(
        status,
        case.moment,
        Told("Failed", "True", reason, message),
        not_complete(status, len(case.run.spec.scenarios)),
    )


def with_scenarios(status: RunStatus, found: Collection) -> RunStatus:
    """Return the status with the scenarios of a collected result."""
    scenarios = status.scenarios if found.scenarios is None else list(found.scenarios)
    update = {"scenarios": scenarios, "shown": shown_of(scenarios) or status.shown}
    return status.model_copy(update=update)


def _cleaned(case: Case, load: Loading) -> Plan:
    """Return the plan that deletes what is not kept, and says Finished when it is gone."""
    targets = _leftovers(case, load)
    status = case.before
    measuring = condition(status, "Measuring")
    if measuring is not None and (measuring.status == "True" or measuring.reason in _WORKED):
        words = "The load generator has ended."
        status = told(status, case.moment, Told("Measuring", "False", "Ended", words))
    since = _completed_at(case)
    gone_by = [given_up_at(pod, since) for pod in _pods_to_go(case, load)]
    waits = [each for each in gone_by if each > case.now]
    forced = later(since, FORCED_SECONDS)
    # What has no pods is gone as soon as it is deleted.
    lasting = any(target.kind in {"Job", "Deployment"} for target in targets)
    if case.now < forced and (lasting or waits):
        look = seconds_until(case.now, *waits, forced)
        return Plan(status, delete=targets, look_again_seconds=look)
    return _forgotten(case, Plan(_finished(case, status), delete=targets))


def _finished(case: Case, status: RunStatus) -> RunStatus:
    complete = holds(status, "Complete")
    because = condition(status, "Complete" if complete else "Failed")
    message = "" if because is None else because.message
    ready = condition(status, "ServerReady")
    if (
        ready is not None
        and case.observed.deployment is None
        and case.launched
        and (ready.reason in {"Ready", "ServerStarting"})
    ):
        words = "The run has ended and its server is deleted."
        status = told(status, case.moment, Told("ServerReady", "False", "CleanedUp", words))
    reason: ReasonName = "Complete" if complete else "Failed"
    return told(status, case.moment, Told("Finished", "True", reason, message))


def _forgotten(case: Case, plan: Plan) -> Plan:
    """Return the plan with the run's own end, where it has lived as long as it was asked to."""
    due = later(_completed_at(case), case.run.spec.retention.ttl_seconds_after_finished)
    if case.now < due:
        return replace(plan, look_again_seconds=seconds_until(case.now, due))
    return replace(plan, delete=(Target("BenchmarkRun", case.name, case.uid),))


def _cleans(case: Case) -> bool:
    match case.run.spec.retention.cleanup:
        case "Always":
            return True
        case "OnSuccess":
            return holds(case.before, "Complete")
        case "Never":
            return False


def _may_send_load(load: Loading) -> bool:
    """Whether a load pod works, or may start yet: it would measure beside the next run."""
    match load.stage:
        case "starting" | "running":
            return True
        case "lost":
            return load.pod is not None and not pods.is_over(load.pod)
        case "absent" | "over":
            return False


def _leftovers(case: Case, load: Loading) -> tuple[Target, ...]:
    """Return what is to be deleted and is not being deleted yet.

    That goes by the run's policy; only a Job that may still send load is never kept.
    """
    observed = case.observed
    if not _cleans(case):
        return _target(case, "Job", case.load, observed.job) if _may_send_load(load) else ()
    return (
        *_target(case, "Job", case.load, observed.job),
        *_target(case, "Deployment", case.server, observed.deployment),
        *_target(case, "ConfigMap", case.load, observed.plan_map),
        *_target(case, "Service", case.fleet, observed.fleet_service),
    )


def _pods_to_go(case: Case, load: Loading) -> tuple[Json, ...]:
    """Return the pods that go with what is deleted."""
    if _cleans(case):
        return own_pods(case)
    return load_pods(case) if _may_send_load(load) else ()


def _target(case: Case, kind: str, name: str, found: Json | None) -> tuple[Target, ...]:
    if found is None or deleting(found) or not case.owns(found):
        return ()
    uid = str(found["metadata"].get("uid", ""))
    match kind:
        case "Job" | "Deployment" | "ConfigMap" | "Service":
            return (Target(kind, name, uid),)
        case _:
            raise ValueError(f"{kind} is no kind of child.")


def _completed_at(case: Case) -> datetime:
    return read(case.before.completion_time) or case.now
