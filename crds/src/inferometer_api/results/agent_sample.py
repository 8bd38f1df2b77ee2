"""What does a node agent answer when it is asked for a sample?

`GET /v1/sample?pod=UID&process=ID` (both as often as wanted) answers one `AgentSample`. Everything
that grows is counted from the agent's own start: a difference of two samples of one `instance` is
what happened between them.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api.document import Count, Document, Integer, Integral

AGENT_PORT = 9465
"""Where an agent listens in a cluster."""
SAMPLE_PATH = "/v1/sample"
MAX_WORKLOADS = 64
"""How many targets one question may name."""

Total = Annotated[int, Field(ge=0, le=2**63 - 1), Integral]
"""What grows for years: 2**53 microjoules are a kilowatt's 104 days, 2**53 nanoseconds as many."""

EnergyKind = Literal["Package", "Dram", "Gpu"]
EnergyMethod = Literal["Counter", "PowerIntegral"]
Source = Literal["rapl", "nvml", "cgroup", "node"]


class EnergyReading(Document):
    """The energy of one domain: what a counter of its own covers."""

    domain: str
    """Unique on its node: "package-0", "package-0-dram", "gpu-0"."""
    kind: EnergyKind
    method: EnergyMethod
    """PowerIntegral: watts summed up over time by the agent, where there is no counter."""
    microjoules: Total
    """Since the agent's start; the counter's wrap-arounds are undone."""
    gpu_uuid: str = ""
    """The GPU that it is of."""


class CpuReading(Document):
    """What all CPUs of the node did."""

    count: Count
    """CPUs online."""
    busy_microseconds: Total
    """CPU time in user and kernel mode (not idle, not waiting for disks, not stolen)."""
    steal_microseconds: Total
    """CPU time that the hypervisor gave to others."""
    frequency_hertz: Count | None = None
    """Mean over the CPUs, now; absent where the node does not tell."""
    governor: str | None = None
    """The frequency governor of CPU 0."""
    temperature_millidegrees_celsius: Integer | None = None
    """The hottest of the CPU's sensors."""
    memory_available_bytes: Count | None = None


class GpuUse(Document):
    """What a target had of a GPU."""

    gpu_uuid: str
    busy_microseconds: Total | None = None
    """GPU time of the target's processes, utilisation times time; absent where GPUs do not tell \
it by process."""


class WorkloadReading(Document):
    """What one of the asked pods (or processes with all their children) used."""

    pod_uid: str = ""
    process_id: Integer | None = None
    """Of a process that was asked for; then pod_uid is empty."""
    start_ticks: Total | None = None
    """When the process began, in clock ticks since the boot: it tells two of one ID apart."""
    cpu_microseconds: Total
    throttled_microseconds: Total | None = None
    """How long its threads waited since their CPU limit was used up; absent where it has none."""
    memory_bytes: Count | None = None
    """Its working set: memory that cannot be had back under pressure."""
    cpu_pressure_microseconds: Total | None = None
    """How long some of its threads waited for a CPU (PSI)."""
    memory_pressure_microseconds: Total | None = None
    io_pressure_microseconds: Total | None = None
    gpus: list[GpuUse] = Field(default_factory=list)
    """GPUs on which it has processes."""


class GpuReading(Document):
    """One GPU of the node."""

    uuid: str
    index: Count
    name: str
    busy_microseconds: Total | None = None
    """Utilisation times time, of all processes."""
    foreign: bool | None = None
    """Whether processes of others than the targets are on it; absent where that cannot be told."""
    mig: bool = False
    """Whether it is cut into instances: energy and utilisation are then of all of them."""
    utilization_percent: Count | None = None
    memory_used_bytes: Count | None = None
    memory_total_bytes: Count | None = None
    power_milliwatts: Count | None = None
    clock_hertz: Count | None = None
    """Of its streaming multiprocessors."""
    temperature_millidegrees_celsius: Integer | None = None
    throttle_reasons: list[str] = Field(default_factory=list)
    """Why its clock is held down now: NVML's names in CamelCase, "SwPowerCap"; idle is none."""


class MissingSource(Document):
    """A source that gives nothing, or not all of it."""

    source: Source
    subject: str = ""
    """What of it is missing, where not all is: "package-0-dram", a pod's UID, a GPU's UUID."""
    reason: str
    """Why, as a sentence without its period."""


class AgentSample(Document):
    """Everything that an agent knows at one moment."""

    schema_version: Annotated[str, StringConstraints(pattern=r"^1\.[0-9]+$")] = "1.0"
    """Version of this format, as MAJOR.MINOR. Readers ignore what a newer minor version adds."""
    agent_version: str
    instance: str
    """Drawn at the agent's start: what it counts is comparable within one instance only."""
    node: str
    boot_id: str = ""
    """Drawn by the kernel at its start: which machine this is; empty where that is not told."""
    monotonic_ns: Total
    """The node's monotonic clock when its counters were read; who asks again within 50 ms is told \
the same reading."""
    unix_ns: Total
    energy: list[EnergyReading] = Field(default_factory=list)
    cpu: CpuReading | None = None
    gpus: list[GpuReading] = Field(default_factory=list)
    workloads: list[WorkloadReading] = Field(default_factory=list)
    """Those that were found, of all that were asked for."""
    missing: list[MissingSource] = Field(default_factory=list)
