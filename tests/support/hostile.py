"""Takes the CPU from a process: by another that spins, or by a limit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.requirements import cannot_run
from support.waiting import wait_until

_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 100_000


@contextmanager
def spinning(cpu: int, processes: int) -> Iterator[None]:
    """Keep one CPU busy with endless loops until the block's end."""
    with ExitStack() as ends:
        for _ in range(processes):
            each = subprocess.Popen((sys.executable, "-c", "while True: pass"))
            ends.callback(each.wait)
            ends.callback(each.kill)
            os.sched_setaffinity(each.pid, {cpu})
        yield


@dataclass(frozen=True, slots=True)
class Group:
    """A control group of the test's own."""

    folder: Path

    @property
    def quota(self) -> Path:
        """The file that limits its CPU time, of whichever version the group is."""
        old = self.folder / "cpu.cfs_quota_us"
        return old if old.exists() else self.folder / "cpu.max"

    def take(self, process_id: int) -> None:
        """Put a process into it, with all its threads."""
        (self.folder / "cgroup.procs").write_text(str(process_id))

    def limit(self, share: float) -> None:
        """Let its processes have this share of one CPU from now on."""
        microseconds = round(share * _PERIOD_MICROSECONDS)
        with_period = f"{microseconds} {_PERIOD_MICROSECONDS}"
        self.quota.write_text(with_period if self.quota.name == "cpu.max" else str(microseconds))

    def times_throttled(self) -> int:
        """Return in how many periods its processes stood still."""
        pairs = (line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return next(int(count) for name, count in pairs if name == "nr_throttled")


def group_of(process_id: int) -> Group:
    """Return the control group that limits a process' CPU, of whichever version."""
    lines = Path(f"/proc/{process_id}/cgroup").read_text().splitlines()
    of_controller = {
        controller: (names, path.removeprefix("/"))
        for _, names, path in (line.split(":", 2) for line in lines)
        for controller in names.split(",")
    }
    if "cpu" in of_controller:
        names, path = of_controller["cpu"]
        return Group(_CGROUPS / names / path)
    return Group(_CGROUPS / of_controller[""][1])


@contextmanager
def a_group() -> Iterator[Group]:
    """Make a control group, of whichever version this machine has; skip where it may not be."""
    name = f"inferometer-test-{os.getpid()}"
    old = next((place for place in _v1_folders() if place.exists()), None)
    group = Group((old or _CGROUPS) / name)
    try:
        if old is None:
            (_CGROUPS / "cgroup.subtree_control").write_text("+cpu")
        group.folder.mkdir()
    except OSError as error:
        cannot_run(f"this machine lets the tests make no control group with a CPU limit: {error}")
    try:
        if not group.quota.exists():
            cannot_run(
                f"this machine's control groups have no CPU limit: there is no {group.quota}"
            )
        yield group
    finally:
        procs = group.folder / "cgroup.procs"
        wait_until(
            lambda: not procs.read_text().strip(), f"The end of the processes in {group.folder}"
        )
        group.folder.rmdir()


def _v1_folders() -> Iterator[Path]:
    if not (_CGROUPS / "cgroup.controllers").exists():
        for name in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
            yield _CGROUPS / name
