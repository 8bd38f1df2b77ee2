"""The activities of a GPU with the clocks around them, and the kernels of an inference.

Times are in ns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferometer_serving.gpu.activities import GpuActivity, Launch
from inferometer_serving.gpu.kernel_names import readable, uses_tensor_cores
from inferometer_serving.profile.occupancy import Multiprocessor


@dataclass(frozen=True, slots=True)
class GpuClockReading:
    """Three clocks at one moment: this process's, the engine's and CUPTI's."""

    ours_ns: int
    engine_ns: int
    cupti_ns: int
    uncertainty_ns: int
    """Half of the time that the reading took."""


@dataclass(frozen=True, slots=True)
class GpuTrace:
    """What CUPTI recorded, and how its clock relates to the engine's."""

    launches: Sequence[Launch]
    executions: Sequence[GpuActivity]
    before: GpuClockReading
    after: GpuClockReading
    profile_start_ns: int
    """The engine's clock at the start of its profile."""
    multiprocessor: Multiprocessor | None = None
    dropped: int = 0
    """Records that CUPTI had no room for."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """One kernel, copy or fill of an inference."""

    index: int
    """In the order of the launches, from 0."""
    layer: int | None
    """The index of its layer; None: launched by none, such as copies of the model's inputs."""
    execution: GpuActivity
    """That of the last run in which it ran."""
    occupancy: float | None
    """Theoretical."""
    launch_start_ns: int
    """From the start of the inference, as start_ns."""
    launch_ns: int
    start_ns: int
    durations_ns: tuple[int, ...]
    """One for each run in which it ran."""

    def to_json(self) -> dict[str, Any]:
        """Return the members of the profile's document."""
        ran = self.execution
        members: dict[str, Any] = {
            "index": self.index,
            "kind": ran.kind,
            "name": readable(ran.name),
            "stream": ran.stream,
            "launchStartNanoseconds": self.launch_start_ns,
            "launchNanoseconds": self.launch_ns,
            "startNanoseconds": self.start_ns,
            "durationsNanoseconds": list(self.durations_ns),
        }
        if self.layer is not None:
            members["layer"] = self.layer
        if ran.kind == "Kernel":
            members |= {
                "grid": list(ran.grid or ()),
                "block": list(ran.block or ()),
                "registersPerThread": ran.registers,
                "sharedBytes": ran.shared_bytes,
                "tensorCores": uses_tensor_cores(readable(ran.name)),
            }
            if self.occupancy is not None:
                members["theoreticalOccupancy"] = round(self.occupancy, 6)
        else:
            members["movedBytes"] = ran.moved_bytes
        return members
