"""Assignment of node agents to the servers of a run.

A run never waits long for agents, and never fails without them: the plan and the result say what
cannot be measured. An author of runs may write EndpointSlices too, so that an endpoint counts only
if the pods confirm it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from inferometer_api.plan.load_plan import PlannedAgent, PlannedServer
from inferometer_api.results.agent_sample import MAX_WORKLOADS
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.observed import EndpointList, Json
from inferometer_operator.reconcile.pods import server_pods
from inferometer_operator.reconcile.times import add_seconds
from inferometer_operator.settings import Agents

_STARTS_SECONDS = 15.0
"""How long the plan waits for an agent that starts on a node as new as the server's pod."""
_MAX_NODES_NAMED = 4
_PORT = "http"


@dataclass(frozen=True, slots=True)
class AgentAssignment:
    """The agents on the servers' nodes."""

    agents: tuple[PlannedAgent, ...] = ()
    """At most one for each node."""
    unmetered: str = ""
    """Why not every server has an agent: a sentence without its period."""
    until: datetime | None = None
    """Until when to wait for a starting agent; None: none starts."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """An endpoint of the agents' Service."""

    node: str
    url: str
    """Empty if its slice has no port to use."""
    ipv6: bool
    ready: bool


@dataclass(frozen=True, slots=True)
class ServiceBackends:
    """The pods behind a Service."""

    uids_by_node: dict[str, list[str]]
    """Pods of its own namespace that are bound to a node, ready or not; sorted."""
    others: int
    """The number of other endpoints, whose node is unknown."""


def service_backends(listed: EndpointList) -> ServiceBackends:
    """Return the pods behind a Service; a pod counts once, whatever its addresses."""
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
    """Return the nodes in slices, sorted."""
    return sorted({str(each["nodeName"]) for each, _ in endpoints(slices) if each.get("nodeName")})


def endpoints(slices: Iterable[Json]) -> Iterator[tuple[Json, Json]]:
    """Yield each endpoint that has an IP address and is not terminating, and its slice."""
    for each in slices:
        if each.get("addressType") in {"IPv4", "IPv6"}:
            for endpoint in each.get("endpoints") or ():
                ends = (endpoint.get("conditions") or {}).get("terminating") is True
                if endpoint.get("addresses") and not ends:
                    yield endpoint, each


def agent_url(slices: Iterable[Json], node: str) -> str | None:
    """Return where what a Service has on a node answers; None if nothing is ready there."""
    found = _chosen(_agents(slices), node, ipv6=False)
    return None if found is None else found.url


def assign_agents(context: ReconcileContext, servers: Iterable[PlannedServer]) -> AgentAssignment:
    """Return the agents for the servers of a new plan."""
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
    reasons = [_absent(settled, found, absent), *filter(None, [targets.unmetered])]
    starts = any(agent.node in absent and not agent.ready for agent in found)
    return AgentAssignment(
        agents,
        unmetered="; ".join(reasons),
        until=add_seconds(_bound_at(context), _STARTS_SECONDS)
        if starts and context.is_launched
        else None,
    )


def backend_nodes(context: ReconcileContext) -> tuple[str, ...]:
    """Return the nodes of an External server's pods, if its Service shows them."""
    listed = context.observed.behind_service
    return () if listed is None else tuple(service_backends(listed).uids_by_node)


_NONE_SETTLED = (
    "The operator has no node agents configured (its setting agent has no namespace): the "
    "cluster's admin can install the chart inferometer-agent, and set its namespace there"
)
_NOT_LISTED = (
    "The node agents were not listed before the plan was made, because no server had an address "
    "then: create the run again"
)
_BY_URL = (
    "The External server has a URL, so that its node is unknown: if it has pods in the run's "
    "namespace, use their Service instead"
)


@dataclass(frozen=True, slots=True)
class _Targets:
    """The servers' pods to measure, by node."""

    uids_by_node: dict[str, list[str]]
    unmetered: str = ""
    """Why these are not all servers."""


def _targets(context: ReconcileContext, servers: Iterable[PlannedServer]) -> _Targets:
    if context.is_launched:
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
        refusal = "" if listed is None else f": {listed.refusal}"
        return _Targets({}, f"The pods behind the Service {name} could not be listed{refusal}")
    return _measurable(service_backends(listed), name, context.namespace)


def _measurable(found: ServiceBackends, service: str, namespace: str) -> _Targets:
    """Return the pods behind a Service that agents can measure."""
    where = f"pods of the namespace {namespace} that are bound to a node"
    if not found.uids_by_node:
        return _Targets(
            {},
            f"The Service {service} has no {where} behind it, so that the External server's node "
            "is not known",
        )
    reasons = []
    if found.others:
        reasons.append(
            f"{_many(found.others, 'endpoint')} behind the Service {service} "
            f"{'is' if found.others == 1 else 'are'} not among the {where}, so that not every "
            "server's node is known"
        )
    reasons += [
        f"The node agent on {node} measures {MAX_WORKLOADS} pods at a time, and the Service "
        f"{service} has {len(uids)} there"
        for node, uids in found.uids_by_node.items()
        if len(uids) > MAX_WORKLOADS
    ]
    fits = {node: uids for node, uids in found.uids_by_node.items() if len(uids) <= MAX_WORKLOADS}
    return _Targets(fits, "; ".join(reasons))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _no_agents(settled: Agents, listed: EndpointList) -> str:
    """Return why there are no agents at all; empty if there are some."""
    where = f"the Service {settled.service} in the namespace {settled.namespace}"
    if listed.refusal:
        return (
            f"The node agents behind {where} could not be listed ({listed.refusal}): the "
            "cluster's admin must add the operator's service account to the value operators of "
            "the chart inferometer-agent"
        )
    if not any(True for _ in endpoints(listed.slices)):
        return (
            f"There are no node agents behind {where}: the cluster's admin can install the chart "
            "inferometer-agent there, or correct the operator's setting agent"
        )
    return ""


def _absent(settled: Agents, found: list[_Agent], absent: list[str]) -> str:
    names = ", ".join(absent[:_MAX_NODES_NAMED])
    if len(absent) > _MAX_NODES_NAMED:
        names += f" and {len(absent) - _MAX_NODES_NAMED} more"
    if any(agent.node in absent and agent.ready for agent in found):
        return (
            f"The node agents on {names} have no port: the Service {settled.service} in the "
            f"namespace {settled.namespace} needs one named {_PORT}"
        )
    return (
        f"No node agent is ready on {names}: see the agents' pods there (kubectl get pods "
        f"--namespace {settled.namespace} --output wide)"
    )


def _chosen(found: Iterable[_Agent], node: str, ipv6: bool) -> _Agent | None:  # noqa: FBT001 - one of two families
    """Return a node's agent, by the servers' address family if it has both."""
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
            # Absent means unknown, which counts as ready.
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
    found = (context.since(pod, "bound") for pod in server_pods(context))
    return max(found, default=context.now)
