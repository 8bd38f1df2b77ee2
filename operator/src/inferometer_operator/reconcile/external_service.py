"""Checks of the Service of an External server: its direction and its ports.

The author of a run chooses the Service, and the load generator reaches what the author may not.
"""

from datetime import datetime

from inferometer_api.plan.deadlines import APPEARS_SECONDS
from inferometer_operator.reconcile.agent_assignment import endpoints
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.observed import EndpointList, Json
from inferometer_operator.reconcile.times import add_seconds


def selects_pods(service: Json) -> bool:
    """Return whether a Service leads to pods of its namespace by a selector."""
    return bool((service.get("spec") or {}).get("selector"))


def misdirection(service: Json | None, backends: EndpointList | None, namespace: str) -> str:
    """Return why a Service may lead out of its namespace, as a clause; empty if it does not.

    `backends` are its EndpointSlices, needed if the Service has no selector.
    """
    if service is None:
        return ""
    if (service.get("spec") or {}).get("type") == "ExternalName":
        return "of type ExternalName, which may point to any host"
    if selects_pods(service):
        return ""
    wrong = _wrong_slices(backends, namespace)
    return f"without a selector, and {wrong}" if wrong else ""


def missing_port(service: Json | None, port: int) -> str:
    """Return that a Service does not have a port, and which it has; empty if it may have it.

    The name of a headless Service leads to its pods, whose ports it need not list.
    """
    if service is None or "ports" not in service["spec"]:
        return ""
    spec = service["spec"]
    listed = [each for each in spec["ports"] if each.get("protocol", "TCP") == "TCP"]
    if spec.get("clusterIP") == "None" or port in [each["port"] for each in listed]:
        return ""
    found = ", ".join(
        f"{each['port']} ({each['name']})" if each.get("name") else str(each["port"])
        for each in listed
    )
    name = service["metadata"]["name"]
    return f"The Service {name} has no TCP port {port}; it has {found or 'none'}."


def unbacked_run(run: Json, service: Json | None, backends: EndpointList | None) -> str:
    """Return the UID of a run whose Service leads to no pods of its namespace now; empty if not."""
    metadata = run["metadata"]
    wrong = misdirection(service, backends, str(metadata.get("namespace", "default")))
    return str(metadata["uid"]) if wrong else ""


def late_until(context: ReconcileContext) -> datetime | None:
    """Return until when the pods of a Service without a selector may be late; None: they are not.

    Its slices have no endpoint yet, or each names a pod of the namespace, maybe one that was not
    listed. It counts from when that was first seen: pods are replaced at any time of a run.
    """
    service, backends = context.observed.service, context.observed.behind_service
    if service is None or backends is None or backends.refusal or selects_pods(service):
        return None
    if (service.get("spec") or {}).get("type") == "ExternalName":
        return None
    targets = [each.get("targetRef") or {} for each, _ in endpoints(backends.slices)]
    if any(
        each.get("kind") != "Pod" or each.get("namespace") != context.namespace for each in targets
    ):
        return None
    return add_seconds(context.since(context.raw, "unbacked"), APPEARS_SECONDS)


def _wrong_slices(backends: EndpointList | None, namespace: str) -> str:
    if backends is None:
        return "its EndpointSlices were not read"
    if backends.refusal:
        return f"its EndpointSlices cannot be listed: {backends.refusal}"
    found = [each for each, _ in endpoints(backends.slices)]
    for endpoint in found:
        pod = endpoint.get("targetRef") or {}
        known = (str(endpoint.get("nodeName")), str(pod.get("uid"))) in backends.pods
        if pod.get("kind") != "Pod" or pod.get("namespace") != namespace or not known:
            address = endpoint["addresses"][0]
            return f"{address} in its EndpointSlices is no pod of the namespace {namespace}"
    return "" if found else "it has no EndpointSlices that name pods of its namespace"
