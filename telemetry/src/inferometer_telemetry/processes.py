"""CPU time and memory of a process and its children."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inferometer_telemetry.kernel_files import (
    AbsentError,
    UnreadableError,
    text,
    whole_number,
)
from inferometer_telemetry.pod_usage import Usage

TICK_MICROSECONDS = 10**6 // os.sysconf("SC_CLK_TCK")
_MOST_PROCESSES = 4096
_MEMORY = re.compile(r"^Rss(?:Anon|Shmem):\s*([0-9]{1,15}) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says of a process."""

    parent: int
    cpu_ticks: int
    """Its own, and that of the children it has waited for."""
    start_ticks: int
    """When it began: distinguishes two processes with the same ID."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A process with its children, and theirs, as they are now."""

    started: int
    process_ids: frozenset[int]
    usage: Usage


def process_tree(proc_root: Path, process_id: int) -> Tree:
    """Return what a process and all below it used. Raises UnreadableError if it is gone."""
    root = stat(proc_root, process_id)
    ticks = root.cpu_ticks
    ids = {process_id}
    for child in _descendants(proc_root, process_id):
        ids.add(child)
        try:
            ticks += stat(proc_root, child).cpu_ticks
        except AbsentError:
            # Ended meanwhile: its parent has its time.
            continue
    usage = Usage(cpu_microseconds=ticks * TICK_MICROSECONDS)
    if not _lists_children(proc_root, process_id):
        usage.problems.append(f"{proc_root} does not list children: theirs is not counted")
    usage.memory_bytes = usage.try_read(lambda: sum(_memory(proc_root, each) for each in ids))
    return Tree(root.start_ticks, frozenset(ids), usage)


def stat(proc_root: Path, process_id: int) -> Stat:
    """Return what the kernel says of a process. Raises UnreadableError."""
    path = proc_root / str(process_id) / "stat"
    # The name in brackets may hold anything, brackets and spaces too.
    fields = text(path).rpartition(")")[2].split()
    if len(fields) < 20:
        raise UnreadableError(f"{path} is cut off")
    parent, *times, started = (whole_number(fields[at], path) for at in (1, 11, 12, 13, 14, 19))
    return Stat(parent, sum(times), started)


def _memory(proc_root: Path, process_id: int) -> int:
    """Return the memory that no file on a disk backs, in bytes."""
    try:
        content = text(proc_root / str(process_id) / "status")
    except AbsentError:
        return 0
    # A kernel's own thread has none.
    return 1024 * sum(int(kibibytes) for kibibytes in _MEMORY.findall(content))


def _descendants(proc_root: Path, process_id: int) -> Iterator[int]:
    """Yield all processes below one, each once."""
    seen = {process_id}
    waiting = [process_id]
    while waiting and len(seen) < _MOST_PROCESSES:
        for child in _children(proc_root, waiting.pop()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def _lists_children(proc_root: Path, process_id: int) -> bool:
    """Return whether the kernel was built to report a thread's children (CONFIG_PROC_CHILDREN)."""
    return (proc_root / f"{process_id}/task/{process_id}/children").exists()


def _children(proc_root: Path, process_id: int) -> list[int]:
    tasks = proc_root / str(process_id) / "task"
    try:
        threads = [entry.name for entry in tasks.iterdir()]
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        # Empty without a line's end where there is none.
        try:
            content = (tasks / thread / "children").read_bytes()
        except OSError:
            continue
        found += [int(word) for word in content.split() if word.isdigit()]
    return found
