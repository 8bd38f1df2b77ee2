"""GPUs that report what a test wants.

By a tree of NVML's answers, which the test advances. The agent reads it with --nvml-root, or
through the stub of the driver's library; docs/reference/node-agent.md describes it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inferometer_telemetry.gpu.source import open_gpus
from inferometer_telemetry.sources import GpuSourceReading, Target

Function = Literal[
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetMigMode",
]
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST = 3, 4, 9, 15
SW_POWER_CAP, HW_THERMAL_SLOWDOWN, GPU_IDLE = 0x4, 0x40, 0x1


@dataclass(frozen=True, slots=True)
class RecordedGpu:
    """One GPU of a tree."""

    folder: Path
    uuid: str

    @classmethod
    def make(cls, root: Path, index: int = 0, *, uuid: str = "") -> "RecordedGpu":
        """Write a GPU that reports everything, idle and without processes."""
        gpu = cls(root / f"gpu-{index}", uuid or f"GPU-0000000{index}-aaaa-bbbb-cccc-dddddddddddd")
        gpu.folder.mkdir(parents=True)
        gpu.report("nvmlDeviceGetUUID", gpu.uuid)
        gpu.report("nvmlDeviceGetName", "NVIDIA A100-SXM4-40GB")
        gpu.report(
            "nvmlDeviceGetMemoryInfo", "total 42949672960\nfree 41875931136\nused 1073741824"
        )
        gpu.report("nvmlDeviceGetClockInfo", 1410)
        gpu.report("nvmlDeviceGetTemperature", 41)
        gpu.report("nvmlDeviceGetCurrentClocksEventReasons", GPU_IDLE)
        gpu.report("nvmlDeviceGetMigMode", "0 0")
        gpu.energy(5_000_000)
        gpu.power(50_000)
        gpu.utilization(0)
        gpu.processes([])
        gpu.samples([])
        gpu.report("nvmlDeviceGetGraphicsRunningProcesses", "")
        return gpu

    def report(self, function: Function, answer: object) -> None:
        """Replace an answer at once: a reader never finds half of one."""
        new_file = self.folder / f".{function}"
        new_file.write_text(f"{answer}\n", encoding="utf-8")
        new_file.replace(self.folder / function)

    def refuse(self, function: Function, error: int = NOT_SUPPORTED) -> None:
        """Answer with one of NVML's errors."""
        self.report(function, f"error {error}")

    def energy(self, millijoules: int) -> None:
        """Set the energy counter."""
        self.report("nvmlDeviceGetTotalEnergyConsumption", millijoules)

    def power(self, milliwatts: int) -> None:
        """Set the power that it takes now."""
        self.report("nvmlDeviceGetPowerUsage", milliwatts)

    def utilization(self, percent: int) -> None:
        """Set how busy the whole GPU is."""
        self.report("nvmlDeviceGetUtilizationRates", f"gpu {percent}\nmemory 0")

    def processes(self, ids: Iterable[int]) -> None:
        """Set whose processes compute on it."""
        rows = [f"{each} 536870912" for each in ids]
        self.report("nvmlDeviceGetComputeRunningProcesses", "\n".join(rows))

    def samples(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Set how busy each process keeps it: (process, time stamp in microseconds, percent)."""
        lines = [f"{process} {until} {percent} 0 0 0" for process, until, percent in rows]
        self.report("nvmlDeviceGetProcessUtilization", "\n".join(lines))

    def cut(self, instances: Sequence[Iterable[int]]) -> None:
        """Cut it into instances with these processes; its utilisation is then unknown."""
        self.report("nvmlDeviceGetMigMode", "1 1")
        self.refuse("nvmlDeviceGetUtilizationRates")
        self.refuse("nvmlDeviceGetProcessUtilization")
        for at, ids in enumerate(instances):
            part = RecordedGpu(self.folder / f"mig-{at}", "")
            part.folder.mkdir(exist_ok=True)
            part.processes(ids)


SECOND = 1_000_000_000
MICROSECONDS = 1_000_000
ONE, OTHER = Target(pod_uid="one"), Target(process_id=22)
OWNERS = {11: [ONE], 12: [ONE], 22: [OTHER]}
STAMP = 1_700_000_000_000_000
"""What the driver's clock says at the start, in microseconds."""


def owners(process_id: int) -> Collection[Target]:
    """Set whose process it is."""
    return OWNERS.get(process_id, [])


class GpuNode:
    """A node with recorded GPUs, whose time goes on as a test says."""

    def __init__(self, root: Path, count: int = 1) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.gpus = [RecordedGpu.make(root, at) for at in range(count)]
        self.source = open_gpus(root)
        self.now_ns = 17 * SECOND

    def read(
        self, seconds: float = 0.0, requested: Collection[Target] = (ONE, OTHER)
    ) -> GpuSourceReading:
        """Return the reading after some seconds."""
        self.now_ns += round(seconds * SECOND)
        return self.source.read(self.now_ns, requested, owners)

    @property
    def stamp(self) -> int:
        """What the driver's clock says now, in microseconds."""
        return STAMP + self.now_ns // 1000


def joules(found: GpuSourceReading) -> dict[str, float]:
    """Return the joules of each domain."""
    return {each.domain: each.microjoules / 1e6 for each in found.energy}


def busy(found: GpuSourceReading) -> dict[Target, int | None]:
    """Return the busy microseconds of each target, of all GPUs but one has none."""
    return {target: uses[0].busy_microseconds for target, uses in found.uses.items()}


def reasons(found: GpuSourceReading) -> str:
    """Return all that is missing, as one text."""
    return "\n".join(f"{each.subject}: {each.reason}" for each in found.missing)
