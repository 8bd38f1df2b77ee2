"""CPU use of other processes during a step, on the machines of a run."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psutil
from typing_extensions import override

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import NodeTelemetry, OtherLoad
from inferometer_loadgen.client.node import node_name
from inferometer_loadgen.client.processes import MachineSnapshot, other_load, read_machine
from inferometer_loadgen.drive import DrivenStep, StepObserver
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_loadgen.server.servers import endpoints_of

_PROXIES = frozenset({"", "docker-proxy", "rootlesskit", "kubectl", "ssh", "pasta"})
"""Programs that listen in place of a server in a container or on another machine."""


@dataclass(frozen=True, slots=True)
class OtherLoadScope:
    """Which processes on the load generator's machine count as the run's own."""

    node: str
    """Its Kubernetes node; empty in a local run."""
    is_measured: bool
    """Whether the CPU use of every process of the run is known on this machine."""
    servers: frozenset[int] = frozenset()
    """Processes of servers here that another program started."""


def scope_of(plan: LoadPlan, *, colocated: bool) -> OtherLoadScope:
    """Return which processes are the run's own; `colocated`: whether a server runs here.

    The processes of a server on this machine that another program started are those that listen on
    its port. In a cluster, the agent reports the CPU use of the servers' pods, and that of a
    fleet's other pods is unknown.
    """
    if plan.place == "Local":
        if plan.server_process_ids or not colocated:
            return OtherLoadScope("", is_measured=True)
        servers = listeners({endpoint.port for endpoint in endpoints_of(plan)})
        return OtherLoadScope("", is_measured=bool(servers), servers=servers)
    node = node_name() or ""
    is_metered = any(agent.node == node for agent in plan.agents)
    is_fleet = plan.run.spec.load.workers > 1
    return OtherLoadScope(
        node, is_measured=bool(node) and not is_fleet and (is_metered or not colocated)
    )


class OtherLoadWatch(StepObserver):
    """Reads the CPU times of all visible processes before and after one step.

    That takes milliseconds, so it happens before the warm-up and after the last answer.
    """

    def __init__(self, scope: OtherLoadScope) -> None:
        self._scope = scope
        self._before: MachineSnapshot | None = None

    @override
    def begin(self, step: DrivenStep) -> None:
        self._before = read_machine() if self._scope.is_measured else None

    def total(self) -> OtherLoad | None:
        """Return the CPU use of others since the step began; None if it is unknown."""
        after = read_machine() if self._before is not None else None
        if self._before is None or after is None:
            return None
        if self._scope.node:
            # A pod sees its own processes only.
            own = {*self._before.processes, *after.processes}
        else:
            # The command that runs everything is the parent.
            root = os.getppid() if os.getppid() > 1 else os.getpid()
            own = {
                pid
                for each in (root, *self._scope.servers)
                for pid in self._before.family_of(each) | after.family_of(each)
            }
        found = other_load(self._before, after, own)
        return found.model_copy(update={"node": self._scope.node})


def listeners(ports: Collection[int]) -> frozenset[int]:
    """Return the processes that listen on TCP ports of this machine.

    Empty if one is unknown: another user's, or a proxy in front of a container.
    """
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.Error:
        return frozenset()
    found: set[int] = set()
    for port in ports:
        pids = {
            each.pid
            for each in sockets
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
        }
        known = {pid for pid in pids if pid is not None and _name(pid) not in _PROXIES}
        if not known or len(known) < len(pids):
            return frozenset()
        found |= known
    return frozenset(found)


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""


def other_loads(
    own: OtherLoad | None, nodes: Sequence[NodeTelemetry], duration_ns: int
) -> list[OtherLoad]:
    """Return the CPU use of others on each machine on which it is known.

    `own` is that of the load generator's machine, and includes servers in pods; `nodes` are the
    servers' nodes.
    """
    if own is None:
        return []
    if not own.node:
        return [own]
    seconds = max(1, duration_ns) / SECOND_NS
    found = [own]
    for each in nodes:
        cores = [one.cpu_cores for one in each.samples if one.at_milliseconds >= 0]
        known = [one for one in cores if one is not None]
        if each.server_cpu_seconds is None:
            continue
        server = each.server_cpu_seconds / seconds
        if each.node == own.node:
            left = max(0.0, own.other_cores - server)
            found[0] = own.model_copy(update={"other_cores": round(left, 3)})
        elif known and each.cpu_count:
            busy = sum(known) / len(known)
            found.append(
                OtherLoad(
                    node=each.node,
                    cpu_count=each.cpu_count,
                    busy_cores=round(busy, 3),
                    other_cores=round(max(0.0, busy - server), 3),
                )
            )
    return found
