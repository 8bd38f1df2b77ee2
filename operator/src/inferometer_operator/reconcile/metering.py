"""Which node agents measure beside the load, and what is each asked for?

A run never waits long for them, and never fails for want of one: what cannot be measured is told in
the plan, and with the result.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from inferometer_api.plan import PlannedAgent, PlannedServer
from inferometer_operator.reconcile import pods
from inferometer_operator.reconcile.case import Case, created
from inferometer_operator.reconcile.observed import Json, Listed
from inferometer_operator.reconcile.owned import server_pods
from inferometer_operator.reconcile.times import later, read
from inferometer_operator.settings import Agents

_STARTS_SECONDS = 15.0
"""How long the plan may wait for an agent that starts on a node as new as the server's pod."""
_MOST_NODES_TOLD = 4
_PORT = "http"


@dataclass(frozen=True, slots=True)
class Metering:
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


def metering(case: Case, servers: Iterable[PlannedServer]) -> Metering:
    """Return which agents are asked about the servers of a plan that is made now."""
    targets = _pods_by_node(case, servers)
    if isinstance(targets, str):
        return Metering(unmetered=targets)
    settled, listed = case.settings.agent, case.observed.agents
    if settled is None or listed is None:
        return Metering(unmetered=_NONE_SETTLED)
    if why := _no_agents(settled, listed):
        return Metering(unmetered=why)
    found = list(_agents(listed.slices))
    chosen = {node: _chosen(found, node, _ipv6(servers)) for node in targets}
    agents = tuple(
        PlannedAgent(url=agent.url, node=node, pod_uids=targets[node])
        for node, agent in chosen.items()
        if agent is not None
    )
    absent = [node for node, agent in chosen.items() if agent is None]
    if not absent:
        return Metering(agents)
    starts = any(agent.node in absent and not agent.ready for agent in found)
    return Metering(
        agents,
        unmetered=_absent(settled, found, absent),
        until=later(_bound_at(case), _STARTS_SECONDS) if starts and case.launched else None,
    )


def nodes_behind(case: Case) -> tuple[str, ...]:
    """Return the nodes of an External server's pods, where its Service tells them."""
    listed = case.observed.behind_service
    return () if listed is None else tuple(_behind(case, listed.slices))


_NONE_SETTLED = (
    "The operator knows no node agents (its setting agent names no namespace): let the cluster's "
    "admin install the chart inferometer-agent, and name its namespace to the operator"
)
_BY_URL = (
    "The External server is named by a URL, so that its node is not known: name a Service of the "
    "run's namespace instead, where it has pods there"
)


def _pods_by_node(case: Case, servers: Iterable[PlannedServer]) -> dict[str, list[str]] | str:
    """Return the UIDs of the servers' pods by node, or why they are not known."""
    if case.launched:
        found: dict[str, list[str]] = {}
        for server in servers:
            found.setdefault(server.node, []).append(server.pod_uid)
        return found
    external = case.run.spec.server.external
    if external is None or external.service is None:
        return _BY_URL
    listed = case.observed.behind_service
    name = external.service.name
    if listed is None or listed.refusal:
        told = "" if listed is None else f": {listed.refusal}"
        return f"The pods behind the Service {name} could not be listed{told}"
    return _behind(case, listed.slices) or (
        f"The Service {name} has no pods of the namespace {case.namespace} behind it that are "
        "bound to a node, so that the External server's node is not known"
    )


def _behind(case: Case, slices: Iterable[Json]) -> dict[str, list[str]]:
    """Return the UIDs of the pods behind a Service by node, in order; also of those not ready."""
    found: dict[str, set[str]] = {}
    for endpoint, _ in _endpoints(slices):
        pod = endpoint.get("targetRef") or {}
        node, uid = endpoint.get("nodeName"), pod.get("uid")
        own = pod.get("namespace", case.namespace) == case.namespace
        if pod.get("kind") == "Pod" and own and node and uid:
            found.setdefault(str(node), set()).add(str(uid))
    return {node: sorted(found[node]) for node in sorted(found)}


def _no_agents(settled: Agents, listed: Listed) -> str:
    """Return why there are no agents at all; empty where there are some."""
    where = f"the Service {settled.service} in the namespace {settled.namespace}"
    if listed.refusal:
        return (
            f"The node agents behind {where} could not be listed ({listed.refusal}): let the "
            "cluster's admin name the operator's service account in the value operators of the "
            "chart inferometer-agent"
        )
    if not any(True for _ in _endpoints(listed.slices)):
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
    for endpoint, slice_ in _endpoints(slices):
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


def _endpoints(slices: Iterable[Json]) -> Iterator[tuple[Json, Json]]:
    """Yield each endpoint that has an IP address and is not ending, and its slice."""
    for each in slices:
        if each.get("addressType") in {"IPv4", "IPv6"}:
            for endpoint in each.get("endpoints") or ():
                ends = (endpoint.get("conditions") or {}).get("terminating") is True
                if endpoint.get("addresses") and not ends:
                    yield endpoint, each


def _port(slice_: Json) -> int | None:
    """Return the slice's port of that name, or its only one."""
    ports = [each for each in slice_.get("ports") or () if each.get("protocol", "TCP") == "TCP"]
    named = [each for each in ports if each.get("name") == _PORT]
    only: Mapping[str, object] = (named or ports)[0] if named or len(ports) == 1 else {}
    port = only.get("port")
    return port if isinstance(port, int) else None


def _ipv6(servers: Iterable[PlannedServer]) -> bool:
    return any("//[" in server.url for server in servers)


def _bound_at(case: Case) -> datetime:
    """Return when the last of the server's pods was bound to its node."""
    found = (
        read(pods.condition(pod, "PodScheduled").get("lastTransitionTime")) or created(pod)
        for pod in server_pods(case)
    )
    return max((at for at in found if at is not None), default=case.now)
