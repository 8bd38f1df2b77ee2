"""The check that a run may send load to the Service of its External server.

The author of a run chooses the Service, and the load generator reaches what the author may not.
"""

from inferometer_operator.reconcile.agent_assignment import endpoints
from inferometer_operator.reconcile.observed import EndpointList, Json


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


def may_lead_to_pods(backends: EndpointList | None, namespace: str) -> bool:
    """Return whether the slices of a Service without a selector may only be late or too new.

    They have no endpoint yet, or each names a pod of the namespace, maybe one that was not listed.
    """
    if backends is None or backends.refusal:
        return False
    targets = [each.get("targetRef") or {} for each, _ in endpoints(backends.slices)]
    return all(each.get("kind") == "Pod" and each.get("namespace") == namespace for each in targets)


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
