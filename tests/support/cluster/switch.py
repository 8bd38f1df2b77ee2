"""A cluster's own network, and a wire to the machine."""

import subprocess
from pathlib import Path

from support.cluster.addresses import SLOTS, Wire, switch_plan
from support.cluster.processes import Group
from support.waiting import wait_until


class Switch:
    """A network namespace that lives as long as its process; the control plane runs in it."""

    def __init__(self, group: Group, name: str) -> None:
        """Make the namespace and wire it to the machine in the first free slot."""
        self._name = name
        self._holder = group.start("switch", ["unshare", "--net", "sleep", "infinity"])
        ours = Path("/proc/self/ns/net").readlink()
        wait_until(
            lambda: Path(f"/proc/{self._holder.pid}/ns/net").readlink() != ours,
            "The cluster's own network",
            [self._holder],
        )
        self.wire = self._claim()
        interface = self.wire.interface
        ip([f"link set {interface} alias {name}"])
        ip([f"addr add {self.wire.machine}/30 dev {interface}", f"link set {interface} up"])
        self.ip(switch_plan(self.wire))

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return the words before a command that put it into this network."""
        return network_of(self._holder.pid)

    def ip(self, commands: list[str]) -> None:
        """Run these `ip` commands at the switch."""
        ip(commands, self.prefix)

    def unplug(self) -> None:
        """Remove the wire at once: left to the kernel, it may stay for a minute or more."""
        unplug(self.wire, self._name)

    def _claim(self) -> Wire:
        """Take the first free slot: the kernel makes no interface twice."""
        for slot in range(SLOTS):
            wire = Wire(slot)
            command = f"link add {wire.interface} type veth peer name uplink"
            done = _run([f"{command} netns {self._holder.pid}"], ())
            if done.returncode == 0:
                return wire
            if "File exists" not in done.stderr:
                raise RuntimeError(f"A wire to the cluster could not be made: {done.stderr}")
        raise RuntimeError(f"All {SLOTS} slots for clusters are taken on this machine.")


def unplug(wire: Wire, name: str) -> bool:
    """Remove the wire of this cluster; return False where another cluster has taken the slot."""
    alias = Path("/sys/class/net", wire.interface, "ifalias")
    try:
        owner = alias.read_text().strip()
    except FileNotFoundError:
        return True
    if owner != name:
        return False
    done = _run([f"link del {wire.interface}"], ())
    if done.returncode != 0 and "Cannot find device" not in done.stderr:
        raise RuntimeError(f"The wire {wire.interface} could not be removed: {done.stderr}")
    return True


def network_of(pid: int) -> tuple[str, ...]:
    """Return the words before a command that run it in the network of this process."""
    return ("nsenter", f"--net=/proc/{pid}/ns/net")


def ip(commands: list[str], prefix: tuple[str, ...] = ()) -> None:
    """Run these `ip` commands, in the machine's network by default."""
    done = _run(commands, prefix)
    if done.returncode != 0:
        raise RuntimeError(f"Of the commands {commands}, ip could not run all: {done.stderr}")


def _run(commands: list[str], prefix: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, "ip", "-batch", "-"],
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
        check=False,
    )
