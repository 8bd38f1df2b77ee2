"""Finds a pod's control group in each layout that kubelets make.

`ROOT/kubepods/burstable/podUID` with the cgroupfs driver, with systemd's
`ROOT/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice` and underscores in
the UID; guaranteed pods have no folder of their class. The kubelet may have a root of its own, so
that all this lies some folders deeper. With control groups v1 it is below each controller's root.
Source: pkg/kubelet/cm/cgroup_manager_linux.go and qos_container_manager_linux.go of Kubernetes.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CLASSES = ("", "burstable", "besteffort")
_DEEPEST = 4
"""How many folders a kubelet's root may lie below the root of all groups."""
_MOST_FOLDERS = 4096
_LOOK_AGAIN_NS = 10 * 10**9
_V1_NAMES = {
    "cpuacct": ("cpuacct", "cpu,cpuacct", "cpuacct,cpu"),
    "cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu"),
    "memory": ("memory",),
}


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The roots of what is read: one and the same with control groups v2."""

    version: int
    cpuacct: str
    cpu: str | None
    memory: str | None


@dataclass(frozen=True, slots=True)
class PodFolders:
    """The control group of one pod: one folder with v2, one for each controller with v1."""

    version: int
    cpuacct: str
    cpu: str | None
    memory: str | None


class Cgroups:
    """The control groups of this node's pods."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bases: list[str] = []
        self._searched_ns: int | None = None

    def hierarchies(self) -> Hierarchies | None:
        """Return what there is; None if the root has no control groups."""
        root = str(self.root)
        if _is_there(f"{root}/cgroup.controllers"):
            return Hierarchies(2, root, root, root)
        found = {
            controller: next(filter(_is_there, (f"{root}/{name}" for name in names)), None)
            for controller, names in _V1_NAMES.items()
        }
        cpuacct = found["cpuacct"]
        if cpuacct is None:
            return None
        return Hierarchies(1, cpuacct, found["cpu"], found["memory"])

    def pod(self, uid: str, now_ns: int) -> PodFolders | None:
        """Return the folders of a pod's group; None if it has none now."""
        hierarchies = self.hierarchies()
        if hierarchies is None:
            return None
        found = self._among_known(hierarchies.cpuacct, uid)
        searched_ns = self._searched_ns
        if found is None and (searched_ns is None or now_ns - searched_ns >= _LOOK_AGAIN_NS):
            self._searched_ns = now_ns
            self._bases = list(_bases(hierarchies.cpuacct))
            found = self._among_known(hierarchies.cpuacct, uid)
        if found is None:
            return None
        return PodFolders(
            hierarchies.version,
            f"{hierarchies.cpuacct}/{found}",
            None if hierarchies.cpu is None else f"{hierarchies.cpu}/{found}",
            None if hierarchies.memory is None else f"{hierarchies.memory}/{found}",
        )

    def _among_known(self, root: str, uid: str) -> str | None:
        candidates = (folder for base in self._bases for folder in pod_folders(base, uid))
        return next((folder for folder in candidates if _is_there(f"{root}/{folder}")), None)


def pod_folders(base: str, uid: str) -> Iterator[str]:
    """Yield where a pod may be below a folder kubepods or ...kubepods.slice."""
    name = base.rpartition("/")[2]
    stem = name.removesuffix(".slice")
    below = f"pod{uid}" if stem == name else f"pod{uid.replace('-', '_')}.slice"
    for of_class in _CLASSES:
        if stem == name:
            yield f"{base}/{of_class}/{below}" if of_class else f"{base}/{below}"
        elif of_class:
            yield f"{base}/{stem}-{of_class}.slice/{stem}-{of_class}-{below}"
        else:
            yield f"{base}/{stem}-{below}"


def _bases(root: str) -> Iterator[str]:
    """Yield the folders that kubelets keep pods in, relative to the root; nearest first."""
    left = _MOST_FOLDERS
    level = [""]
    for _ in range(_DEEPEST):
        below: list[str] = []
        for folder in level:
            for name in _folders(f"{root}/{folder}"):
                left -= 1
                if left < 0:
                    return
                inside = f"{folder}/{name}" if folder else name
                if name == "kubepods" or name.removesuffix(".slice").split("-")[-1] == "kubepods":
                    yield inside
                else:
                    below.append(inside)
        level = below


def _folders(folder: str) -> list[str]:
    """Return the names of the folders in a folder; none if it is gone."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _is_there(path: str) -> bool:
    # A Path costs several times what the kernel takes, for each pod at each sample.
    return os.path.exists(path)  # noqa: PTH110 - see above
