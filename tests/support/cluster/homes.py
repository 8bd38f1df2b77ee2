"""Where does a cluster keep its files, and who may remove them?

A home is a folder with a lock that its cluster holds for as long as it lives: a home whose lock
is free was left behind by a process that was killed.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO

from support.cluster.binaries import cache_folder

_HIDDEN = (Path("/run"), Path("/var/run"), Path("/var/lib"), Path("/var/log"), Path("/mnt"))
"""What a node sees its own of: nothing that it needs may lie there."""


class Home:
    """The folder of one cluster, ours until `remove` or the end of the process."""

    def __init__(self, name: str) -> None:
        """Take the folder; RuntimeError where a living cluster has it."""
        self.folder = home_folder(name)
        _refuse_hidden(self.folder)
        sweep()
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(self.folder)
        if lock is None:
            raise RuntimeError(f"A cluster called {name!r} already runs: its home is {self.folder}")
        self._lock = lock

    def remove(self) -> None:
        """Remove the folder with everything in it and give it up."""
        shutil.rmtree(self.folder)
        self._lock.close()


def home_folder(name: str) -> Path:
    """Return the folder of the cluster with this name."""
    return cache_folder() / "clusters" / name


def is_alive(name: str) -> bool:
    """Return whether a process holds the home of this cluster."""
    folder = home_folder(name)
    if not folder.exists():
        return False
    lock = _lock(folder)
    if lock is not None:
        lock.close()
    return lock is None


def sweep() -> list[str]:
    """Remove the homes of clusters whose processes were killed; return their names."""
    swept = []
    for folder in sorted((cache_folder() / "clusters").glob("*")):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder)
            lock.close()
            swept.append(folder.name)
    return swept


def _lock(folder: Path) -> IO[str] | None:
    """Return the lock of a home, held; None where another process holds it or removed it."""
    try:
        lock = (folder / "lock").open("w")
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
