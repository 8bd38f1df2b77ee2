"""How does a run that has begun go on: serve, measure, judge?"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import ConditionType, Phase, RunStatus
from inferometer_operator.reconcile.case import Case, created
from inferometer_operator.reconcile.collecting import Collection, collection
from inferometer_operator.reconcile.conditions import Told, Value, condition, holds, told
from inferometer_operator.reconcile.ending import ended, failed, with_scenarios
from inferometer_operator.reconcile.faults import Fault
from inferometer_operator.reconcile.holding import taken_back
from inferometer_operator.reconcile.loading import LoadChildren, Loading, load_children, loading
from inferometer_operator.reconcile.measuring import begun, measuring, under_load, with_report
from inferometer_operator.reconcile.metering import nodes_behind
from inferometer_operator.reconcile.outcome import outcome_of, reason_of
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.serving import Serving, serving
from inferometer_operator.reconcile.times import later, read, seconds_until, stamp
from inferometer_operator.reconcile.verdict import valid

_MOST_NODES = 16
"""As many as the status takes."""


def running(case: Case) -> Plan:
    """Return the plan of a run that has begun and of which it is not decided how it ends."""
    served, load = serving(case), loading(case)
    if load.stage == "over":
        return _concluded(case, load, served)
    status = with_report(case.before, case.observed.report, case.run.spec)
    case = replace(case, before=status)
    if plan := _asked_to_end(case, load, served):
        return plan
    for kind, found in _faults(served, load):
        if found.ends or case.now >= _limit(case, kind, found):
            works = load.stage == "running" and holds(status, kind)
            return _failed(case, None if works and found is load.fault else kind, found)
    if plan := _too_late(case, load, served):
        return plan
    return _going_on(case, load, served)


def _asked_to_end(case: Case, load: Loading, served: Serving) -> Plan | None:
    """Return the plan of an end that somebody asked for, None where nobody did."""
    spec = case.run.spec
    if spec.cancel:
        return failed(case, case.before, "Cancelled", "The run was cancelled (spec.cancel).")
    if spec.suspend and not _may_have_begun(case, load, served):
        return taken_back(case)
    if spec.suspend:
        words = (
            "The run was suspended (spec.suspend) after it had begun to measure, so that it ends "
            "here: nothing is measured twice in silence. Create a new run to measure again."
        )
        return failed(case, case.before, "Suspended", words)
    return too_old(case)


def too_old(case: Case) -> Plan | None:
    """Return the plan of a run that is past its deadline, None of another."""
    if case.run.spec.suspend or case.now < _deadline(case):
        return None
    words = (
        f"The run was not done after {case.run.spec.active_deadline_seconds} s "
        "(spec.activeDeadlineSeconds): raise it, or ask for shorter scenarios."
    )
    return failed(case, case.before, "DeadlineExceeded", words)


def _may_have_begun(case: Case, load: Loading, served: Serving) -> bool:
    """Whether load may have been sent: what a load generator told is some seconds old."""
    report = case.observed.report
    if holds(case.before, "Measuring") or begun(report):
        return True
    if load.stage != "running":
        return False
    if case.launched:
        return served.ready
    progress = None if report is None else report.progress
    return progress is None or progress.stage != "WaitingForServer"


def _limit(case: Case, kind: ConditionType, found: Fault) -> datetime:
    """Return when a fault that may heal ends the run."""
    if found.until is not None:
        return found.until
    job = created(case.observed.job)
    if job is None or kind == "ServerReady":
        return case.ready_deadline
    # The load generator may begin late, where the server took its time.
    return max(case.ready_deadline, later(job, _ready_seconds(case)))


def _faults(served: Serving, load: Loading) -> Iterator[tuple[ConditionType, Fault]]:
    """Yield what keeps the run from going on, and which condition tells it."""
    if served.fault is not None:
        yield "ServerReady", served.fault
    if load.fault is not None:
        yield "Measuring", load.fault


def _failed(case: Case, kind: ConditionType | None, found: Fault) -> Plan:
    """Return the plan of a run that a fault ends, which a condition of its own tells too."""
    message = found.message
    if not found.ends:
        message = (
            f"{message} The run waited {_ready_seconds(case)} s for it "
            "(spec.server.readyDeadlineSeconds)."
        )
    status = case.before
    if kind is not None:
        status = told(status, case.moment, Told(kind, "False", found.reason, message))
    return failed(case, status, found.reason, message)


def _too_late(case: Case, load: Loading, served: Serving) -> Plan | None:
    """Return the plan of a run whose server or load generator took too long, None in time."""
    deadline = case.ready_deadline
    if case.launched and not served.ready and not _was_ready(case) and case.now >= deadline:
        words = (
            f"The server was not ready within {_ready_seconds(case)} s "
            "(spec.server.readyDeadlineSeconds): raise it, or give the server more CPU."
        )
        status = told(
            case.before, case.moment, Told("ServerReady", "False", "ServerNotReady", words)
        )
        return failed(case, status, "ServerNotReady", words)
    if load.stage == "starting" and case.now >= _load_deadline(case):
        words = (
            f"The load generator did not start within {_ready_seconds(case)} s: see the events of "
            f"its pod (kubectl describe job {case.load}), and create a new run."
        )
        return failed(case, case.before, "LoadNotStarted", words)
    return None


def _going_on(case: Case, load: Loading, served: Serving) -> Plan:
    """Return the plan of a run that nothing keeps from going on."""
    children = load_children(case, served)
    if children.fault is not None and children.fault.ends:
        return _failed(case, "Measuring", children.fault)
    status = told(case.before, case.moment, *_server_told(case, served))
    status = told(status, case.moment, *_load_told(case, load, children))
    status = _with_nodes(status, case, load, served)
    if children.fault is not None and case.now >= case.ready_deadline:
        return _failed(replace(case, before=status), "Measuring", children.fault)
    look = seconds_until(
        case.now,
        _deadline(case),
        None if _was_ready(case) else case.ready_deadline,
        _load_deadline(case) if load.stage == "starting" else None,
        children.again,
        *(each.until for each in (served.fault, load.fault, children.fault) if each is not None),
    )
    return Plan(
        _with_phase(status),
        make=(*served.make, *children.make),
        delete=children.delete,
        look_again_seconds=look,
    )


def _with_nodes(status: RunStatus, case: Case, load: Loading, served: Serving) -> RunStatus:
    """Return the status with where the servers are, once that is settled."""
    there = [each.node for each in served.servers]
    settled = nodes_behind(case) if load.stage == "absent" else there
    nodes = [node for node in dict.fromkeys(settled) if node][:_MOST_NODES]
    return status.model_copy(update={"nodes": nodes}) if nodes else status


def _server_told(case: Case, served: Serving) -> tuple[Told, ...]:
    if served.fault is not None:
        return (_of_fault("ServerReady", "False", served.fault, case),)
    if not case.launched:
        ready = begun(case.observed.report) or holds(case.before, "ServerReady")
        if ready:
            return (Told("ServerReady", "True", "Ready", "The External server answers."),)
        words = "Something that already serves is measured; the load generator waits for it."
        return (Told("ServerReady", "Unknown", "External", words),)
    replicas = case.run.spec.server.replicas
    pods = "The server's pod is" if replicas == 1 else f"All {replicas} server pods are"
    if served.ready:
        return (Told("ServerReady", "True", "Ready", f"{pods} ready."),)
    if case.observed.deployment is None:
        return ()
    words = (
        f"{'1 server pod starts' if replicas == 1 else f'{replicas} server pods start'} in the "
        f"Deployment {case.server}, until {stamp(case.ready_deadline)} at the latest "
        "(spec.server.readyDeadlineSeconds)."
    )
    return (Told("ServerReady", "False", "ServerStarting", words),)


def _load_told(case: Case, load: Loading, children: LoadChildren) -> tuple[Told, ...]:
    progress = under_load(case.observed.report)
    value: Value = "False"
    if load.fault is not None and not holds(case.before, "Measuring"):
        return (_of_fault("Measuring", value, load.fault, case),)
    if children.fault is not None:
        # Unknown, not False: the Job was never seen, so that it is still to be made.
        value = "Unknown" if load.stage == "absent" else "False"
        return (_of_fault("Measuring", value, children.fault, case),)
    if progress is not None and load.stage == "running":
        return (measuring(progress),)
    if holds(case.before, "Measuring") or load.stage == "absent":
        return ()
    if load.stage == "running":
        words = "The load generator waits for the server and prepares its requests."
        return (Told("Measuring", "False", "Preparing", words),)
    words = f"The pod of the Job {case.load} is made and started."
    return (Told("Measuring", "False", "LoadStarting", words),)


def _of_fault(kind: ConditionType, value: Value, found: Fault, case: Case) -> Told:
    """Return a condition with a fault; the kubelet's first words on an image say most."""
    before = condition(case.before, kind)
    kept = before is not None and before.reason == found.reason == "ImageNotPulled"
    return Told(kind, value, found.reason, before.message if before and kept else found.message)


def _with_phase(status: RunStatus) -> RunStatus:
    phase: Phase = "Measuring" if holds(status, "Measuring") else "Starting"
    return status.model_copy(update={"phase": phase})


def _concluded(case: Case, load: Loading, served: Serving) -> Plan:
    """Return the plan of a run whose load generator has ended by itself."""
    if case.observed.collected is None:
        return Plan(case.before, collect=load.pod_name, look_again_seconds=10.0)
    outcome = outcome_of(case, load, served)
    if outcome is None:
        return Plan(case.before, look_again_seconds=1.0)
    found = collection(case, load, outcome)
    if not found.done:
        return found.plan(case.before)
    status = with_report(case.before, case.observed.report, case.run.spec)
    status = with_scenarios(status, found).model_copy(update={"result": found.kept})
    if outcome.state == "Complete":
        return _complete(case, status, found)
    note = f" The result document is not kept ({found.lost}): {found.message}" if found.lost else ""
    return failed(case, status, reason_of(outcome), f"{outcome.message}{note}")


def _complete(case: Case, status: RunStatus, found: Collection) -> Plan:
    asked = len(case.run.spec.scenarios)
    kept = found.kept
    where = "" if kept is None else f" The result is in {', '.join(kept.config_maps)}."
    many = "The scenario is" if asked == 1 else f"All {asked} scenarios are"
    note = f" The result document is not kept: {found.message}" if found.lost else ""
    message = f"{many} measured.{where}{note}"
    status = status.model_copy(
        update={
            "phase": "Complete",
            "progress_percent": 100,
            "completion_time": stamp(case.now),
        }
    )
    reason: ReasonName = found.lost or "Measured"
    status = told(
        status,
        case.moment,
        Told("Complete", "True", reason, message),
        valid(status, asked),
    )
    return ended(replace(case, before=status))


def _was_ready(case: Case) -> bool:
    return holds(case.before, "ServerReady") or begun(case.observed.report)


def _ready_seconds(case: Case) -> int:
    return case.run.spec.server.ready_deadline_seconds


def _deadline(case: Case) -> datetime:
    start = read(case.before.start_time) or case.now
    return later(start, case.run.spec.active_deadline_seconds)


def _load_deadline(case: Case) -> datetime:
    """Return when the load generator must have started: its images may have to be pulled."""
    made = created(case.observed.job) or read(case.before.start_time) or case.now
    return max(case.ready_deadline, later(made, _ready_seconds(case)))
