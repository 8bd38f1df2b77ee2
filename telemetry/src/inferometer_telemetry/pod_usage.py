"""CPU time and memory of a pod, from its control group (v1 or v2)."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from inferometer_telemetry.cgroups import PodFolders
from inferometer_telemetry.kernel_files import (
    AbsentError,
    UnreadableError,
    named,
    named_number,
    number,
    text,
    whole_number,
)

_MOST_CONTAINERS = 64
_SOME = re.compile(r"^some .*\btotal=(\S+)$", re.MULTILINE)
T = TypeVar("T")


@dataclass(slots=True)
class Usage:
    """What a target used until now, as the kernel counts it; None is not known."""

    cpu_microseconds: int | None = None
    throttled_microseconds: int | None = None
    memory_bytes: int | None = None
    cpu_pressure_microseconds: int | None = None
    memory_pressure_microseconds: int | None = None
    io_pressure_microseconds: int | None = None
    problems: list[str] = field(default_factory=list)
    """Why something that should be known is not: sentences without their period."""

    def try_read(self, read: Callable[[], T]) -> T | None:
        """Return what `read` does; None, with the reason among the problems, where it cannot."""
        try:
            return read()
        except UnreadableError as error:
            self.problems.append(str(error))
            return None


def pod_usage(pod: PodFolders) -> Usage:
    """Return what a pod used; a pod that ended meanwhile has problems only."""
    usage = Usage()
    version_1 = pod.version == 1
    usage.cpu_microseconds = usage.try_read(lambda: _cpu(pod.cpuacct, version_1=version_1))
    if pod.cpu is not None:
        cpu = pod.cpu
        usage.throttled_microseconds = usage.try_read(lambda: _throttled(cpu, version_1=version_1))
    if pod.memory is not None:
        memory = pod.memory
        usage.memory_bytes = usage.try_read(lambda: _working_set(memory, version_1=version_1))
    if not version_1:
        pressure = pod.cpuacct
        usage.cpu_pressure_microseconds = usage.try_read(
            lambda: _waited(f"{pressure}/cpu.pressure")
        )
        usage.memory_pressure_microseconds = usage.try_read(
            lambda: _waited(f"{pressure}/memory.pressure")
        )
        usage.io_pressure_microseconds = usage.try_read(lambda: _waited(f"{pressure}/io.pressure"))
    return usage


def _cpu(folder: str, *, version_1: bool) -> int:
    if version_1:
        return number(f"{folder}/cpuacct.usage") // 1000
    return named_number(f"{folder}/cpu.stat", "usage_usec")


def _throttled(pod: str, *, version_1: bool) -> int | None:
    """Return how long a pod waited for its CPU limit; None if nothing of it has one.

    The kernel counts each group by itself. A pod's limit is the sum of its containers': both hold
    it at once, so the larger of the two counts.
    """
    own = _throttled_here(pod, version_1=version_1)
    of_containers = [_throttled_here(folder, version_1=version_1) for folder in _containers(pod)]
    known = [each for each in of_containers if each is not None]
    if own is None and not known:
        return None
    return max(own or 0, sum(known))


def _throttled_here(folder: str, *, version_1: bool) -> int | None:
    path = f"{folder}/cpu.stat"
    try:
        content = text(path)
        # Periods are counted where there is a limit, and something ran.
        if not named(content, "nr_periods", path):
            return None
    except AbsentError:
        # A container that ended meanwhile, or a kernel without limits.
        return None
    if version_1:
        return named(content, "throttled_time", path) // 1000
    return named(content, "throttled_usec", path)


def _containers(pod: str) -> list[str]:
    try:
        with os.scandir(pod) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise UnreadableError(f"{pod} cannot be listed: {error.strerror}") from None
    return [f"{pod}/{name}" for name in names[:_MOST_CONTAINERS]]


def _working_set(folder: str, *, version_1: bool) -> int:
    """Return the memory in use less what the kernel may drop at once, as kubelets count it."""
    used = number(f"{folder}/memory.{'usage_in_bytes' if version_1 else 'current'}")
    name = "total_inactive_file" if version_1 else "inactive_file"
    return max(0, used - named_number(f"{folder}/memory.stat", name))


def _waited(path: str) -> int:
    """Return the total of a PSI file's line "some", in microseconds."""
    found = _SOME.search(text(path))
    if found is None:
        raise UnreadableError(f"{path} has no total of some")
    return whole_number(found[1], path)
