"""A whole cluster with its nodes, which starts and ends without a trace."""

import json
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from typing_extensions import override

from support.cluster import addresses, cgroups, configurations, volumes
from support.cluster.addresses import Wire
from support.cluster.availability import why_no_nodes
from support.cluster.binaries import ensure
from support.cluster.configurations import Account
from support.cluster.control_plane import ControlPlane, Place
from support.cluster.homes import Home
from support.cluster.node import Node
from support.cluster.pins import NODES
from support.cluster.processes import Group, Process
from support.cluster.switch import Switch
from support.waiting import wait_until

_API_PORT = 6443
READY_SECONDS = 120.0
"""Far above what it takes: a start that reaches it has failed."""


class Cluster(ControlPlane):
    """A running cluster: a control plane, a scheduler, a name server and nodes."""

    def __init__(self, name: str, nodes: int = 1, images: Sequence[Path] = ()) -> None:
        """Start a cluster of this name, give its nodes the images, wait until they are Ready."""
        why_not = why_no_nodes()
        if why_not is not None:
            raise RuntimeError(why_not)
        self.name = name
        self._programs = ensure(NODES)
        self._home = Home(name)
        self._switch: Switch | None = None
        self.group = Group(self._home.folder / "logs")
        self.nodes: dict[str, Node] = {}
        self._kubelets = [_account(f"system:node:node{k}", "nodes") for k in _numbers(nodes)]
        self._proxy = _account("system:kube-proxy", "node-proxier")
        self._scheduler = _account("system:kube-scheduler")
        self._names = _account("system:coredns")
        try:
            self._start(nodes, images)
        except BaseException:
            self.stop()
            raise

    @property
    def wire(self) -> Wire:
        """Return the wire between the machine and the cluster."""
        if self._switch is None:
            raise RuntimeError(f"The cluster {self.name!r} has not started.")
        return self._switch.wire

    def start_in_control_plane(self, name: str, command: Sequence[str | Path]) -> Process:
        """Start a program in the cluster's own network, from where it reaches every pod."""
        if self._switch is None:
            raise RuntimeError(f"The cluster {self.name!r} has not started.")
        return self.group.start(name, [*self._switch.prefix, *command])

    def kill_node(self, name: str) -> None:
        """Let a node die at once, with all that runs on it."""
        self.nodes[name].kill()

    def start_node(self, name: str) -> None:
        """Start a node that died: the same machine, with its disk as it was."""
        node = self.nodes[name]
        node.boot()
        node.join(self._programs["kubelet"], self._programs["kube-proxy"])

    def import_image(self, archive: Path, *, by_digest: str = "") -> None:
        """Give every node the images of an OCI archive; `by_digest` as of a node."""
        with ThreadPoolExecutor() as threads:
            list(
                threads.map(
                    lambda node: node.import_image(archive, by_digest=by_digest),
                    self.nodes.values(),
                )
            )

    def provide_storage(self) -> None:
        """Make a default StorageClass and some volumes on every node."""
        for node in self.nodes.values():
            volumes.make_folders(node.folder / "lib")
        self.kubectl("create", "-f", "-", stdin=volumes.storage(self.nodes))

    def node_is_ready(self, name: str) -> bool:
        """Return whether the API server holds this node for Ready."""
        template = '{.status.conditions[?(@.type=="Ready")].status}'
        words = ("get", "node", name, "--ignore-not-found", "-o", f"jsonpath={template}")
        return self.kubectl(*words) == "True"

    @override
    def stop(self) -> None:
        """End the cluster and remove every trace of it from the machine."""
        if self._switch is not None:
            self._switch.unplug()
        for node in self.nodes.values():
            node.kill()
        self.group.stop()
        if self._switch is not None:
            cgroups.remove(self._switch.wire.cgroup)
        self._home.remove()

    def _start(self, nodes: int, images: Sequence[Path]) -> None:
        self._switch = switch = Switch(self.group, self.name)
        self._home.remember(switch.wire.slot)
        # A cluster that was killed leaves its groups to the next cluster in its slot.
        cgroups.remove(switch.wire.cgroup)
        for number in _numbers(nodes):
            node = Node(number, nodes, self._home.folder, self.group, switch)
            node.install(self._programs["pause"], images)
            node.boot()
            self.nodes[node.name] = node
        place = Place(switch.wire.cluster, _API_PORT, 2379, 2380, switch.prefix, nodes=True)
        accounts = [*self._kubelets, self._proxy, self._scheduler, self._names]
        super().__init__(self._home.folder, place, self.group, accounts)
        self._start_services(switch)
        self._join()

    def _start_services(self, switch: Switch) -> None:
        """Start the scheduler and the name server, which is a user with rights of its own."""
        folder = self._home.folder
        scheduler = self.write_kubeconfig(folder / "scheduler.kubeconfig", self._scheduler.token)
        self.group.start("kube-scheduler", [
            *switch.prefix, self._programs["kube-scheduler"],
            f"--kubeconfig={scheduler}", "--leader-elect=false",
        ])  # fmt: skip
        rights = configurations.name_server_rights(self._names.user)
        self.kubectl("create", "-f", "-", stdin=json.dumps(rights))
        names = self.write_kubeconfig(folder / "coredns.kubeconfig", self._names.token)
        corefile = folder / "Corefile"
        corefile.write_text(configurations.corefile(addresses.SWITCH, str(names)))
        self.group.start("coredns", [*switch.prefix, self._programs["coredns"], "-conf", corefile])

    def _join(self) -> None:
        for node, account in zip(self.nodes.values(), self._kubelets, strict=True):
            self.write_kubeconfig(node.folder / "kubelet.kubeconfig", account.token)
            self.write_kubeconfig(node.folder / "kube-proxy.kubeconfig", self._proxy.token)
            node.join(self._programs["kubelet"], self._programs["kube-proxy"])
        for name, node in self.nodes.items():
            wait_until(
                partial(self.node_is_ready, name),
                f"{name}'s readiness",
                node.programs,
                READY_SECONDS,
                poll_seconds=0.2,
            )


def _numbers(nodes: int) -> range:
    """Return the numbers of the nodes, counted from 1."""
    return range(1, nodes + 1)


def _account(user: str, group: str = "") -> Account:
    groups = (f"system:{group}",) if group else ()
    return Account(user, groups, secrets.token_hex(16))
