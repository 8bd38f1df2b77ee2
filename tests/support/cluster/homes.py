"""The folders in which clusters keep their files.

A home is a folder with a lock that its cluster holds for as long as it lives: a home whose lock
is free was left behind by a process that was killed.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from support.cluster import cgroups
from support.cluster.addresses import Wire
from support.cluster.binaries import cache_folder
from support.cluster.switch import unplug

_HIDDEN = (Path("/run"), Path("/var/run"), Path("/var/lib"), Path("/var/log"), Path("/mnt"))
"""What a node sees its own of: nothing that it needs may lie there."""

_SLOT = "slot"
_LOCK = "lock"


class Home:
    """The folder of one cluster, ours until `remove` or the end of the process."""

    def __init__(self, name: str) -> None:
        """Take the folder; RuntimeError where a living cluster has it."""
        self.folder = home_folder(name)
        _refuse_hidden(self.folder)
        with _alone():
            _sweep()
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / _LOCK).touch()
            lock = _lock(self.folder)
        if lock is None:
            raise RuntimeError(f"A cluster called {name!r} already runs: its home is {self.folder}")
        self._lock = lock
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()

    def remember(self, slot: int) -> None:
        """Write down the cluster's slot, for a later clean-up."""
        (self.folder / _SLOT).write_text(str(slot))

    def remove(self) -> None:
        """Remove the folder with everything in it and give it up."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        # Only a little is left, and the others wait while that goes together with the lock.
        with _alone():
            shutil.rmtree(self.folder)
        self._lock.close()


def home_folder(name: str) -> Path:
    """Return the folder of the cluster with this name."""
    return cache_folder() / "clusters" / name


def names() -> list[str]:
    """Return the names of all clusters that have a home, dead or alive."""
    return sorted(folder.name for folder in (cache_folder() / "clusters").glob("*"))


def holder(name: str) -> int | None:
    """Return the id of the process that holds the home of this cluster; None if none does."""
    folder = home_folder(name)
    if not folder.exists():
        return None
    lock = _lock(folder)
    if lock is not None:
        lock.close()
        return None
    try:
        owner = (folder / _LOCK).read_text().strip()
    except FileNotFoundError:
        return None  # gone in this moment
    return int(owner) if owner else None


def slot(name: str) -> int | None:
    """Return the slot of the cluster with this name, dead or alive."""
    noted = home_folder(name) / _SLOT
    return int(noted.read_text()) if noted.exists() else None


def sweep() -> list[str]:
    """Remove what clusters left whose processes were killed; return their names."""
    with _alone():
        return _sweep()


def _sweep() -> list[str]:
    swept = []
    for name in names():
        folder = home_folder(name)
        (folder / _LOCK).touch()
        lock = _lock(folder)
        if lock is not None:
            _clear(name, slot(name))
            shutil.rmtree(folder)
            lock.close()
            swept.append(name)
    return swept


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the right to make and remove homes: none is swept between its making and its lock."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "clusters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear(name: str, slot: int | None) -> None:
    """Remove a cluster's wire and control groups, unless another has taken the slot since."""
    if slot is not None and unplug(Wire(slot), name):
        cgroups.remove(Wire(slot).cgroup)


def _lock(folder: Path) -> IO[str] | None:
    """Return the lock of a home, held; None if another process holds it or removed it."""
    try:
        lock = (folder / _LOCK).open("r+")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lost = os.fstat(lock.fileno()).st_nlink == 0
    except BlockingIOError:
        lost = True
    if lost:
        lock.close()
        return None
    return lock


def _refuse_hidden(folder: Path) -> None:
    for hidden in _HIDDEN:
        if folder.resolve().is_relative_to(hidden.resolve()):
            raise RuntimeError(
                f"The clusters' folder {folder} lies below {hidden}, of which each node sees its"
                " own. Name another by INFEROMETER_CACHE."
            )
