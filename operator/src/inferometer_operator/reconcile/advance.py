"""The plan of a run that has begun and not ended: serve, measure, judge."""

from collections.abc import Iterator
from datetime import datetime

from inferometer_api.status.condition_reasons import REASONS
from inferometer_api.status.run_status import ConditionType, Phase
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.reconcile.agent_assignment import backend_nodes
from inferometer_operator.reconcile.conditions import (
    ConditionUpdate,
    Value,
)
from inferometer_operator.reconcile.context import ReconcileContext, repeat_of
from inferometer_operator.reconcile.faults import RunFault
from inferometer_operator.reconcile.finish import complete, fail, record_scenarios
from inferometer_operator.reconcile.handover import plan_handover
from inferometer_operator.reconcile.load_state import (
    LoadChildren,
    LoadState,
    load_state,
    plan_load_children,
)
from inferometer_operator.reconcile.node_wait import wait_for_nodes
from inferometer_operator.reconcile.outcome import is_unknown, load_outcome, reason_of
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.progress import (
    load_was_sent,
    measuring_condition,
    merge_report,
    progress_under_load,
)
from inferometer_operator.reconcile.result_state import result_state
from inferometer_operator.reconcile.server_state import ServerProgress, server_state
from inferometer_operator.reconcile.suspend import hold, roll_back
from inferometer_operator.reconcile.times import add_seconds, seconds_until
from inferometer_operator.reconcile.workload_state import eviction_fault

_MAX_NODES = 16
"""As many as the status has room for."""
_RESTART_LOOK_SECONDS = 2.0
"""How often to look while the load generator awaits a server: no watch reports what it has."""


def advance(context: ReconcileContext) -> Plan:
    """Return the plan of a run that has begun and is neither Complete nor Failed."""
    server, load = server_state(context), load_state(context)
    if load.stage == "over":
        return _conclude(context, load, server)
    merge_report(context.draft, context.observed.report, context.run.spec)
    if plan := _end_on_request(context, load, server):
        return plan
    for kind, found in _faults(server, load):
        if found.lacks_node and context.awaited_repeat is None:
            continue
        if found.ends or context.now >= _fault_deadline(context, kind, found):
            works = load.stage == "running" and context.draft.is_true(kind)
            return _fail_by(context, None if works and found is load.fault else kind, found)
    unplaced = next((found for _, found in _faults(server, load) if found.lacks_node), None)
    if unplaced is not None and _gives_up_its_turn(context, unplaced):
        return wait_for_nodes(context, unplaced)
    if unplaced is None and (plan := _fail_if_too_late(context, load, server)):
        return plan
    return _go_on(context, load, server)


def _gives_up_its_turn(context: ReconcileContext, unplaced: RunFault) -> bool:
    """Return whether a run with a pod that has found no node for long goes back to the queue.

    Nothing is measured twice: a load generator begins only once all pods of its run are there.
    """
    sent = context.draft.is_true("Measuring") or load_was_sent(context.observed.report)
    return not sent and unplaced.until is not None and context.now >= unplaced.until


def fail_if_too_old(context: ReconcileContext) -> Plan | None:
    """Return the plan of a run that is past its deadline, or None before that."""
    if context.run.spec.suspend or context.now < context.deadline:
        return None
    message = (
        f"The run did not end within {context.run.spec.active_deadline_seconds} s. "
        f"{REASONS['DeadlineExceeded'].remedy}"
    )
    return fail(context, "DeadlineExceeded", message)


def _end_on_request(
    context: ReconcileContext, load: LoadState, server: ServerProgress
) -> Plan | None:
    """Return the plan of a cancelled, suspended, overdue or evicted run; None for any other."""
    spec = context.run.spec
    if plan := _cancelled(context):
        return plan
    if spec.suspend and not _load_may_be_sent(context, load, server):
        hold(context)
        return roll_back(context)
    if spec.suspend:
        message = (
            "The run was suspended (spec.suspend) after it had begun to measure. It ends here, "
            "because nothing is measured twice. Create a new run to measure again."
        )
        return fail(context, "Suspended", message)
    return fail_if_too_old(context) or _evicted(context)


def _evicted(context: ReconcileContext) -> Plan | None:
    evicted = eviction_fault(context)
    return None if evicted is None else _fail_by(context, None, evicted)


def _cancelled(context: ReconcileContext) -> Plan | None:
    if context.run.spec.cancel:
        return fail(context, "Cancelled", "The run was cancelled (spec.cancel).")
    return None


def _load_may_be_sent(context: ReconcileContext, load: LoadState, server: ServerProgress) -> bool:
    """Return whether load may have been sent: the last report is some seconds old."""
    report = context.observed.report
    if context.draft.is_true("Measuring") or load_was_sent(report):
        return True
    if load.stage != "running":
        return False
    if context.is_launched:
        return server.ready
    progress = None if report is None else report.progress
    return progress is None or progress.stage != "WaitingForServer"


def _fault_deadline(context: ReconcileContext, kind: ConditionType, found: RunFault) -> datetime:
    """Return when a transient fault ends the run."""
    if found.until is not None and not found.lacks_node:
        return found.until
    job = context.observed.load_job
    if job is None or kind == "ServerReady":
        return context.ready_deadline
    # If the server started late, the load generator may start late too.
    made = context.since(job, "created")
    return max(context.ready_deadline, add_seconds(made, _ready_seconds(context)))


def _faults(server: ServerProgress, load: LoadState) -> Iterator[tuple[ConditionType, RunFault]]:
    """Yield each fault that blocks the run, and the condition that reports it."""
    if server.fault is not None:
        yield "ServerReady", server.fault
    if load.fault is not None:
        yield "Measuring", load.fault


def _fail_by(context: ReconcileContext, kind: ConditionType | None, found: RunFault) -> Plan:
    """Return the plan of a run that a fault ends; condition `kind` reports the fault too."""
    message = found.message
    if not found.ends:
        message = (
            f"{message} The run waited {_ready_seconds(context)} s for it "
            "(spec.server.readyDeadlineSeconds)."
        )
    if kind is not None:
        context.draft.set_conditions(ConditionUpdate(kind, "False", found.reason, message))
    return fail(context, found.reason, message)


def _fail_if_too_late(
    context: ReconcileContext, load: LoadState, server: ServerProgress
) -> Plan | None:
    """Return the plan of a run whose server or load generator starts too late, else None."""
    seconds = _ready_seconds(context)
    if (
        context.is_launched
        and not server.ready
        and not _was_ready(context)
        and context.now >= context.ready_deadline
    ):
        message = (
            f"The server was not ready within {seconds} s (spec.server.readyDeadlineSeconds). "
            f"{REASONS['ServerNotReady'].remedy}"
        )
        context.draft.set_conditions(
            ConditionUpdate("ServerReady", "False", "ServerNotReady", message)
        )
        return fail(context, "ServerNotReady", message)
    if load.stage == "starting" and context.now >= _load_deadline(context):
        message = (
            f"The load generator did not start within {seconds} s (kubectl describe job "
            f"{context.load}). {REASONS['LoadNotStarted'].remedy}"
        )
        return fail(context, "LoadNotStarted", message)
    return None


def _go_on(context: ReconcileContext, load: LoadState, server: ServerProgress) -> Plan:
    """Return the plan of a run that no fault ends now."""
    children = plan_load_children(context, server)
    if children.fault is not None and children.fault.ends:
        return _fail_by(context, "Measuring", children.fault)
    was_ready = _was_ready(context)
    context.draft.set_conditions(
        *_server_updates(context, server), *_load_updates(context, load, children)
    )
    _record_nodes(context, load, server)
    if children.fault is not None and context.now >= context.ready_deadline:
        return _fail_by(context, "Measuring", children.fault)
    look = seconds_until(
        context.now,
        context.deadline,
        None if was_ready else context.ready_deadline,
        _load_deadline(context) if load.stage == "starting" else None,
        children.again,
        *(each.until for each in (server.fault, load.fault, children.fault) if each is not None),
    )
    phase: Phase = "Measuring" if context.draft.is_true("Measuring") else "Starting"
    context.draft.update(phase=phase)
    handover = plan_handover(context, load, server)
    if context.awaited_repeat is not None:
        look = min(_RESTART_LOOK_SECONDS, look or _RESTART_LOOK_SECONDS)
    return Plan(
        context.status,
        create=(*server.create, *children.create),
        delete=(*server.delete, *children.delete),
        handover=handover,
        look_again_seconds=look,
    )


def _record_nodes(context: ReconcileContext, load: LoadState, server: ServerProgress) -> None:
    """Write the servers' nodes to the status, once they are settled; those of all repeats."""
    before = context.status.nodes if _restarted_for(context) else []
    current = [each.node for each in server.servers]
    settled = backend_nodes(context) if load.stage == "absent" else current
    nodes = [node for node in dict.fromkeys((*before, *settled)) if node][:_MAX_NODES]
    if nodes:
        context.draft.update(nodes=nodes)


def _server_updates(
    context: ReconcileContext, server: ServerProgress
) -> tuple[ConditionUpdate, ...]:
    if server.fault is not None:
        return (_fault_update(context, "ServerReady", "False", server.fault),)
    if not context.is_launched:
        if _was_ready(context):
            message = "The External server answers."
            return (ConditionUpdate("ServerReady", "True", "Ready", message),)
        message = (
            "The run measures a server that is already there; the load generator waits for it."
        )
        return (ConditionUpdate("ServerReady", "Unknown", "External", message),)
    replicas = context.run.spec.server.replicas
    if server.ready:
        pods = "The server's pod is" if replicas == 1 else f"All {replicas} server pods are"
        return (ConditionUpdate("ServerReady", "True", "Ready", f"{pods} ready."),)
    return (ConditionUpdate("ServerReady", "False", "ServerStarting", _server_start(context)),)


def _server_start(context: ReconcileContext) -> str:
    """Return how the server starts that no fault holds up."""
    if repeat := _restarted_for(context):
        return (
            f"The server is restarted for repeat {repeat} of {context.run.spec.validity.repeats} "
            "(spec.validity.repeatScope Server)."
        )
    if context.observed.server_owner is None:
        # Written with the start: the sentence below is no write of its own.
        return f"The {context.server_kind} {context.server} is created."
    replicas = context.run.spec.server.replicas
    start = "1 server pod starts" if replicas == 1 else f"{replicas} server pods start"
    return (
        f"{start} in the {context.server_kind} {context.server}. The deadline is "
        f"{format_time(context.ready_deadline)} (spec.server.readyDeadlineSeconds)."
    )


def _restarted_for(context: ReconcileContext) -> int:
    """Return the further repeat whose server starts; 0 if it is that of the first one."""
    owner = context.observed.server_owner
    repeat = context.awaited_repeat or (1 if owner is None else repeat_of(owner))
    return repeat if repeat > 1 else 0


def _load_updates(
    context: ReconcileContext, load: LoadState, children: LoadChildren
) -> tuple[ConditionUpdate, ...]:
    progress = progress_under_load(context.observed.report)
    was_measuring = context.draft.is_true("Measuring")
    if load.fault is not None and not was_measuring:
        return (_fault_update(context, "Measuring", "False", load.fault),)
    if children.fault is not None:
        # Unknown, not False: the Job was never created, and still is to be.
        value: Value = "Unknown" if load.stage == "absent" else "False"
        return (_fault_update(context, "Measuring", value, children.fault),)
    if progress is not None and load.stage == "running":
        return (measuring_condition(progress),)
    if was_measuring or load.stage == "absent":
        return ()
    if load.stage == "running":
        message = "The load generator waits for the server and prepares its requests."
        return (ConditionUpdate("Measuring", "False", "Preparing", message),)
    message = f"The pod of the Job {context.load} starts."
    return (ConditionUpdate("Measuring", "False", "LoadStarting", message),)


def _fault_update(
    context: ReconcileContext, kind: ConditionType, value: Value, found: RunFault
) -> ConditionUpdate:
    """Return a condition that reports a fault; the kubelet's first message on an image stays."""
    before = context.draft.find(kind)
    unchanged = before is not None and before.reason == found.reason == "ImageNotPulled"
    message = before.message if before and unchanged else found.message
    return ConditionUpdate(kind, value, found.reason, message)


def _conclude(context: ReconcileContext, load: LoadState, server: ServerProgress) -> Plan:
    """Return the plan of a run whose load generator has ended by itself."""
    if context.observed.downloaded is None:
        return Plan(context.status, download=load.pod_name, look_again_seconds=10.0)
    merge_report(context.draft, context.observed.report, context.run.spec)
    outcome = load_outcome(context, load, server)
    if outcome is None:
        return Plan(context.status, look_again_seconds=1.0)
    result = result_state(context, load, outcome)
    if not result.done and is_unknown(context):
        return _cancelled(context) or fail_if_too_old(context) or result.plan(context)
    if not result.done and not result.waits:
        return result.plan(context)
    if outcome.state == "Complete":
        return complete(context, result)
    record_scenarios(context.draft, result)
    context.draft.update(result=result.reference)
    return fail(context, reason_of(outcome), outcome.message)


def _was_ready(context: ReconcileContext) -> bool:
    if context.awaited_repeat is not None:
        return False
    return context.draft.is_true("ServerReady") or load_was_sent(context.observed.report)


def _ready_seconds(context: ReconcileContext) -> int:
    return context.run.spec.server.ready_deadline_seconds


def _load_deadline(context: ReconcileContext) -> datetime:
    """Return when the load generator must have started: its image may have to be pulled."""
    job = context.observed.load_job
    made = parse_time(context.status.start_time) if job is None else context.since(job, "created")
    return max(context.ready_deadline, add_seconds(made or context.now, _ready_seconds(context)))
