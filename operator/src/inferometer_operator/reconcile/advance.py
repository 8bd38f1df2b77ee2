"""How does a run that has begun go on: serve, measure, judge?"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import ConditionType, Phase, RunStatus
from inferometer_operator.reconcile.agent_assignment import backend_nodes
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    Value,
    find_condition,
    is_true,
    with_conditions,
)
from inferometer_operator.reconcile.context import ReconcileContext, creation_time
from inferometer_operator.reconcile.faults import Fault
from inferometer_operator.reconcile.finish import fail, finish, with_result_scenarios
from inferometer_operator.reconcile.load_state import (
    LoadChildren,
    LoadState,
    load_state,
    plan_load_children,
)
from inferometer_operator.reconcile.outcome import load_outcome, reason_of
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.progress import (
    load_was_sent,
    measuring_condition,
    merge_report,
    progress_under_load,
)
from inferometer_operator.reconcile.result_state import ResultState, result_state
from inferometer_operator.reconcile.server_state import ServerState, server_state
from inferometer_operator.reconcile.suspend import roll_back
from inferometer_operator.reconcile.times import add_seconds, format_time, parse_time, seconds_until
from inferometer_operator.reconcile.verdict import valid_condition

_MOST_NODES = 16
"""As many as the status takes."""


def advance(context: ReconcileContext) -> Plan:
    """Return the plan of a run that has begun and of which it is not decided how it ends."""
    served, load = server_state(context), load_state(context)
    if load.stage == "over":
        return _concluded(context, load, served)
    status = merge_report(context.before, context.observed.report, context.run.spec)
    context = replace(context, before=status)
    if plan := _asked_to_end(context, load, served):
        return plan
    for kind, found in _faults(served, load):
        if found.ends or context.now >= _limit(context, kind, found):
            works = load.stage == "running" and is_true(status, kind)
            return _failed(context, None if works and found is load.fault else kind, found)
    if plan := _too_late(context, load, served):
        return plan
    return _going_on(context, load, served)


def _asked_to_end(context: ReconcileContext, load: LoadState, served: ServerState) -> Plan | None:
    """Return the plan of an end that somebody asked for, None where nobody did."""
    spec = context.run.spec
    if spec.cancel:
        return fail(context, context.before, "Cancelled", "The run was cancelled (spec.cancel).")
    if spec.suspend and not _may_have_begun(context, load, served):
        return roll_back(context)
    if spec.suspend:
        words = (
            "The run was suspended (spec.suspend) after it had begun to measure, so that it ends "
            "here: nothing is measured twice in silence. Create a new run to measure again."
        )
        return fail(context, context.before, "Suspended", words)
    return fail_if_too_old(context)


def fail_if_too_old(context: ReconcileContext) -> Plan | None:
    """Return the plan of a run that is past its deadline, None of another."""
    if context.run.spec.suspend or context.now < _deadline(context):
        return None
    words = (
        f"The run was not done after {context.run.spec.active_deadline_seconds} s "
        "(spec.activeDeadlineSeconds): raise it, or ask for shorter scenarios."
    )
    return fail(context, context.before, "DeadlineExceeded", words)


def _may_have_begun(context: ReconcileContext, load: LoadState, served: ServerState) -> bool:
    """Whether load may have been sent: what a load generator told is some seconds old."""
    report = context.observed.report
    if is_true(context.before, "Measuring") or load_was_sent(report):
        return True
    if load.stage != "running":
        return False
    if context.launched:
        return served.ready
    progress = None if report is None else report.progress
    return progress is None or progress.stage != "WaitingForServer"


def _limit(context: ReconcileContext, kind: ConditionType, found: Fault) -> datetime:
    """Return when a fault that may heal ends the run."""
    if found.until is not None:
        return found.until
    job = creation_time(context.observed.job)
    if job is None or kind == "ServerReady":
        return context.ready_deadline
    # The load generator may begin late, where the server took its time.
    return max(context.ready_deadline, add_seconds(job, _ready_seconds(context)))


def _faults(served: ServerState, load: LoadState) -> Iterator[tuple[ConditionType, Fault]]:
    """Yield what keeps the run from going on, and which condition tells it."""
    if served.fault is not None:
        yield "ServerReady", served.fault
    if load.fault is not None:
        yield "Measuring", load.fault


def _failed(context: ReconcileContext, kind: ConditionType | None, found: Fault) -> Plan:
    """Return the plan of a run that a fault ends, which a condition of its own tells too."""
    message = found.message
    if not found.ends:
        message = (
            f"{message} The run waited {_ready_seconds(context)} s for it "
            "(spec.server.readyDeadlineSeconds)."
        )
    status = context.before
    if kind is not None:
        status = with_conditions(
            status, context.moment, ConditionUpdate(kind, "False", found.reason, message)
        )
    return fail(context, status, found.reason, message)


def _too_late(context: ReconcileContext, load: LoadState, served: ServerState) -> Plan | None:
    """Return the plan of a run whose server or load generator took too long, None in time."""
    deadline = context.ready_deadline
    if (
        context.launched
        and not served.ready
        and not _was_ready(context)
        and context.now >= deadline
    ):
        words = (
            f"The server was not ready within {_ready_seconds(context)} s "
            "(spec.server.readyDeadlineSeconds): raise it, or give the server more CPU."
        )
        status = with_conditions(
            context.before,
            context.moment,
            ConditionUpdate("ServerReady", "False", "ServerNotReady", words),
        )
        return fail(context, status, "ServerNotReady", words)
    if load.stage == "starting" and context.now >= _load_deadline(context):
        words = (
            f"The load generator did not start within {_ready_seconds(context)} s: see the events "
            f"of its pod (kubectl describe job {context.load}), and create a new run."
        )
        return fail(context, context.before, "LoadNotStarted", words)
    return None


def _going_on(context: ReconcileContext, load: LoadState, served: ServerState) -> Plan:
    """Return the plan of a run that nothing keeps from going on."""
    children = plan_load_children(context, served)
    if children.fault is not None and children.fault.ends:
        return _failed(context, "Measuring", children.fault)
    status = with_conditions(context.before, context.moment, *_server_told(context, served))
    status = with_conditions(status, context.moment, *_load_told(context, load, children))
    status = _with_nodes(status, context, load, served)
    if children.fault is not None and context.now >= context.ready_deadline:
        return _failed(replace(context, before=status), "Measuring", children.fault)
    look = seconds_until(
        context.now,
        _deadline(context),
        None if _was_ready(context) else context.ready_deadline,
        _load_deadline(context) if load.stage == "starting" else None,
        children.again,
        *(each.until for each in (served.fault, load.fault, children.fault) if each is not None),
    )
    return Plan(
        _with_phase(status),
        create=(*served.create, *children.create),
        delete=children.delete,
        look_again_seconds=look,
    )


def _with_nodes(
    status: RunStatus, context: ReconcileContext, load: LoadState, served: ServerState
) -> RunStatus:
    """Return the status with where the servers are, once that is settled."""
    there = [each.node for each in served.servers]
    settled = backend_nodes(context) if load.stage == "absent" else there
    nodes = [node for node in dict.fromkeys(settled) if node][:_MOST_NODES]
    return status.model_copy(update={"nodes": nodes}) if nodes else status


def _server_told(context: ReconcileContext, served: ServerState) -> tuple[ConditionUpdate, ...]:
    if served.fault is not None:
        return (_of_fault("ServerReady", "False", served.fault, context),)
    if not context.launched:
        ready = load_was_sent(context.observed.report) or is_true(context.before, "ServerReady")
        if ready:
            return (
                ConditionUpdate("ServerReady", "True", "Ready", "The External server answers."),
            )
        words = "Something that already serves is measured; the load generator waits for it."
        return (ConditionUpdate("ServerReady", "Unknown", "External", words),)
    replicas = context.run.spec.server.replicas
    pods = "The server's pod is" if replicas == 1 else f"All {replicas} server pods are"
    if served.ready:
        return (ConditionUpdate("ServerReady", "True", "Ready", f"{pods} ready."),)
    if context.observed.deployment is None:
        return ()
    words = (
        f"{'1 server pod starts' if replicas == 1 else f'{replicas} server pods start'} in the "
        f"Deployment {context.server}, until {format_time(context.ready_deadline)} at the latest "
        "(spec.server.readyDeadlineSeconds)."
    )
    return (ConditionUpdate("ServerReady", "False", "ServerStarting", words),)


def _load_told(
    context: ReconcileContext, load: LoadState, children: LoadChildren
) -> tuple[ConditionUpdate, ...]:
    progress = progress_under_load(context.observed.report)
    value: Value = "False"
    if load.fault is not None and not is_true(context.before, "Measuring"):
        return (_of_fault("Measuring", value, load.fault, context),)
    if children.fault is not None:
        # Unknown, not False: the Job was never seen, so that it is still to be made.
        value = "Unknown" if load.stage == "absent" else "False"
        return (_of_fault("Measuring", value, children.fault, context),)
    if progress is not None and load.stage == "running":
        return (measuring_condition(progress),)
    if is_true(context.before, "Measuring") or load.stage == "absent":
        return ()
    if load.stage == "running":
        words = "The load generator waits for the server and prepares its requests."
        return (ConditionUpdate("Measuring", "False", "Preparing", words),)
    words = f"The pod of the Job {context.load} is made and started."
    return (ConditionUpdate("Measuring", "False", "LoadStarting", words),)


def _of_fault(
    kind: ConditionType, value: Value, found: Fault, context: ReconcileContext
) -> ConditionUpdate:
    """Return a condition with a fault; the kubelet's first words on an image say most."""
    before = find_condition(context.before, kind)
    kept = before is not None and before.reason == found.reason == "ImageNotPulled"
    return ConditionUpdate(
        kind, value, found.reason, before.message if before and kept else found.message
    )


def _with_phase(status: RunStatus) -> RunStatus:
    phase: Phase = "Measuring" if is_true(status, "Measuring") else "Starting"
    return status.model_copy(update={"phase": phase})


def _concluded(context: ReconcileContext, load: LoadState, served: ServerState) -> Plan:
    """Return the plan of a run whose load generator has ended by itself."""
    if context.observed.downloaded is None:
        return Plan(context.before, download=load.pod_name, look_again_seconds=10.0)
    outcome = load_outcome(context, load, served)
    if outcome is None:
        return Plan(context.before, look_again_seconds=1.0)
    found = result_state(context, load, outcome)
    if not found.done:
        return found.plan(context.before)
    status = merge_report(context.before, context.observed.report, context.run.spec)
    status = with_result_scenarios(status, found).model_copy(update={"result": found.kept})
    if outcome.state == "Complete":
        return _complete(context, status, found)
    note = f" The result document is not kept ({found.lost}): {found.message}" if found.lost else ""
    return fail(context, status, reason_of(outcome), f"{outcome.message}{note}")


def _complete(context: ReconcileContext, status: RunStatus, found: ResultState) -> Plan:
    asked = len(context.run.spec.scenarios)
    kept = found.kept
    where = "" if kept is None else f" The result is in {', '.join(kept.config_maps)}."
    many = "The scenario is" if asked == 1 else f"All {asked} scenarios are"
    note = f" The result document is not kept: {found.message}" if found.lost else ""
    message = f"{many} measured.{where}{note}"
    status = status.model_copy(
        update={
            "phase": "Complete",
            "progress_percent": 100,
            "completion_time": format_time(context.now),
        }
    )
    reason: ReasonName = found.lost or "Measured"
    status = with_conditions(
        status,
        context.moment,
        ConditionUpdate("Complete", "True", reason, message),
        valid_condition(status, asked),
    )
    return finish(replace(context, before=status))


def _was_ready(context: ReconcileContext) -> bool:
    return is_true(context.before, "ServerReady") or load_was_sent(context.observed.report)


def _ready_seconds(context: ReconcileContext) -> int:
    return context.run.spec.server.ready_deadline_seconds


def _deadline(context: ReconcileContext) -> datetime:
    start = parse_time(context.before.start_time) or context.now
    return add_seconds(start, context.run.spec.active_deadline_seconds)


def _load_deadline(context: ReconcileContext) -> datetime:
    """Return when the load generator must have started: its images may have to be pulled."""
    made = (
        creation_time(context.observed.job) or parse_time(context.before.start_time) or context.now
    )
    return max(context.ready_deadline, add_seconds(made, _ready_seconds(context)))
