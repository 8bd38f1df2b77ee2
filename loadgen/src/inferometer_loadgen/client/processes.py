"""CPU use of this machine by process: snapshots of /proc, and what two of them show."""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath

from inferometer_api.results.result import OtherLoad, ProcessLoad
from inferometer_loadgen.schedule.steps import SECOND_NS

_PROC = Path("/proc")
_BUSY_COLUMNS = (0, 1, 2, 5, 6)
"""User, nice, system, interrupts: neither idle, nor waiting for disks, nor stolen."""
_INTERPRETERS = ("python", "node", "ruby", "perl", "java", "bash", "sh")
_LEAST_CORES = 0.05
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """CPU time of one process since its start, in clock ticks."""

    name: str
    parent: int
    started: int
    own: int
    reaped: int
    """Of children that have ended."""


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """CPU time of the machine and of each visible process, at one moment."""

    at_ns: int
    cpu_count: int
    busy: int
    """CPU time of everything, in clock ticks."""
    processes: Mapping[int, ProcessTimes]

    @property
    def parents(self) -> dict[int, int]:
        """The parent of each process."""
        return {pid: times.parent for pid, times in self.processes.items()}

    def family_of(self, root: int) -> set[int]:
        """Return the IDs of a process and all its descendants."""
        children: dict[int, list[int]] = {}
        for pid, times in self.processes.items():
            children.setdefault(times.parent, []).append(pid)
        found, waiting = {root}, [root]
        while waiting:
            new = [pid for pid in children.get(waiting.pop(), []) if pid not in found]
            found.update(new)
            waiting += new
        return found


def read_machine(proc: Path = _PROC) -> MachineSnapshot | None:
    """Return a snapshot; None if the kernel does not report CPU times."""
    lines = _text(proc / "stat").splitlines()
    columns = lines[0].split()[1:] if lines else []
    if len(columns) <= max(_BUSY_COLUMNS):
        return None
    return MachineSnapshot(
        at_ns=time.monotonic_ns(),
        cpu_count=sum(line[:3] == "cpu" and line[3:4].isdigit() for line in lines),
        busy=sum(int(columns[column]) for column in _BUSY_COLUMNS),
        processes=dict(_processes(proc)),
    )


def other_load(
    before: MachineSnapshot, after: MachineSnapshot, own: Collection[int], proc: Path = _PROC
) -> OtherLoad:
    """Return the CPU use of all processes but `own` between two snapshots.

    `own` contains the IDs of the run's processes; children that ended meanwhile count with their
    parent. Only processes that run at the end have names.
    """
    ticks = os.sysconf("SC_CLK_TCK") * max(1, after.at_ns - before.at_ns) / SECOND_NS
    busy = (after.busy - before.busy) / ticks
    used = (_with_children(after, own) - _with_children(before, own)) / ticks
    return OtherLoad(
        cpu_count=after.cpu_count,
        busy_cores=round(max(0.0, busy), 3),
        other_cores=round(max(0.0, busy - used), 3),
        processes=_largest(before, after, own, ticks, proc),
    )


def _with_children(snapshot: MachineSnapshot, own: Collection[int]) -> int:
    found = [times for pid, times in snapshot.processes.items() if pid in own]
    return sum(times.own + times.reaped for times in found)


def _largest(
    before: MachineSnapshot,
    after: MachineSnapshot,
    own: Collection[int],
    ticks: float,
    proc: Path,
) -> list[ProcessLoad]:
    cores: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for pid, times in after.processes.items():
        earlier = before.processes.get(pid)
        is_same = earlier is not None and earlier.started == times.started
        used = (times.own - (earlier.own if earlier is not None and is_same else 0)) / ticks
        if pid not in own and used >= _LEAST_CORES:
            name = _full_name(times.name, proc / str(pid))
            cores[name] += used  # type: ignore[assignment]  # a Counter of floats
            counts[name] += 1
    return [
        ProcessLoad(name=name, processes=counts[name], cpu_cores=round(used, 3))
        for name, used in cores.most_common(_MOST_NAMED)
    ]


def _full_name(name: str, folder: Path) -> str:
    """Return a program's name, with the script or module that an interpreter runs.

    Other arguments may hold secrets.
    """
    if not name.startswith(_INTERPRETERS):
        return name
    arguments = _text(folder / "cmdline").split("\0")[1:]
    for argument, following in pairwise([*arguments, ""]):
        if argument in {"-m", "-jar"}:
            return f"{name} {PurePath(following).name}"
        if argument in {"-c", "-e"}:
            break
        if not argument.startswith("-"):
            return f"{name} {PurePath(argument).name}".rstrip()
    return name


def arguments_of(pid: int, proc: Path = _PROC) -> list[str]:
    """Return the command line of a process; empty if it is gone or hidden."""
    return _text(proc / str(pid) / "cmdline").split("\0")[:-1]


def _processes(proc: Path) -> Iterator[tuple[int, ProcessTimes]]:
    for entry in os.listdir(proc):  # noqa: PTH208 - hundreds of Paths would take milliseconds
        if entry.isdigit():
            text = _text(proc / entry / "stat")
            # The name is in brackets and may contain anything.
            head, _, rest = text.rpartition(")")
            columns = rest.split()
            if len(columns) > 19:
                yield (
                    int(entry),
                    ProcessTimes(
                        name=head.partition("(")[2],
                        parent=int(columns[1]),
                        started=int(columns[19]),
                        own=int(columns[11]) + int(columns[12]),
                        reaped=int(columns[13]) + int(columns[14]),
                    ),
                )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
