"""The NodeBenchmark: which nodes to measure, and what was found on each."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import Count, DnsSubdomain, Document, Integral, NullsAbsent, Timestamp
from inferometer_api.rules import Rule, Unique
from inferometer_api.spec.run import ObjectMeta
from inferometer_api.spec.server import LabelValue, QualifiedName, Toleration

MOST_NODES = 500

NodeBenchmarkConditionType = Literal["Accepted", "Complete", "Failed", "Current", "Finished"]
NodeBenchmarkPhase = Literal["Queued", "Running", "Complete", "Failed"]
NodeBenchmarkReason = Literal[
    "Accepted",
    "InvalidSpec",
    "NotAvailable",
    "NoNodes",
    "Running",
    "Measured",
    "SomeFailed",
    "Cancelled",
    "Expired",
]
"""Reasons of a NodeBenchmark's conditions; `NODE_BENCHMARK_REASONS` explains each."""
NODE_BENCHMARK_REASONS: dict[NodeBenchmarkReason, str] = {
    "Accepted": "The spec is valid, and nodes match it.",
    "InvalidSpec": "The spec is not valid. The message names the field and what is allowed.",
    "NotAvailable": "The operator may not do this: the message names its setting, or the right "
    "that it lacks.",
    "NoNodes": "No node, or more than 500, match the spec and are ready, schedulable and without "
    "a taint that it does not tolerate.",
    "Running": "Nodes wait or are measured.",
    "Measured": "Every node is measured. In the condition Current: the figures are recent enough.",
    "SomeFailed": "At least one node was not measured. Its message in status.nodes says why.",
    "Cancelled": "spec.cancel is true. What was measured stays.",
    "Expired": "The figures are older than spec.expirySeconds. Measure again: create a new "
    "NodeBenchmark.",
}
"""What each reason means."""
NodeState = Literal["Waiting", "Running", "Measured", "Failed", "Cancelled"]

_Message = Annotated[str, Field(max_length=1024)]
_Begin = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=patterns.PRIMITIVE)]

PRIMITIVE_FAMILIES = (
    *("timer", "jitter", "steal", "stream", "latency", "memcpy", "malloc", "libc"),
    *("pageFault", "storage", "disk", "pageCache", "gemm", "loopback", "podToPod", "gpu"),
    *("cudaMemcpyAsync", "cudaMemcpyPeerAsync", "cudaDeviceSynchronize", "cudart"),
    *("UM", "ZeroCopy", "Prefetch", "Demand", "implicit"),
)
"""How the names of primitives and figures begin, up to the first /, _, blank or parenthesis."""


def unknown_begins(only: Iterable[str]) -> list[str]:
    """Return the entries of `only` with which no name begins, whatever the node has."""
    return [
        begin
        for begin in only
        if not any(each.startswith(begin) or begin.startswith(each) for each in PRIMITIVE_FAMILIES)
    ]


def _immutable(field: str) -> Rule:
    return Rule(
        cel=f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        message=f"{field} is immutable: create a new NodeBenchmark",
        holds=None,
        field=field,
    )


class NodeBenchmarkSpec(Document):
    """Which nodes to measure. Immutable except for cancel, expiry and TTL."""

    node_selector: Annotated[dict[QualifiedName, LabelValue], NullsAbsent] = Field(
        default_factory=dict, max_length=16
    )
    """Labels that a node must have. Absent: every node. Nodes that are not ready, or have a taint \
that is not tolerated, as cordoned ones have, are left out."""

    tolerations: list[Toleration] = Field(default_factory=list, max_length=16)
    """Taints that the pods tolerate."""

    only: list[_Begin] = Field(default_factory=list, max_length=16)
    """Begins of the names of what to measure: stream, latency, memcpy, gemm, gpu, loopback, \
podToPod. Absent: all."""

    gpus: Annotated[int, Field(ge=0, le=64), Integral] = 0
    """NVIDIA GPUs that the pods on nodes with nvidia.com/gpu request, or all of a node that has \
fewer. These pods use the GPU image. 0: no GPU is measured."""

    max_seconds: Annotated[int, Field(ge=10, le=180), Integral] = 180
    """Seconds that the measurement of a node takes at most, without loopback and podToPod. What \
is left then is not measured."""

    active_deadline_seconds: Annotated[int, Field(ge=60, le=86_400), Integral] = 1800
    """Seconds from the creation of a node's pod after which the node has failed. The pod waits \
that long for the node to be free."""

    expiry_seconds: Annotated[int, Field(ge=60, le=2**31 - 1), Integral] = 2_592_000
    """Seconds after the end from which on the condition Current is False: the nodes may have \
changed."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2**31 - 1), Integral] = 7_776_000
    """Seconds after the end when the NodeBenchmark is deleted, with its documents. Those in the \
results service stay."""

    cancel: bool = False
    """Ends the measurement and keeps what was measured. Cannot be unset."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        *map(
            _immutable,
            (
                *("nodeSelector", "tolerations", "only"),
                *("gpus", "maxSeconds", "activeDeadlineSeconds"),
            ),
        ),
        Rule(
            cel="!oldSelf.cancel || self.cancel",
            message="cancel cannot be taken back",
            holds=None,
            field="cancel",
        ),
    )


class NodeBenchmarkCondition(Document):
    """One aspect of the state of a NodeBenchmark."""

    type: NodeBenchmarkConditionType
    """Which aspect of the state."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    observed_generation: Count | None = None
    """The metadata.generation that the condition is based on."""

    last_transition_time: Timestamp
    """When its status last changed."""

    reason: Annotated[str, StringConstraints(max_length=253, pattern=patterns.REASON)]
    """Why, as one CamelCase word."""

    message: _Message = ""
    """What happened, why, and what to do."""


class NodeSummary(Document):
    """Some figures of one node. The document has all of them, with intervals."""

    machine: Annotated[str, Field(max_length=253)] = ""
    """The CPU's model and the number of CPUs: what equal nodes have in common."""

    memory_bytes_per_second: Count | None = None
    """Memory bandwidth with all CPUs: STREAM's triad."""

    load_latency_picoseconds: Count | None = None
    """Time of a load from memory: that of the largest working set."""

    fp32_flops: Count | None = None
    """Floating-point operations per second of a matrix product in FP32, by the fastest engine."""

    disk_read_bytes_per_second: Count | None = None
    """Rate of reading a file whose pages are not in memory."""

    wake_up_lag_nanoseconds: Count | None = None
    """How late a timer is, 99th percentile."""

    stolen_parts_per_million: Count | None = None
    """CPU time that the hypervisor gave to other guests."""

    standstill_parts_per_million: Count | None = None
    """Time in which a running process stood still: others, or a quota, had its CPU."""
    gpus: Annotated[str, Field(max_length=253)] | None = None
    """The GPUs that were measured: 2 x NVIDIA H200."""

    gpu_memory_bytes_per_second: Count | None = None
    """Memory bandwidth of the slowest GPU: a copy, which reads and writes."""

    gpu_bf16_flops: Count | None = None
    """Floating-point operations per second of a matrix product in BF16 on the slowest GPU."""

    to_gpu_bytes_per_second: Count | None = None
    """Rate of a copy of pinned memory to the slowest GPU, from the farthest NUMA node."""


class BenchmarkedNode(Document):
    """One node: its state, and what was found."""

    node: DnsSubdomain
    """Name of the node."""

    state: NodeState
    """Waiting for its turn in the queue, Running, or how it ended."""

    message: _Message = ""
    """Why it waits, or why it failed."""

    start_time: Timestamp | None = None
    """When its turn came. The pod then waits until no other measurement uses the node."""

    finish_time: Timestamp | None = None
    """When it was measured, or had failed."""

    gpus: Count | None = None
    """GPUs that its pod requests: as many as spec.gpus, or all that the node offers."""

    summary: NodeSummary | None = None
    """Some figures of the document."""

    peer: DnsSubdomain | None = None
    """Name of the node to whose pod podToPod was measured."""

    unavailable: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=32)] = (
        Field(default_factory=list)
    )
    """Names of what was not measured. The document has the reasons."""

    cautions: Annotated[list[_Message], Field(max_length=8)] = Field(default_factory=list)
    """Conditions under which the figures hold."""

    config_map: DnsSubdomain | None = None
    """Name of the ConfigMap with the document, under the key node.json."""

    stored: bool = False
    """Whether the results service has the document."""


class NodeBenchmarkDisplay(Document):
    """Columns of `kubectl get`."""

    nodes: Annotated[str, Field(max_length=64)] = ""
    """Nodes that are over, of those that match: 3/4."""

    problems: Annotated[str, Field(max_length=64)] = ""
    """Nodes that failed, and nodes with cautions."""

    memory: Annotated[str, Field(max_length=64)] = ""
    """Memory bandwidth of the slowest and the fastest node."""


class NodeBenchmarkStatus(Document):
    """The state of the measurement. Written by the operator."""

    observed_generation: Count | None = None
    """The metadata.generation that the status is based on."""

    phase: NodeBenchmarkPhase | None = None
    """A summary of the conditions."""

    conditions: Annotated[list[NodeBenchmarkCondition], Unique("type")] = Field(
        default_factory=list, max_length=8
    )
    """State of the measurement, with reasons. Finished is True once it is over."""

    operator: Annotated[str, Field(max_length=317)] | None = None
    """Namespace and name of the Lease of the operator that measures."""

    start_time: Timestamp | None = None
    """When the nodes were chosen."""

    completion_time: Timestamp | None = None
    """When the last node was over."""

    expiry_time: Timestamp | None = None
    """From when on the figures no longer count as those of the nodes."""

    nodes: Annotated[list[BenchmarkedNode], Field(max_length=MOST_NODES), Unique("node")] = Field(
        default_factory=list
    )
    """The nodes that matched at the start, by name."""

    display: NodeBenchmarkDisplay | None = None
    """Columns of `kubectl get`."""


class NodeBenchmark(Document):
    """What nodes of the cluster give at best: memory, storage, clock, matrix products, network."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    """Always inferometer.dev/v1alpha1."""

    kind: Literal["NodeBenchmark"]
    """Always NodeBenchmark."""

    metadata: ObjectMeta
    """Standard object metadata: name, labels, annotations."""

    spec: NodeBenchmarkSpec
    """Which nodes to measure."""

    status: NodeBenchmarkStatus | None = None
    """The state of the measurement. Written by the operator."""

    @property
    def name(self) -> str:
        """The name to show; the prefix of generateName if it has none yet."""
        return self.metadata.name or (self.metadata.generate_name or "").rstrip("-")
