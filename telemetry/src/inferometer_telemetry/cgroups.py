"""Where is a pod's control group, under each of the layouts that kubelets make?

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
    cpuacct: Path
    cpu: Path | None
    memory: Path | None


@dataclass(frozen=True, slots=True)
class PodFolders:
    """The control group of one pod: one folder with v2, one for each controller with v1."""

    version: int
    cpuacct: Path
    cpu: Path | None
    memory: Path | None


class Cgroups:
    """The control groups of this node's pods."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bases: list[Path] = []
        self._looked_ns: int | None = None

    def hierarchies(self) -> Hierarchies | None:
        """Return what there is; None where the root has no control groups."""
        root = self.root
        if (root / "cgroup.controllers").exists():
            return Hierarchies(2, root, root, root)
        found = {
            controller: next((root / name for name in names if (root / name).is_dir()), None)
            for controller, names in _V1_NAMES.items()
        }
        cpuacct = found["cpuacct"]
        if cpuacct is None:
            return None
        return Hierarchies(1, cpuacct, found["cpu"], found["memory"])

    def pod(self, uid: str, now_ns: int) -> PodFolders | None:
        """Return the folders of a pod's group; None where it has none now."""
        hierarchies = self.hierarchies()
        if hierarchies is None:
            return None
        found = self._among_known(hierarchies.cpuacct, uid)
        looked = self._looked_ns
        if found is None and (looked is None or now_ns - looked >= _LOOK_AGAIN_NS):
            self._looked_ns = now_ns
            self._bases = list(_bases(hierarchies.cpuacct))
            found = self._among_known(hierarchies.cpuacct, uid)
        if found is None:
            return None
        return PodFolders(
            hierarchies.version,
            hierarchies.cpuacct / found,
            None if hierarchies.cpu is None else hierarchies.cpu / found,
            None if hierarchies.memory is None else hierarchies.memory / found,
        )

    def _among_known(self, root: Path, uid: str) -> Path | None:
        candidates = (folder for base in self._bases for folder in pod_folders(base, uid))
        return next((folder for folder in candidates if (root / folder).is_dir()), None)


def pod_folders(base: Path, uid: str) -> Iterator[Path]:
    """Yield where a pod may be below a folder kubepods or ...kubepods.slice."""
    stem = base.name.removesuffix(".slice")
    for of_class in _CLASSES:
        if stem == base.name:
            yield base / of_class / f"pod{uid}"
        elif of_class:
            whole = f"{stem}-{of_class}"
            yield base / f"{whole}.slice" / f"{whole}-pod{uid.replace('-', '_')}.slice"
        else:
            yield base / f"{stem}-pod{uid.replace('-', '_')}.slice"


def _bases(root: Path) -> Iterator[Path]:
    """Yield the folders that kubelets keep pods in, relative to the root; nearest first."""
    left = _MOST_FOLDERS
    level = [Path()]
    for _ in range(_DEEPEST):
        below: list[Path] = []
        for folder in level:
            for name in _folders(root / folder):
                left -= 1
                if left < 0:
                    return
                if name == "kubepods" or name.removesuffix(".slice").split("-")[-1] == "kubepods":
                    yield folder / name
                else:
                    below.append(folder / name)
        level = below


def _folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder; none where it is gone."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
