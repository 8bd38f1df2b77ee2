"""The machine as the kernel describes it, and what else was running."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.nodes.characteristics import MachineIdentity
from inferometer_models.control_groups import memory_left_bytes

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
USUAL_CACHE_BYTES = 32 << 20
"""Where the kernel does not say how large the caches are."""


def machine_identity() -> MachineIdentity:
    """Return what identifies a machine and machines like it."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return MachineIdentity(
        hostname=os.environ.get("NODE_NAME") or platform.node(),
        architecture=platform.machine(),
        kernel=platform.release(),
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=pages * page_bytes,
        last_level_cache_bytes=last_level_cache_bytes(os.sched_getaffinity(0)),
        numa_nodes=max(1, len(numa_cpus())),
    )


def last_level_cache_bytes(cpus: Iterable[int]) -> int:
    """Return the size of the last-level caches of these CPUs together.

    Each cache counts once, however many of the CPUs share it.
    """
    found = {}
    for cpu in cpus:
        caches = {each.parent: _kibibytes(each) << 10 for each in _sizes_of_caches(cpu)}
        if caches:
            last = max(caches, key=lambda each: caches[each])
            found[_text(last / "shared_cpu_list") or str(cpu)] = caches[last]
    return sum(found.values()) or USUAL_CACHE_BYTES


def _sizes_of_caches(cpu: int) -> list[Path]:
    return sorted((_CPUS / f"cpu{cpu}" / "cache").glob("index*/size"))


def available_bytes() -> int:
    """Return the memory that can be had without swapping, within the limits of its groups."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    left = memory_left_bytes()
    return free if left is None else min(free, left)


def numa_cpus() -> Mapping[int, frozenset[int]]:
    """Return the CPUs of each NUMA node that this process may use; nodes without any are absent."""
    allowed = os.sched_getaffinity(0)
    found = {}
    for folder in _NODES.glob("node[0-9]*"):
        cpus = frozenset(_cpus((folder / "cpulist").read_text())) & allowed
        if cpus:
            found[int(folder.name.removeprefix("node"))] = cpus
    return dict(sorted(found.items())) or {0: frozenset(allowed)}


@contextmanager
def running_on(cpus: frozenset[int]) -> Iterator[None]:
    """Run on these CPUs: memory that is touched first is then that of their NUMA node."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time of the whole machine so far, in clock ticks."""

    total: int
    busy: int
    stolen: int


def cpu_times() -> CpuTimes:
    """Read them from the kernel."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    values = [int(each) for each in line.split()[1:9]]
    idle = values[3] + values[4]
    return CpuTimes(sum(values), sum(values) - idle, values[7])


def other_cpu_share(before: CpuTimes, after: CpuTimes, own_seconds: float) -> float:
    """Return the share of the machine's CPU time that others took than one who took `own_seconds`.

    It counts in clock ticks, 100 a second, so that short periods show little.
    """
    others = after.busy - before.busy - own_seconds * _TICKS_PER_SECOND
    return max(0.0, others) / max(1, after.total - before.total)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "CPU part"}:
            return value.strip()
    return platform.processor()


def _cpus(text: str) -> list[int]:
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _kibibytes(file: Path) -> int:
    text = file.read_text().strip()
    scale = {"K": 1, "M": 1024, "G": 1 << 20}.get(text[-1:], 0)
    return int(text[:-1]) * scale if scale and text[:-1].isdecimal() else 0
