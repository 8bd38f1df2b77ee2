"""The types that the sources of a sample share."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inferometer_api.results.agent_sample import EnergyReading, GpuReading, GpuUse, MissingSource


@dataclass(frozen=True, slots=True)
class Target:
    """A pod, or a process with all its children: exactly one of the two is known."""

    pod_uid: str = ""
    process_id: int | None = None

    @property
    def label(self) -> str:
        """What the metrics call it: the pod's UID, or process:ID."""
        return self.pod_uid or f"process:{self.process_id}"


Owners = Callable[[int], Collection[Target]]
"""Returns the known targets that a process of this node belongs to, by its ID in /proc.

All targets that were requested in the last minutes are known, so that a source can sum up the usage
of each from one reading to the next.
"""


@dataclass(frozen=True, slots=True)
class GpuSourceReading:
    """One reading of all GPUs. What grows is counted from the source's own start."""

    energy: list[EnergyReading] = field(default_factory=list)
    """Domain gpu-INDEX, kind Gpu, with its gpu_uuid."""
    gpus: list[GpuReading] = field(default_factory=list)
    """`foreign`: some process on it belongs to none of the targets requested in this reading."""
    uses: Mapping[Target, list[GpuUse]] = field(default_factory=dict)
    """Of the requested targets that have processes on GPUs."""
    missing: list[MissingSource] = field(default_factory=list)
    """With source "nvml"; never an exception, and never a zero in place of a figure."""


class GpuSource(Protocol):
    """The GPUs of this node. `gpu.source.open_gpus` makes one and never fails.

    `open_gpus(root: Path | None) -> GpuSource` reads the recorded tree `root`, or NVML where it is
    None; without a driver or a GPU each reading is empty and says why in `missing`.
    """

    def read(self, now_ns: int, requested: Collection[Target], owners: Owners) -> GpuSourceReading:
        """Return what the GPUs report now; `now_ns` is the monotonic clock, and never goes back.

        Called about once a second, with no target or with all known targets, and whenever a client
        requests a sample: busy time and integrated power continue from the reading before.
        """

    def close(self) -> None:
        """Let go of the library; nothing is read afterwards."""
