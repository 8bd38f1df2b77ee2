"""CPU time and memory of this node."""

from dataclasses import dataclass, field
from pathlib import Path

from inferometer_api.results.agent_sample import CpuReading, MissingSource
from inferometer_telemetry.counting import MOST_BYTES, Rising
from inferometer_telemetry.cpu_gauges import Gauges
from inferometer_telemetry.kernel_files import UnreadableError, named_number, text, whole_number
from inferometer_telemetry.processes import TICK_MICROSECONDS

_BUSY = (0, 1, 2, 5, 6)
"""Of a line of /proc/stat: user, nice, system, irq, softirq; guests' time is in user and nice."""
_STEAL = 7


@dataclass(frozen=True, slots=True)
class NodeReading:
    """One reading of a node."""

    cpu: CpuReading | None = None
    missing: list[MissingSource] = field(default_factory=list)


class NodeReader:
    """The CPU time of this node since the first reading."""

    def __init__(self, proc_root: Path) -> None:
        self._proc = proc_root
        self._busy = Rising()
        self._steal = Rising()

    def read(self, gauges: Gauges) -> NodeReading:
        """Return the node's CPU time and memory, together with `gauges`."""
        missing = list(gauges.missing)
        try:
            count, busy, steal = cpu_ticks(self._proc / "stat")
        except UnreadableError as error:
            return NodeReading(missing=[*missing, _missing("cpu", str(error))])
        went_on = self._busy.take(busy * TICK_MICROSECONDS)
        if not (self._steal.take(steal * TICK_MICROSECONDS) and went_on):
            missing.append(_missing("cpu", "the kernel's count of CPU time went back"))
        memory: int | None = None
        try:
            memory = memory_available(self._proc / "meminfo")
        except UnreadableError as error:
            missing.append(_missing("memory", str(error)))
        return NodeReading(
            CpuReading(
                count=count,
                busy_microseconds=self._busy.total,
                steal_microseconds=self._steal.total,
                frequency_hertz=gauges.frequency_hertz,
                governor=gauges.governor,
                temperature_millidegrees_celsius=gauges.temperature_millidegrees_celsius,
                memory_available_bytes=memory,
            ),
            missing,
        )


def cpu_ticks(path: Path) -> tuple[int, int, int]:
    """Return the CPUs online, and the ticks of them all that were busy and stolen, by /proc/stat.

    Raises UnreadableError.
    """
    total: list[int] = []
    count = 0
    for line in text(path).splitlines():
        if not line.startswith("cpu"):
            break
        name, *words = line.split()
        if name == "cpu":
            total = [whole_number(word, path) for word in words]
        else:
            count += 1
    if len(total) <= _STEAL:
        raise UnreadableError(f"{path} has no line for all CPUs")
    return count, sum(total[at] for at in _BUSY), total[_STEAL]


def memory_available(path: Path) -> int:
    """Return the bytes that programs can still have, by /proc/meminfo. Raises UnreadableError."""
    kibibytes = named_number(path, "MemAvailable:")
    if kibibytes > MOST_BYTES // 1024:
        raise UnreadableError(f"{path} says {kibibytes} kB, which cannot be")
    return kibibytes * 1024


def _missing(subject: str, reason: str) -> MissingSource:
    return MissingSource(source="node", subject=subject, reason=reason)
