"""The control groups of this process, v1 or v2, and the limits that they set."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group that this process is in, directly or further up."""

    version: Literal[1, 2]
    folder: Path


def own_groups(controller: str, root: Path = Path("/")) -> list[ControlGroup]:
    """Return the group of this process and those above it, as far as they are visible.

    `controller` is the one of v1; `root` contains the machine's files.
    """
    paths = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    mounts = list(_mounts(_text(root / "proc/self/mountinfo")))
    kinds: tuple[tuple[Literal[1, 2], str, str], ...] = (
        (1, "cgroup", controller),
        (2, "cgroup2", ""),
    )
    for version, kind, wanted in kinds:
        for top, place, fs_type, options in mounts:
            has = fs_type == kind and (not wanted or wanted in options)
            if has and wanted in paths:
                return [
                    ControlGroup(version, root / folder.lstrip("/"))
                    for folder in _upwards(paths[wanted], top, place)
                ]
    return []


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """Return how far this process is below the nearest memory limit; None if there is none.

    The kernel can drop the inactive part of the page cache at once: it does not count as used.
    """
    found = [
        max(0, limit - used)
        for group in own_groups("memory", root)
        for limit, used in (_memory(group),)
        if limit is not None
    ]
    return min(found, default=None)


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Return how many CPUs' time this process may use at most; None if there is no quota."""
    found = [_quota(group) for group in own_groups("cpu", root)]
    return min((each for each in found if each is not None), default=None)


def _quota(group: ControlGroup) -> float | None:
    folder = group.folder
    words = (
        f"{_text(folder / 'cpu.cfs_quota_us')} {_text(folder / 'cpu.cfs_period_us')}"
        if group.version == 1
        else _text(folder / "cpu.max")
    ).split()
    # Without a quota, the first is -1 with v1, and "max" with v2.
    if len(words) != 2 or not all(each.isdecimal() for each in words):
        return None
    return int(words[0]) / int(words[1])


def _memory(group: ControlGroup) -> tuple[int | None, int]:
    """Return limit and use in bytes."""
    limit, used, inactive = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        if group.version == 1
        else ("memory.max", "memory.current", "inactive_file")
    )
    droppable = _number_named(inactive, group.folder / "memory.stat")
    return _number(group.folder / limit), (_number(group.folder / used) or 0) - droppable


def _number_named(name: str, file: Path) -> int:
    for line in _text(file).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _number(file: Path) -> int | None:
    """Return the number in a file; None if there is none, or it stands for no limit."""
    text = _text(file).strip()
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None


def _mounts(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield root, mount point, file system type and options of each mount."""
    for line in text.splitlines():
        words = line.split()
        dash = words.index("-")
        yield words[3], words[4], words[dash + 1], words[-1].split(",")


def _upwards(path: str, top: str, place: str) -> Iterator[str]:
    # A container sees its own group as the top, with or without the whole path.
    inner = path.removeprefix(top) if path.startswith(top) else ""
    parts = [part for part in inner.split("/") if part]
    if ".." in parts:
        parts = []
    for depth in range(len(parts), -1, -1):
        yield "/".join((place.rstrip("/"), *parts[:depth]))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
