"""Which node agents measure beside the load, and what is each asked for?

A run never waits long for them, and never fails for want of one: what cannot be measured is told in
the plan, and with the result.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from inferometer_api.plan.load_plan import PlannedAgent, PlannedServer
from inferometer_api.results.agent_sample import MAX_WORKLOADS
from inferometer_api.timestamps import parse_time
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.context import ReconcileContext, creation_time
from inferometer_operator.reconcile.observed import EndpointList, Json
from inferometer_operator.reconcile.pods import server_pods
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.settings import Agents

_STARTS_SECONDS = 15.0
"""How long the plan may wait for an agent that starts on a node as new as the server's pod."""
_MOST_NODES_TOLD = 4
_PORT = "http"


@dataclass(frozen=True, slots=True)
class AgentAssignment:
    """What is known of the agents on the servers' nodes."""

    agents: tuple[PlannedAgent, ...] = ()
    """One for each node that has one."""
    unmetered: str = ""
    """Why not every server has an agent: a sentence without its period."""
    until: datetime | None = None
    """Until when an agent that starts now is worth waiting for; None: none starts."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """An endpoint of the agents' Service."""

    node: str
    url: str
    """Empty where its slice names no port to ask at."""
    ipv6: bool
    ready: bool


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


def assign_agents(context: ReconcileContext, servers: Iterable[PlannedServer]) -> AgentAssignment:
    """Return which agents are asked about the servers of a plan that is made now."""
    targets = _targets(context, servers)
    if not targets.uids_by_node:
        return AgentAssignment(unmetered=targets.unmetered)
    settled, listed = context.settings.agent, context.observed.agents
    if settled is None:
        return AgentAssignment(unmetered=_NONE_SETTLED)
    if listed is None:
        return AgentAssignment(unmetered=_NOT_LISTED)
    if why := _no_agents(settled, listed):
        return AgentAssignment(unmetered=why)
    found = list(_agents(listed.slices))
    chosen = {node: _chosen(found, node, _ipv6(servers)) for node in targets.uids_by_node}
    agents = tuple(
        PlannedAgent(url=agent.url, node=node, pod_uids=targets.uids_by_node[node])
        for node, agent in chosen.items()
        if agent is not None
    )
    absent = [node for node, agent in chosen.items() if agent is None]
    if not absent:
        return AgentAssignment(agents, targets.unmetered)
    told = [_absent(settled, found, absent), *filter(None, [targets.unmetered])]
    starts = any(agent.node in absent and not agent.ready for agent in found)
    return AgentAssignment(
        agents,
        unmetered="; ".join(told),
        until=add_seconds(_bound_at(context), _STARTS_SECONDS)
        if starts and context.launched
        else None,
    )


def backend_nodes(context: ReconcileContext) -> tuple[str, ...]:
    """Return the nodes of an External server's pods, where its Service tells them."""
    listed = context.observed.behind_service
    return () if listed is None else tuple(service_backends(listed).uids_by_node)


_NONE_SETTLED = (
    "The operator knows no node agents (its setting agent names no namespace): let the cluster's "
    "admin install the chart inferometer-agent, and name its namespace to the operator"
)
_NOT_LISTED = (
    "The node agents were not listed before the plan was made, since no server had an address "
    "then: create the run again"
)
_BY_URL = (
    "The External server is named by a URL, so that its node is not known: name a Service of the "
    "run's namespace instead, where it has pods there"
)


@dataclass(frozen=True, slots=True)
class _Targets:
    """The servers' pods that agents are asked about."""

    uids_by_node: dict[str, list[str]]
    unmetered: str = ""
    """Why these are not all servers."""


def _targets(context: ReconcileContext, servers: Iterable[PlannedServer]) -> _Targets:
    if context.launched:
        found: dict[str, list[str]] = {}
        for server in servers:
            found.setdefault(server.node, []).append(server.pod_uid)
        return _Targets(found)
    external = context.run.spec.server.external
    if external is None or external.service is None:
        return _Targets({}, _BY_URL)
    listed = context.observed.behind_service
    name = external.service.name
    if listed is None or listed.refusal:
        told = "" if listed is None else f": {listed.refusal}"
        return _Targets({}, f"The pods behind the Service {name} could not be listed{told}")
    return _askable(service_backends(listed), name, context.namespace)


def _askable(found: ServiceBackends, service: str, namespace: str) -> _Targets:
    """Return the pods behind a Service that agents can be asked about."""
    where = f"pods of the namespace {namespace} that are bound to a node"
    if not found.uids_by_node:
        return _Targets(
            {},
            f"The Service {service} has no {where} behind it, so that the External server's node "
            "is not known",
        )
    told = []
    if found.others:
        told.append(
            f"Of what is behind the Service {service}, {_many(found.others, 'endpoint')} "
            f"{'is' if found.others == 1 else 'are'} not among the {where}, so that not every "
            "server's node is known"
        )
    told += [
        f"The node agent on {node} answers for {MAX_WORKLOADS} pods at a time, and the Service "
        f"{service} has {len(uids)} there"
        for node, uids in found.uids_by_node.items()
        if len(uids) > MAX_WORKLOADS
    ]
    fits = {node: uids for node, uids in found.uids_by_node.items() if len(uids) <= MAX_WORKLOADS}
    return _Targets(fits, "; ".join(told))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _no_agents(settled: Agents, listed: EndpointList) -> str:
    """Return why there are no agents at all; empty where there are some."""
    where = f"the Service {settled.service} in the namespace {settled.namespace}"
    if listed.refusal:
        return (
            f"The node agents behind {where} could not be listed ({listed.refusal}): let the "
            "cluster's admin name the operator's service account in the value operators of the "
            "chart inferometer-agent"
        )
    if not any(True for _ in endpoints(listed.slices)):
        return (
            f"There are no node agents behind {where}: let the cluster's admin install the chart "
            "inferometer-agent there, or correct the operator's setting agent"
        )
    return ""


def _absent(settled: Agents, found: list[_Agent], absent: list[str]) -> str:
    told = ", ".join(absent[:_MOST_NODES_TOLD])
    if len(absent) > _MOST_NODES_TOLD:
        told += f" and {len(absent) - _MOST_NODES_TOLD} more"
    if any(agent.node in absent and agent.ready for agent in found):
        return (
            f"The node agents on {told} tell no port: the Service {settled.service} in the "
            f"namespace {settled.namespace} must have one that is named {_PORT}"
        )
    return (
        f"No node agent is ready on {told}: see the agents' pods there (kubectl get pods "
        f"--namespace {settled.namespace} --output wide)"
    )


def _chosen(found: Iterable[_Agent], node: str, ipv6: bool) -> _Agent | None:  # noqa: FBT001 - one of two families
    """Return a node's agent, by the servers' address family where it has both."""
    ready = [agent for agent in found if agent.node == node and agent.ready and agent.url]
    return min(ready, key=lambda agent: (agent.ipv6 is not ipv6, agent.url), default=None)


def _agents(slices: Iterable[Json]) -> Iterator[_Agent]:
    for endpoint, slice_ in endpoints(slices):
        ipv6 = slice_.get("addressType") == "IPv6"
        address, port = str(endpoint["addresses"][0]), _port(slice_)
        host = f"[{address}]" if ipv6 else address
        yield _Agent(
            node=str(endpoint.get("nodeName") or ""),
            url="" if port is None else f"http://{host}:{port}",
            ipv6=ipv6,
            # Absent means that it is not known, and is to be taken as ready.
            ready=(endpoint.get("conditions") or {}).get("ready") is not False,
        )


def _port(slice_: Json) -> int | None:
    """Return the slice's port of that name, or its only one."""
    ports = [each for each in slice_.get("ports") or () if each.get("protocol", "TCP") == "TCP"]
    named = [each for each in ports if each.get("name") == _PORT]
    only: Mapping[str, object] = (named or ports)[0] if named or len(ports) == 1 else {}
    port = only.get("port")
    return port if isinstance(port, int) else None


def _ipv6(servers: Iterable[PlannedServer]) -> bool:
    return any("//[" in server.url for server in servers)


def _bound_at(context: ReconcileContext) -> datetime:
    """Return when the last of the server's pods was bound to its node."""
    found = (
        parse_time(pods.condition(pod, "PodScheduled").get("lastTransitionTime"))
        or creation_time(pod)
        for pod in server_pods(context)
    )
    return max((at for at in found if at is not None), default=context.now)
