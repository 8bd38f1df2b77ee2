"""Timings of layers and models on one machine: what the layer database consists of."""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Document
from inferometer_api.layers.graph import LayerGraph


class Timing(Document):
    """How long a call of the engine takes, from several rounds."""

    nanoseconds: int
    """The median over the rounds of the median run in each, without the first one."""
    lower_quartile_nanoseconds: int
    """A quarter of the rounds were at least as fast."""
    upper_quartile_nanoseconds: int
    """A quarter of the rounds were at least as slow."""
    rounds: int
    cold_nanoseconds: int
    """The median of the first run in each round, when its weights had left the caches."""
    runs: int
    """All runs, those with cold caches included."""
    session_nanoseconds: int
    """The time to open its session."""

    @property
    def spread(self) -> float:
        """How far apart the quartiles are, as a share of the median."""
        return (
            self.upper_quartile_nanoseconds - self.lower_quartile_nanoseconds
        ) / self.nanoseconds

    @property
    def slower_nanoseconds(self) -> int:
        """How much longer it takes with cold caches."""
        return max(self.cold_nanoseconds - self.nanoseconds, 0)


class KernelTiming(Document):
    """How long an engine's own kernels take for a layer, without the engine's call."""

    key: str
    engine: str
    precision: str
    """The effective one; empty if the layer multiplies no matrices."""
    nanoseconds: float
    runs: int = 1
    algorithm: str = ""
    """The fastest of the engine's algorithms, as the engine names it; on a GPU only."""
    gpu_kernels: list[str] = Field(default_factory=list)
    """The kernels that ran on the GPU, in their order: eight names of 120 characters at most."""
    uses_tensor_cores: bool = False
    """Whether the name of one of them says that it computes on tensor cores."""
    spread_nanoseconds: float | None = None
    """The distance of the quartiles: on a GPU of the runs, on a CPU of the medians of the rounds
    (by OpenVINO of whole calls); absent if there was one round."""


class LayerFailure(Document):
    """Why a layer, or a brick of several, has no timing."""

    key: str
    engine: str
    reason: str


class VariantTiming(Document):
    """One way to run a whole model, in rounds shared with others."""

    nanoseconds: list[int]
    """The median of each round."""
    precision: str
    """The effective one."""
    version: str
    """Of the engine."""
    difference: float
    """The largest difference of an output from that of the first variant, in its deviations."""
    disturbed_rounds: int = 0
    """Rounds in which other processes took the CPU during every run: their times are too long."""
    busy_nanoseconds: float | None = None
    """How long the GPU works for one inference: the sum of its kernels and copies."""
    busy_spread_nanoseconds: float | None = None
    """The distance of the quartiles of that."""


class MachineState(Document):
    """What timings hold for. They are never joined with those of another machine or engine."""

    name: str
    """Processor, number of CPUs, instruction set and kernel; or the GPU, its driver and CUDA."""
    engines: dict[str, str]
    """The version of each engine."""
    threads: int
    device: Literal["CPU", "GPU"] = "CPU"
    cache_bytes: int
    """Size of the last cache."""
    core_cache_bytes: int = 0
    """Size of the largest cache that a core has alone; 0 if it is not known."""
    cache_bytes_per_second: float
    """How fast a thread reads from it."""
    memory_bytes_per_second: float
    """How fast a thread reads from memory."""
    copy_bytes_per_second: float = 0.0
    """The highest rate of bytes read and written by copies of any size, on all threads."""
    flops_per_second: float = 0.0
    """The highest rate of a matrix product, on a CPU in FP32."""
    flops_by_precision: dict[str, float] = Field(default_factory=dict)
    """The highest rate of a matrix product by precision; on a GPU only."""

    def peak_flops(self, precision: str) -> float:
        """Return the highest rate of a matrix product in a precision; 0 if it is not known."""
        if self.flops_by_precision:
            return self.flops_by_precision.get(precision, 0.0)
        return self.flops_per_second


class LayerTimings(Document):
    """What was timed together on one machine, and the models that its layers are from."""

    kind: Literal["LayerTimings"] = "LayerTimings"
    schema_version: str = Field(default="1.1", pattern=r"^[0-9]+\.[0-9]+$")
    machine: MachineState
    run_nanoseconds: int = 0
    """What one call of the engine costs, whatever it computes; 0 if no brick was timed."""
    node_nanoseconds: int = 0
    """What one layer costs that computes nothing; on a GPU, the duration of an empty kernel."""
    seconds: float
    """How long all of it took."""
    other_cpu_share: float = 0.0
    """The share of the machine's CPU time that other processes took meanwhile."""
    reference_nanoseconds: int = 0
    """How long the same matrix product took in the same rounds: how fast the machine was; 0 if it
    was not timed."""
    reference_spread_nanoseconds: float | None = None
    """The distance of the quartiles of its median times by round: the noise floor on a CPU."""
    bricks: dict[str, Timing] = Field(default_factory=dict)
    """Calls of ONNX Runtime by the key of the brick; the cost of the call is part of each."""
    kernels: list[KernelTiming] = Field(default_factory=list)
    """Kernels of single layers, without the call."""
    failed: list[LayerFailure] = Field(default_factory=list)
    """What an engine refused."""
    untimed: list[str] = Field(default_factory=list)
    """Keys of what was not timed, because the time budget ended."""
    models: dict[str, Timing] = Field(default_factory=dict)
    """Whole models by name, for reference."""
    variants: dict[str, VariantTiming] = Field(default_factory=dict)
    """Ways to run one whole model, by name."""
    present: str = ""
    """The one that the server has, with which advice compares the others; empty without advice."""
    graphs: list[LayerGraph] = Field(default_factory=list)
    """Models that can be predicted from the layers; empty for an exported set of bricks."""

    @property
    def reference_spread(self) -> float | None:
        """How far apart the quartiles of the reference are, as a share; None if not known."""
        if not self.reference_nanoseconds or self.reference_spread_nanoseconds is None:
            return None
        return self.reference_spread_nanoseconds / self.reference_nanoseconds

    def own_nanoseconds(self, timing: Timing) -> int:
        """Return what a brick takes without the call of the engine: no less than an empty layer."""
        return max(timing.nanoseconds - self.run_nanoseconds, self.node_nanoseconds)
