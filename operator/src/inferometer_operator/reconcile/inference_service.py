"""State of a run's InferenceService: where users reach it, and why it has no pods."""

from inferometer_operator.reconcile.child_faults import pod_creation_fault
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.external_service import misdirection
from inferometer_operator.reconcile.faults import RunFault, make_fault
from inferometer_operator.reconcile.observed import Json


def predictor_address(context: ReconcileContext) -> str:
    """Return HOST:PORT by which users reach the server; empty while KServe has no Service for it.

    A headless Service leads to the pods themselves, and so to their own port.
    """
    inference, port = context.observed.inference, context.server_port
    service = None if inference is None else inference.service
    if service is None or misdirection(service, None, context.namespace):
        return ""
    spec = service["spec"]
    host = f"{service['metadata']['name']}.{context.namespace}.svc"
    if spec.get("clusterIP") == "None":
        return f"{host}:{port}"
    leading = (each for each in spec.get("ports") or () if each.get("targetPort") == port)
    return next((f"{host}:{each['port']}" for each in leading), "")


def inference_fault(context: ReconcileContext, owner: Json, requests: str) -> RunFault | None:
    """Return why an InferenceService has no pods: KServe's own warning, or its Deployment's."""
    inference = context.observed.inference
    if words := _pod_refusal(None if inference is None else inference.deployment):
        return pod_creation_fault("server", words, requests)
    warnings = [
        str(each.get("message") or "").strip()
        for each in context.observed.events
        if (each.get("involvedObject") or {}).get("uid") == owner["metadata"].get("uid")
    ]
    if not warnings:
        return None
    return make_fault("KServeFailed", f"KServe cannot deploy the server: {warnings[-1]}")


def _pod_refusal(deployment: Json | None) -> str:
    """Return why the pods of a Deployment cannot be created; empty if they can."""
    conditions = ((deployment or {}).get("status") or {}).get("conditions") or ()
    refused = (
        str(each.get("message") or "")
        for each in conditions
        if each.get("type") == "ReplicaFailure" and each.get("status") == "True"
    )
    return next(refused, "")
