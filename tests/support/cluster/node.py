"""A node that starts, dies and starts again."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import psutil
from images.catalogue import name_in_cluster

from support.cluster import addresses, cgroups, configurations
from support.cluster.availability import cni_folder
from support.cluster.configurations import CONTAINERD, NODE_HOME
from support.cluster.control_plane import SERVICE_RANGE
from support.cluster.disk import OWN_PLACES, lay, snapshotter
from support.cluster.processes import Group, Process
from support.cluster.switch import Switch, ip, network_of
from support.waiting import wait_until

# Run as the first process of a node. It hides what must not be the machine's, and becomes the
# program that reaps what is orphaned.
_FIRST = f"""\
{OWN_PLACES}
mount -n --bind {NODE_HOME}/lib /var/lib
mount -n --bind {NODE_HOME}/log /var/log
names=$(readlink -m /etc/resolv.conf)
mkdir -p "$(dirname "$names")"
[ -e "$names" ] || touch "$names"
mount -n --bind {NODE_HOME}/resolv.conf "$names"
echo 1 > /proc/sys/net/ipv4/ip_forward
touch {NODE_HOME}/up
exec "$2"
"""
_ENTER = ("--net", "--mount", "--pid")
_TIME = Path("/proc/self/ns/time")
_BOOTED_APART_SECONDS = 5000


class Node:
    """One node: a network, mount, process and time namespace, and the programs in them."""

    def __init__(self, number: int, nodes: int, home: Path, group: Group, switch: Switch) -> None:
        self.number = number
        self.name = f"node{number}"
        self.folder = home / self.name
        self._nodes = nodes
        self._group = group
        self._switch = switch
        self._first: Process | None = None
        self.programs: list[Process] = []
        self._write_configuration()

    @property
    def address(self) -> str:
        """Return its address, seen within the cluster."""
        return addresses.node_address(self.number)

    @property
    def clock_ahead_seconds(self) -> int:
        """Return by how much its monotonic clock is ahead of the machine's own.

        As if each node had been booted at another time; 0 where there are no time namespaces.
        """
        return (self.number - 1) * _BOOTED_APART_SECONDS if _TIME.exists() else 0

    @property
    def pid(self) -> int:
        """Return the id of its first process, seen from the machine."""
        if self._first is None:
            raise RuntimeError(f"{self.name} is not running.")
        return psutil.Process(self._first.pid).children()[0].pid

    def install(self, pause: Path, images: Sequence[Path]) -> None:
        """Lay its disk, with the images and the program that its first process becomes."""
        shutil.copy(pause, self.folder / "pause")
        lay(images, self.folder / "containerd")

    def boot(self) -> None:
        """Make its namespaces, plug it in and start containerd."""
        (self.folder / "up").unlink(missing_ok=True)
        namespaces = [*_ENTER, "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        if ahead := self.clock_ahead_seconds:
            namespaces += ["--time", "--monotonic", str(ahead), "--boottime", str(ahead)]
        script = ["/bin/bash", "-c", _FIRST, "bash", str(self.folder), f"{NODE_HOME}/pause"]
        self._first = self._group.start(f"{self.name}-first", ["unshare", *namespaces, *script])
        wait_until((self.folder / "up").exists, f"The first process of {self.name}", [self._first])
        self._switch.ip(addresses.port_plan(self.number, self.name, self.pid))
        plan = addresses.node_plan(self._switch.wire, self.number, self._nodes)
        ip(plan, network_of(self.pid))
        self._start("containerd", [
            "containerd", "--config", f"{NODE_HOME}/containerd.toml"
        ])  # fmt: skip
        self._await_socket()

    def join(self, kubelet: Path, kube_proxy: Path) -> None:
        """Start the kubelet and kube-proxy, which find the API server by their kubeconfigs."""
        self._start("kubelet", [
            kubelet,
            f"--config={NODE_HOME}/kubelet.yaml",
            f"--kubeconfig={NODE_HOME}/kubelet.kubeconfig",
            f"--root-dir={NODE_HOME}/kubelet",
            f"--cert-dir={NODE_HOME}/kubelet-certificates",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ])  # fmt: skip
        self._start("kube-proxy", [
            kube_proxy,
            f"--kubeconfig={NODE_HOME}/kube-proxy.kubeconfig",
            f"--hostname-override={self.name}",
            f"--cluster-cidr={addresses.POD_RANGE}",
            "--proxy-mode=iptables",
            "--oom-score-adj=0",
            # What the whole machine shares is not for us to change.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ])  # fmt: skip

    def start_firewall(self, kube_router: Path, kubeconfig: str) -> None:
        """Start a network policy engine; `kubeconfig` is the name of a file in its folder."""
        self._start("kube-router", [
            kube_router,
            "--run-firewall=true",
            "--run-router=false",
            "--run-service-proxy=false",
            f"--kubeconfig={NODE_HOME}/{kubeconfig}",
            f"--hostname-override={self.name}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--health-port=0",
            "--metrics-port=0",
        ])  # fmt: skip

    def kill(self) -> None:
        """End everything on the node at once, as when its machine loses power."""
        if self._first is not None and self._first.running:
            # Its parent ends only after every process of the namespace is gone.
            os.kill(self.pid, signal.SIGKILL)
            self._first.wait()
        self._first = None
        self.programs.clear()

    def import_image(self, archive: Path, *, by_digest: str = "") -> None:
        """Give the node the images of an OCI archive.

        `by_digest`: the name of the one image in it, which pods then may name by its digest.
        """
        names = ("--digests", f"--base-name={by_digest}") if by_digest else ()
        with archive.open("rb") as content:
            self._images(
                "import", f"--snapshotter={snapshotter(self.folder)}", *names, "-", stdin=content
            )

    def push_image(self, image: str, target: str) -> None:
        """Push an image that the node has to a registry on it."""
        self._images("push", "--plain-http", target, name_in_cluster(image))

    def _images(self, *words: str, stdin: IO[bytes] | None = None) -> None:
        done = subprocess.run(
            [*self._enter(), "ctr", "--namespace=k8s.io", f"--address={CONTAINERD}",
             "images", *words],
            stdin=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(
                f"ctr images {' '.join(words)} on {self.name}, and containerd refused: "
                f"{done.stderr.strip()}"
            )

    def _enter(self) -> list[str]:
        namespaces = [*_ENTER, "--time"] if self.clock_ahead_seconds else _ENTER
        return ["nsenter", f"--target={self.pid}", *namespaces]

    def _start(self, name: str, command: list[str | Path]) -> None:
        program = self._group.start(f"{self.name}-{name}", [*self._enter(), *command])
        self.programs.append(program)

    def _await_socket(self) -> None:
        socket = Path(f"/proc/{self.pid}/root{CONTAINERD}")
        wait_until(socket.exists, f"containerd on {self.name}", self.programs)

    def _write_configuration(self) -> None:
        for name in ("lib", "log", "cni", "containerd"):
            (self.folder / name).mkdir(parents=True)
        cpus = cgroups.node_cpus(self.number)
        cgroup = cgroups.make(self._switch.wire.cgroup, self.name, cpus)
        reserved = cgroups.reserved_cpus()
        plugins, kind = str(cni_folder()), snapshotter(self.folder)
        files = {
            "resolv.conf": "nameserver 127.0.0.1\n",
            "containerd.toml": configurations.containerd(plugins, kind),
            "cni/10-pods.conflist": configurations.cni(addresses.pod_range(self.number)),
            "kubelet.yaml": configurations.kubelet(addresses.SWITCH, cgroup, reserved),
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)
