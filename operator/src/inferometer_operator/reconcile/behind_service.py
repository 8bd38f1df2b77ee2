"""Which pods are behind the Service of an External server, and on which nodes?

An author of runs may write EndpointSlices too: what one says counts where the pods confirm it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from inferometer_operator.reconcile.observed import EndpointList, Json


@dataclass(frozen=True, slots=True)
class ServiceBackends:
    """What is behind a Service."""

    uids_by_node: dict[str, list[str]]
    """Of the pods of its own namespace that are bound to a node, ready or not; in order."""
    others: int
    """How many of its endpoints are no such pods: nobody knows where these are."""


def service_backends(listed: EndpointList) -> ServiceBackends:
    """Return what is behind a Service; a pod counts once, whatever addresses it has."""
    found: dict[str, set[str]] = {}
    others = set()
    for endpoint, _ in endpoints(listed.slices):
        target = endpoint.get("targetRef") or {}
        node, uid = str(endpoint.get("nodeName") or ""), str(target.get("uid") or "")
        if target.get("kind") == "Pod" and (node, uid) in listed.pods:
            found.setdefault(node, set()).add(uid)
        else:
            others.add(uid or str(endpoint["addresses"][0]))
    return ServiceBackends({node: sorted(found[node]) for node in sorted(found)}, len(others))


def slice_nodes(slices: Iterable[Json]) -> list[str]:
    """Return the nodes that slices name, in order."""
    return sorted({str(each["nodeName"]) for each, _ in endpoints(slices) if each.get("nodeName")})


def endpoints(slices: Iterable[Json]) -> Iterator[tuple[Json, Json]]:
    """Yield each endpoint that has an IP address and is not ending, and its slice."""
    for each in slices:
        if each.get("addressType") in {"IPv4", "IPv6"}:
            for endpoint in each.get("endpoints") or ():
                ends = (endpoint.get("conditions") or {}).get("terminating") is True
                if endpoint.get("addresses") and not ends:
                    yield endpoint, each
