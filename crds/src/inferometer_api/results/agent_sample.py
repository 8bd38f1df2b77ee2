"""The answer of a node agent to `GET /v1/sample?pod=UID&process=ID`.

Both parameters can be repeated. Counters start at zero when the agent starts: the difference of two
samples with the same `instance` covers the time between them.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api.document import Count, Document, Integer, Integral

AGENT_PORT = 9465
"""Port of an agent in a cluster."""
SAMPLE_PATH = "/v1/sample"
MAX_WORKLOADS = 64
"""Maximum number of workloads in one request."""

Total = Annotated[int, Field(ge=0, le=2**63 - 1), Integral]
"""A counter that grows for years: 2**53 uJ or ns are only 104 days, at 1 kW."""

EnergyKind = Literal["Package", "Dram", "Gpu"]
EnergyMethod = Literal["Counter", "PowerIntegral"]
Source = Literal["rapl", "nvml", "cgroup", "node"]


class EnergyReading(Document):
    """The energy of one domain, which has a counter of its own."""

    domain: str
    """Unique on its node: "package-0", "package-0-dram", "gpu-0"."""
    kind: EnergyKind
    method: EnergyMethod
    """PowerIntegral: there is no counter, and the agent sums up power over time."""
    microjoules: Total
    """Energy since the start of the agent, without wrap-arounds of the counter."""
    gpu_uuid: str = ""
    """UUID of the GPU, for a GPU."""


class CpuReading(Document):
    """The CPUs of the node."""

    count: Count
    """CPUs online."""
    busy_microseconds: Total
    """CPU time in user and kernel mode (not idle, not waiting for disks, not stolen)."""
    steal_microseconds: Total
    """CPU time that the hypervisor gave to other machines."""
    frequency_hertz: Count | None = None
    """Current mean over the CPUs; absent if not known."""
    governor: str | None = None
    """Frequency governor of CPU 0."""
    temperature_millidegrees_celsius: Integer | None = None
    """Highest reading of the CPU's sensors."""
    memory_available_bytes: Count | None = None


class GpuUse(Document):
    """GPU use of a workload."""

    gpu_uuid: str
    busy_microseconds: Total | None = None
    """GPU time of the workload's processes; absent if the GPU does not report it by process."""


class WorkloadReading(Document):
    """Resource use of one requested pod, or of one process with all its children."""

    pod_uid: str = ""
    process_id: Integer | None = None
    """ID of the process; then pod_uid is empty."""
    start_ticks: Total | None = None
    """Start of the process in clock ticks since boot; distinguishes processes with the same ID."""
    cpu_microseconds: Total
    throttled_microseconds: Total | None = None
    """Time that its threads were throttled at their CPU limit; absent if it has none."""
    memory_bytes: Count | None = None
    """Working set: memory that cannot be reclaimed."""
    cpu_pressure_microseconds: Total | None = None
    """Time that some of its threads waited for a CPU (PSI)."""
    memory_pressure_microseconds: Total | None = None
    io_pressure_microseconds: Total | None = None
    gpus: list[GpuUse] = Field(default_factory=list)
    """GPUs with processes of the workload."""


class GpuReading(Document):
    """One GPU of the node."""

    uuid: str
    index: Count
    name: str
    busy_microseconds: Total | None = None
    """GPU time of all processes."""
    foreign: bool | None = None
    """Whether it has processes of other workloads; absent if not known."""
    mig: bool = False
    """Whether it is split into instances; energy and utilisation then cover all of them."""
    utilization_percent: Count | None = None
    memory_used_bytes: Count | None = None
    memory_total_bytes: Count | None = None
    power_milliwatts: Count | None = None
    clock_hertz: Count | None = None
    """Clock of the streaming multiprocessors."""
    temperature_millidegrees_celsius: Integer | None = None
    throttle_reasons: list[str] = Field(default_factory=list)
    """Why its clock is throttled now, by NVML's names in CamelCase: "SwPowerCap". Idle is not \
one."""


class MissingSource(Document):
    """A source without figures, or with some missing."""

    source: Source
    subject: str = ""
    """The missing part, if not all is missing: "package-0-dram", a pod's UID, a GPU's UUID."""
    reason: str
    """Why, as a sentence without its period."""


class AgentSample(Document):
    """All readings of an agent at one moment."""

    schema_version: Annotated[str, StringConstraints(pattern=r"^1\.[0-9]+$")] = "1.0"
    """Version of this format, as MAJOR.MINOR. Readers ignore what a newer minor version adds."""
    agent_version: str
    instance: str
    """Random ID of this start of the agent. Counters are comparable within one instance only."""
    node: str
    boot_id: str = ""
    """Boot ID of the kernel, which identifies the machine; empty if not known."""
    monotonic_ns: Total
    """The node's monotonic clock at the reading. Requests within 50 ms get the same reading."""
    unix_ns: Total
    energy: list[EnergyReading] = Field(default_factory=list)
    cpu: CpuReading | None = None
    gpus: list[GpuReading] = Field(default_factory=list)
    workloads: list[WorkloadReading] = Field(default_factory=list)
    """The requested workloads that were found."""
    missing: list[MissingSource] = Field(default_factory=list)
