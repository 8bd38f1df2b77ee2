"""The document of a node's measured characteristics.

Rates are per second, times in nanoseconds; `unit` says which.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api.document import Document, Timestamp

KIND = "NodeCharacteristics"
SCHEMA_VERSION = "1.0"

Unit = Literal["bytes/s", "flop/s", "ns", "share"]


class NodeFigure(Document):
    """One measured figure, at one setting."""

    name: str
    """stream/copy, latency/load, memcpy, gemm, ...; cudaMemcpyAsync_PinnedToGPU, gpu/gemm, ..."""
    setting: dict[str, str] = Field(default_factory=dict)
    """What it was measured at: threads, bytes, precision, engine, ..."""
    unit: Unit
    value: float
    """Geometric mean of the samples; of a share, the arithmetic one, because shares can be 0."""
    low: float | None = None
    """Lower end of its 95 % interval (Student's t, of the logarithms except of a share);
    absent if not known."""
    high: float | None = None
    best: float
    """The highest sample of a rate, the lowest of a time or share."""
    samples: list[float]
    """In the order of their measurement. Empty for GPUs where they do not fit."""


class MatrixUnit(Document):
    """A unit of CPU or GPU that multiplies matrices or vectors of small numbers."""

    name: str
    """amx_bf16, avx512_vnni, ...; tensor_bf16, tensor_fp8, ... of GPUs."""
    gpu: int | None = None
    """Index of the GPU; absent for units of the CPU."""
    offered: bool
    """Whether the CPU reports it, or GPUs of this compute capability have it."""
    used_by: dict[str, list[str]] = Field(default_factory=dict)
    """Names of kernels that use it, by engine. Empty if none does, or the engine names none."""


class GpuIdentity(Document):
    """An NVIDIA GPU."""

    index: int
    """As CUDA counts the GPUs that the benchmark may use."""
    name: str
    """NVIDIA H200, ..."""
    compute_capability: str
    """9.0, ..."""
    multiprocessors: int
    memory_bytes: int
    l2_cache_bytes: int


class MachineIdentity(Document):
    """The machine, as far as equal machines report the same."""

    hostname: str
    architecture: str
    kernel: str
    cpu_model: str
    cpu_count: int
    """CPUs that the benchmark may use."""
    memory_bytes: int
    last_level_cache_bytes: int
    """Of all caches of the last level that these CPUs share."""
    numa_nodes: int
    gpus: list[GpuIdentity] = Field(default_factory=list)
    """Those that the benchmark may use."""


class NodeCharacteristics(Document):
    """What a node gives at best."""

    api_version: Literal["inferometer.dev/v1alpha1"] = "inferometer.dev/v1alpha1"
    kind: Literal["NodeCharacteristics"] = "NodeCharacteristics"
    schema_version: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*\.[0-9]+$")] = (
        SCHEMA_VERSION
    )
    id: str
    """Unique ID of the measurement."""
    inferometer_version: str
    started_at: Timestamp
    finished_at: Timestamp
    machine: MachineIdentity
    figures: list[NodeFigure]
    matrix_units: list[MatrixUnit] = Field(default_factory=list)
    unavailable: dict[str, str] = Field(default_factory=dict)
    """What was not measured, and why: a sentence without its period for each name."""
    cautions: list[str] = Field(default_factory=list)
    """Conditions under which the figures hold, one sentence each."""

    def figure(self, name: str, **setting: str) -> NodeFigure | None:
        """Return the figure of a name whose setting has these values; None if there is none."""
        return next(
            (
                each
                for each in self.figures
                if each.name == name and setting.items() <= each.setting.items()
            ),
            None,
        )
