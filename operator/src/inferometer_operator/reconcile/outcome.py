"""Outcome of an ended load generator, explained by what the cluster knows."""

from datetime import datetime

from inferometer_api.plan.deadlines import SERVER_FAULT_SECONDS
from inferometer_api.results.result import Outcome
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.faults import make_fault, pod_fault
from inferometer_operator.reconcile.load_state import LoadState, load_pod_request
from inferometer_operator.reconcile.server_state import ServerProgress
from inferometer_operator.reconcile.times import add_seconds

_SERVER_FAULTS = {"ServerLost", "NoAnswer", "ServerNotReady", "RequestRefused"}
_BY_NAME: dict[str, ReasonName] = {name: name for name in REASONS}


def load_outcome(
    context: ReconcileContext, load: LoadState, served: ServerProgress
) -> Outcome | None:
    """Return how an ended load generator ended; None while the cluster may soon explain it."""
    outcome = _reported(context)
    if outcome is None:
        return _unreported(context, load)
    match outcome.state:
        case "Complete":
            return outcome
        case "Interrupted" | "Terminated":
            return _stopped(context, load)
        case "Failed" | "Refused":
            return _explained(context, outcome, load, served)


def is_unknown(context: ReconcileContext) -> bool:
    """Return whether only a document that is still awaited can say how the load generator ended."""
    collected = context.observed.downloaded
    return _reported(context) is None and collected is not None and collected.passing


def reason_of(outcome: Outcome) -> ReasonName:
    """Return the catalogue's reason for an outcome."""
    return _BY_NAME.get(outcome.reason, "LoadGeneratorFailed")


def _reported(context: ReconcileContext) -> Outcome | None:
    collected = context.observed.downloaded
    if collected is not None and collected.result is not None:
        return collected.result.head.outcome
    return None if context.observed.report is None else context.observed.report.outcome


def _explained(
    context: ReconcileContext, outcome: Outcome, load: LoadState, served: ServerProgress
) -> Outcome | None:
    if outcome.reason in _SERVER_FAULTS and context.is_launched:
        if served.fault is not None and served.fault.ends:
            return Outcome(state="Failed", reason=served.fault.reason, message=served.fault.message)
        if context.now < add_seconds(_end(context, load), SERVER_FAULT_SECONDS):
            return None
    remedy = REASONS[reason_of(outcome)].remedy
    words = outcome.message or f"The load generator ended as {outcome.reason}."
    return outcome.model_copy(update={"message": f"{words} {remedy}".strip()})


def _stopped(context: ReconcileContext, load: LoadState) -> Outcome:
    """Return what stopped a load generator that the operator did not stop."""
    found = None if load.pod is None else pod_fault(context, load.pod, load_pod_request(context))
    if found is None or not found.ends:
        found = make_fault("LoadPodLost", "The load generator was stopped by another client")
    return Outcome(state="Failed", reason=found.reason, message=found.message)


def _unreported(context: ReconcileContext, load: LoadState) -> Outcome:
    """Return the outcome of a container that ended without a report."""
    found = None if load.pod is None else pod_fault(context, load.pod, load_pod_request(context))
    if found is None or not found.ends:
        code = "?" if load.end is None else load.end.code
        words = "" if load.end is None else load.end.message
        output = f" Its last lines:\n{words}\n" if words else " It printed nothing."
        found = make_fault(
            "LoadGeneratorDied",
            f"The load generator in pod {load.pod_name} exited with code {code} before its end."
            f"{output}",
        )
    return Outcome(state="Failed", reason=found.reason, message=found.message)


def _end(context: ReconcileContext, load: LoadState) -> datetime:
    return context.now if load.pod is None else context.since(load.pod, "ended")
