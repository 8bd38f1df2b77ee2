"""The control groups of a cluster, and their removal."""

import contextlib
import os
from pathlib import Path

from support.waiting import wait_until

_CPUS_SHOWN = 2
_SHARES = {"cpu.shares": 4096, "cpu.weight": 400}
"""Four times those of one process: pods have a machine, of which these processes take a part."""


def node_cpus(number: int) -> list[int]:
    """Return the CPUs that the node with this number runs its pods on: two, where there are."""
    available = sorted(os.sched_getaffinity(0))
    first = (number - 1) * _CPUS_SHOWN % len(available)
    chosen = (available[first:] + available[:first])[:_CPUS_SHOWN]
    return sorted(chosen)


def reserved_cpus() -> int:
    """Return how many of the machine's CPUs a kubelet must hold back to show two."""
    return max(0, (os.cpu_count() or _CPUS_SHOWN) - _CPUS_SHOWN)


def make(cluster: str, node: str, cpus: list[int]) -> str:
    """Make a node's group for every controller and return its name for the kubelet."""
    for hierarchy in _mounts("cgroup") or _mounts("cgroup2"):
        for folder in (hierarchy / cluster, hierarchy / cluster / node):
            folder.mkdir(exist_ok=True)
            _inherit(folder)
            for name, share in _SHARES.items():
                if (folder / name).exists():
                    (folder / name).write_text(str(share))
        own = hierarchy / cluster / node / "cpuset.cpus"
        if own.exists():
            own.write_text(",".join(map(str, cpus)))
    return f"/{cluster}/{node}"


def remove(cluster: str) -> None:
    """Remove a cluster's groups, whose last processes may still be ending."""
    wait_until(lambda: not _left_after_removal(cluster), f"The end of the control groups {cluster}")


def paths(cluster: str) -> list[Path]:
    """Return the folders of this cluster's groups, as far as there are any."""
    return [hierarchy / cluster for hierarchy in _hierarchies() if (hierarchy / cluster).exists()]


def _left_after_removal(cluster: str) -> bool:
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / cluster, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
    return bool(paths(cluster))


def _hierarchies() -> list[Path]:
    """Return every place where a group can be: a kubelet makes its own in all that it finds."""
    return [*_mounts("cgroup"), *_mounts("cgroup2")]


def _mounts(kind: str) -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] == kind]


def _inherit(folder: Path) -> None:
    """Hand down what a new group needs before a process may enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = folder / name
        if own.exists() and not own.read_text().strip() and not _unified(folder):
            own.write_text((folder.parent / name).read_text())
    if _unified(folder):
        controllers = (folder.parent / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in controllers)
        (folder.parent / "cgroup.subtree_control").write_text(wanted)


def _unified(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()
