"""The result document of a run.

Times are integers in nanoseconds, rates are floats per second; the name of a field ends with its
unit.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api.document import Count, Document, Integer, Integral, Timestamp
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.results.accuracy import AccuracyResult, ManifestInfo
from inferometer_api.results.cold_start import ColdStartRecord
from inferometer_api.results.search import Knee, Peak, RepeatSummary
from inferometer_api.results.tracing import StepTracing
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.run_status import Attribution

SCHEMA_VERSION = "1.1"
"""MAJOR.MINOR. Readers ignore what a newer minor version adds, and reject a newer major version."""

OutcomeState = Literal["Complete", "Failed", "Refused", "Interrupted", "Terminated"]
VerdictState = Literal["VALID", "INVALID"]


class Tensor(Document):
    """An input or an output of the model, according to the server."""

    name: str
    datatype: str
    """Data type of the Open Inference Protocol: FP32, INT64, BYTES, ..."""
    shape: list[Integer]
    """Shape; -1 is an open axis."""


class Node(Document):
    """The machine of the load generator and, in a local run, of the server."""

    hostname: str
    """Host name; in a cluster the name of the Kubernetes node."""
    operating_system: str
    """Operating system; in a pod that of the image, marked "(container)"."""
    kernel: str
    architecture: str
    cpu_model: str
    cpu_count: Count
    memory_bytes: Count
    cpu_governor: str | None = None
    """Frequency governor of CPU 0; absent if not known."""
    gpus: list[str] = Field(default_factory=list)
    """Names of the GPUs."""


class ClusterNode(Document):
    """The node of a server, as the API server described it when the plan was made."""

    instance_type: str = ""
    """Its label node.kubernetes.io/instance-type."""
    gpu_model: str = ""
    """Its label nvidia.com/gpu.product."""
    cpu_count: Count | None = None
    memory_bytes: Count | None = None
    kernel: str = ""
    other_pods: Count | None = None
    """Running pods of others, without those of DaemonSets and of the node itself. Absent if not \
known: an operator that serves one namespace sees no other's pods."""


class ServerReplica(Document):
    """One of the servers that share the requests, and its location."""

    url: str
    pod: str = ""
    """Name of the pod; empty if there is none or it is not known."""
    node: str = ""
    """Node of the pod."""
    quality_of_service: str = ""
    """QoS class of the pod: Guaranteed, Burstable or BestEffort."""
    cluster_node: ClusterNode | None = None
    """What the cluster knows of the node."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Parameters of its model configuration that differ from those of the first server."""


class ServerInfo(Document):
    """The server: its metadata, and how it was started."""

    launched: bool
    """Whether Inferometer started it; false for an External server."""
    url: str
    name: str = ""
    version: str = ""
    extensions: list[str] = Field(default_factory=list)
    settings: dict[str, str] = Field(default_factory=dict)
    """Parameters of its model configuration (runtime version, threads, providers, ...), and \
max_batch_size if there is a limit."""
    graph_nodes_by_provider: dict[str, Count] = Field(default_factory=dict)
    """Number of graph nodes by execution provider."""
    tensors: Literal["Binary", "Json"] | None = None
    """How the requests carried tensors, and wanted those of the replies. Absent in documents that \
did not record it."""
    replicas: list[ServerReplica] = Field(default_factory=list)
    """Every server, in a cluster or if there are several. The other fields are those of the \
first."""
    cpu_fallback_graph_nodes: Count | None = None
    """Graph nodes that compute on data and ran on the CPU although device is GPU."""


class ServerRestart(Document):
    """The planned restart of the servers before a further repeat."""

    repeat: Count
    """The repeat that began with the new servers."""
    seconds: float
    """From the end of the repeat before until the new servers were ready."""
    replicas: list[ServerReplica]
    """The new servers, with the settings that differ from those of the first repeat's."""


class ModelInfo(Document):
    """The measured model."""

    name: str
    version: str = ""
    uri: str | None = None
    sha256: str | None = None
    inputs: list[Tensor] = Field(default_factory=list)
    outputs: list[Tensor] = Field(default_factory=list)
    manifest: ManifestInfo | None = None
    """Its manifest, if it has one."""


class SampledOutput(Document):
    """One output of the model, for each of the sampled inputs."""

    name: str
    shape: list[Integer]
    """Its shape in one reply."""
    values_per_sample: Count
    """Numbers kept of each reply, evenly spread over it; all of them if there are few."""
    values: str
    """The numbers of all replies, in order: 32-bit floats, little-endian, base64."""
    largest: list[Count] = Field(default_factory=list)
    """Position of the largest number in each reply, if the output has a score for each class."""


class OutputSamples(Document):
    """What the server computes for a few inputs, which are the same in every run of a model."""

    inputs: list[str]
    """The input of each reply: the first 16 digits of its SHA-256."""
    outputs: list[SampledOutput]


class Environment(Document):
    """Conditions of the measurement."""

    place: Literal["Local", "Cluster"]
    node: Node
    server: ServerInfo
    model: ModelInfo
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions of the load generator's packages."""
    images: dict[str, str] = Field(default_factory=dict)
    """Digests of the container images, in a cluster."""
    restarts: list[ServerRestart] = Field(default_factory=list)
    """The planned restarts of the servers, in order. `server` describes those of the first \
repeat."""
    notes: list[str] = Field(default_factory=list)
    """Settings that do not apply here, and warnings about the spec, one sentence each."""
    output_samples: OutputSamples | None = None
    """Outputs for seeded inputs, by which results of different engines and precisions are \
compared. Absent if the server was not launched by the run, or if it has no outputs of numbers."""


_OTHER_MODEL = "The further model {} of the server has the SHA-256 {}."


def other_model_note(model: str, checksum: str) -> str:
    """Return the note of an environment on a further model of the server."""
    return _OTHER_MODEL.format(model, checksum)


def other_model_checksums(environment: Environment) -> dict[str, str]:
    """Return the checksums of further models that an environment's notes give, by their names."""
    pattern = re.escape(_OTHER_MODEL).replace(r"\{\}", "(.+)")
    found = (re.fullmatch(pattern, note) for note in environment.notes)
    return {each[1]: each[2] for each in found if each is not None}


class PercentileValue(Document):
    """One percentile with its 95 % bounds within this window, by order statistics.

    They do not cover what differs from run to run.
    """

    percentile: float
    """In percent: 99.9."""
    nanoseconds: Count
    low_nanoseconds: Count | None = None
    """Lower bound; absent if there are too few queries for one."""
    high_nanoseconds: Count | None = None
    """Upper bound; absent if there are too few queries for one."""

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds are known."""
        return self.low_nanoseconds is not None and self.high_nanoseconds is not None


class Distribution(Document):
    """A distribution of times, as an HdrHistogram with 3 significant digits."""

    count: Count
    min_nanoseconds: Count
    mean_nanoseconds: Count
    max_nanoseconds: Count
    percentiles: list[PercentileValue]
    """50, 90, 95, 97, 99, 99.9 and 99.99 percent, if there is at least one query."""
    histogram: str
    """The HdrHistogram of nanoseconds in its V2 encoding, compressed, base64."""


def percentile_of(distribution: Distribution | None, percentile: float) -> PercentileValue | None:
    """Return a percentile (in percent) with its bounds; None if the distribution has none."""
    values = distribution.percentiles if distribution is not None else []
    return next((value for value in values if value.percentile == percentile), None)


def nanoseconds_at(distribution: Distribution | None, percentile: float) -> int | None:
    """Return a percentile (in percent) in nanoseconds; None if the distribution has none."""
    value = percentile_of(distribution, percentile)
    return None if value is None else value.nanoseconds


class Counts(Document):
    """Numbers of queries, samples and replies."""

    queries: Count
    """Queries answered or failed within the window."""
    samples: Count
    """Samples (inferences) in the answered queries."""
    succeeded: Count
    failed: Count
    errors: dict[str, Count] = Field(default_factory=dict)
    """Failed queries by kind: timeout, connection, status, protocol, content."""
    scheduled: Count | None = None
    """Queries scheduled within the window, in open-loop scenarios."""
    waited_for_connection: Count = 0
    """Queries that found no free connection when they were due; their latency includes the wait."""
    checked_replies: Count = 0
    """Replies whose output names, types and shapes were checked."""
    reconnects: Count = 0
    """Connections that were lost and reopened."""
    resent: Count = 0
    """Queries that were sent a second time: the server had closed their connection after an error \
before it read them. Their latency counts from their due time."""
    overshoots: Count | None = None
    """Queries over the latency bound, including failed ones. In a decided probe also unanswered \
queries past the bound, which are not in `queries`."""


class ErrorExample(Document):
    """An example message of one kind of error."""

    kind: str
    message: str


class Window(Document):
    """One second of the measurement; longer in long runs, but always equally long.

    A query belongs to the window of its answer, which for the last ones is after the measurement.
    """

    start_milliseconds: Count
    """From the start of the measurement."""
    duration_milliseconds: Count
    scheduled: Count | None = None
    succeeded: Count
    failed: Count
    p50_nanoseconds: Count | None = None
    p99_nanoseconds: Count | None = None
    max_nanoseconds: Count | None = None


class UsageSample(Document):
    """CPU and memory of the server and the load generator at one moment."""

    at_milliseconds: Count
    """From the start of the measurement."""
    server_cpu_cores: float | None = None
    """CPU seconds per second since the last sample; absent for an External server."""
    server_memory_bytes: Count | None = None
    """Resident memory."""
    client_cpu_cores: float
    client_memory_bytes: Count


class EnergyDomain(Document):
    """The energy of one counter (a CPU package, its memory, a GPU) within the window."""

    node: str
    domain: str
    """Its name on the node: "package-0", "package-0-dram", "gpu-0"."""
    method: Literal["Counter", "PowerIntegral", "Estimate"]
    attribution: Attribution
    share: float
    """Share that counts as the servers': 1 if it is dedicated or of the whole node."""
    domain_microjoules: Count
    """Energy of the whole domain."""
    microjoules: Count
    """Energy that counts as the servers'."""
    baseline_milliwatts: Count | None = None
    """Power before warm-up, with ready servers and no load; absent if not measured."""
    net_microjoules: Integer | None = None
    """The servers' share of the energy above baseline_milliwatts times the window. Negative if \
the load is within the noise of the idle power."""


class Energy(Document):
    """The energy of the window. Energy without a source is unavailable, never zero."""

    attribution: Attribution
    """What the figure covers: the weakest attribution of its domains."""
    reason: str = ""
    """Why energy is unavailable."""
    microjoules: Count | None = None
    """Energy of the window that counts as the servers', including idle power."""
    microjoules_per_inference: Count | None = None
    """The same, divided by the samples answered within the window."""
    baseline_milliwatts: Count | None = None
    """Power of all domains before warm-up, with ready servers and no load."""
    net_microjoules: Integer | None = None
    """Energy without the servers' share of the baseline power times the window."""
    net_microjoules_per_inference: Integer | None = None
    window_nanoseconds: Count | None = None
    """Time between the two readings of the counters, by the node's clock."""
    domains: list[EnergyDomain] = Field(default_factory=list)
    not_covered: list[str] = Field(default_factory=list)
    """What the figure does not cover, one sentence each without its period."""


class NodeSample(Document):
    """One sample of a node with servers. Rates are since the last sample."""

    at_milliseconds: Integer
    """From the start of the measurement; negative before it."""
    watts: dict[str, float] = Field(default_factory=dict)
    """Power by domain."""
    cpu_cores: float | None = None
    """CPU seconds per second of the whole node."""
    steal_cores: float | None = None
    cpu_frequency_hertz: Count | None = None
    temperature_celsius: float | None = None
    server_cpu_cores: float | None = None
    """CPU seconds per second of the servers on the node."""
    server_memory_bytes: Count | None = None
    server_throttled_cores: float | None = None
    """Seconds per second that the servers' threads were throttled at their CPU limit."""
    server_cpu_pressure: float | None = None
    """Seconds per second in which some of the servers' threads waited for a CPU (PSI)."""
    gpu_utilization: dict[str, float] = Field(default_factory=dict)
    """From 0 to 1, by GPU: "gpu-0"."""
    gpu_memory_bytes: dict[str, Count] = Field(default_factory=dict)
    gpu_clock_hertz: dict[str, Count] = Field(default_factory=dict)
    gpu_throttle_reasons: dict[str, list[str]] = Field(default_factory=dict)


class NodeTelemetry(Document):
    """Samples of the agent of one node during a step."""

    node: str
    agent_version: str = ""
    cpu_count: Count | None = None
    governor: str | None = None
    server_cpu_seconds: float | None = None
    """CPU seconds of the servers on the node, within the window."""
    server_throttled_seconds: float | None = None
    """Seconds of the window that the servers' threads were throttled at their CPU limit."""
    steal_seconds: float | None = None
    """CPU seconds of the window that the hypervisor gave to other machines."""
    samples: list[NodeSample] = Field(default_factory=list)
    """One a second, at most 600."""
    missing: list[str] = Field(default_factory=list)
    """What the agent could not read, one sentence each without its period."""


class EarlyStopping(Document):
    """Early stopping of MLPerf for a percentile, with 99 % confidence.

    Binomial tail, as in early_stopping.cc of MLPerf LoadGen.
    """

    percentile: float
    latency_bound_nanoseconds: Count | None = None
    """Absent if the scenario has no bound."""
    queries: Count
    overshoots: Count
    """With a bound: queries over it, including failed ones. Without: the queries that may exceed \
the estimate."""
    required_queries: Count | None = None
    """Queries needed, with this number of overshoots, to establish that the percentile keeps the \
bound. Without a bound: queries needed for an estimate, if there are too few."""
    estimate_nanoseconds: Count | None = None
    """Without a bound: upper estimate of the percentile. Absent if there are too few queries."""


class ClientHealth(Document):
    """State of the load generator itself, within the window and its drain."""

    throttled_seconds: float | None = None
    """Time that its threads were throttled at a CPU limit; absent if not known."""
    runnable_wait_seconds: float | None = None
    """Time that it was runnable and waited for a CPU (schedstat of the kernel)."""
    wake_up_lag_nanoseconds: Count | None = None
    """P99 of its wake-up delay: how late a timer woke it, 200 times a second. Only in closed \
loops, for 300 wake-ups or more; open loops have a dispatch lag."""
    wake_up_lag_max_nanoseconds: Count | None = None
    """Maximum wake-up delay: its longest standstill. Only in closed loops."""
    steal_seconds: float | None = None
    """CPU time of its machine that the hypervisor gave to other machines. For a fleet, that of \
the worker with the largest share."""
    cpu_count: Count | None = None
    """Number of CPUs that it may use."""
    clock_jump_nanoseconds: Integer = 0
    """Largest change of the wall clock against the monotonic clock from one second to the next."""


class ProcessLoad(Document):
    """CPU use of other processes with the same name."""

    name: str
    """Name of the program, with its script if it is an interpreter: "python3 train.py"."""
    processes: Count = 1
    """Number of processes with this name."""
    cpu_cores: float


class OtherLoad(Document):
    """CPU use of other processes than the run's own on one machine, over a step with its warm-up.

    Own processes are the load generator, the server, the node agent and the command that started
    them.
    """

    node: str = ""
    """Name of the Kubernetes node; empty for the machine of a local run."""
    cpu_count: Count
    """CPUs of the machine."""
    busy_cores: float
    """CPU seconds per second of all processes."""
    other_cores: float
    """CPU seconds per second of other processes."""
    processes: list[ProcessLoad] = Field(default_factory=list)
    """The other processes that used most, if they can be read: in local runs. Processes that end \
during the step are not listed."""


class WorkerShare(Document):
    """The part of one worker of a fleet in a step."""

    worker: Count
    """Number of the worker, from 0."""
    node: str = ""
    queries: Count
    """Answered or failed within the window."""
    start_offset_nanoseconds: Integer
    """Start of its schedule relative to the agreed start, by the master's clock."""
    clock_offset_nanoseconds: Integer
    """Its clock minus the master's, measured by an exchange of time stamps before the step."""
    clock_uncertainty_nanoseconds: Count
    """Uncertainty of the offset: half the shortest round trip; 0 if both share one clock."""
    client_cpu_seconds: float
    client: ClientHealth | None = None
    """Its state; absent if it had no part in the step or was lost."""
    lost: bool = False
    """Whether it was lost before the end of the step."""
    loss_reason: str = ""
    """Why it was lost: a phrase without a period."""


class ServedStep(Document):
    """One step of the manifest in the server."""

    step: str
    nanoseconds: Count
    """Mean per request. Of requests that the server joins each counts the time of all."""
    share: float = 0.0
    """Share of the mean latency, from 0 to 1; without latencies of the mean time in the server."""
    failed: Count = 0
    """Requests that failed in it."""


class ServerTime(Document):
    """Where the servers spent the time of their requests: means per request within the window.

    It is the difference of their statistics (the protocol's statistics extension) at its edges.
    """

    requests: Count
    """Requests that the servers answered between the edges, from all clients."""
    executions: Count
    """Runs of the model: fewer than the requests if the server joins them."""
    queue_nanoseconds: Count
    """Waiting for the model."""
    compute_input_nanoseconds: Count
    """Reading, joining and copying inputs."""
    compute_infer_nanoseconds: Count
    """Running the model."""
    compute_output_nanoseconds: Count
    """Copying and writing outputs."""
    steps: list[ServedStep] = Field(default_factory=list)
    """Steps around the model, in their order, with `pipeline: Server`. Their time is in none of \
the other parts."""

    @property
    def total_nanoseconds(self) -> int:
        """The mean time in the server."""
        return sum(
            (
                self.queue_nanoseconds,
                self.compute_input_nanoseconds,
                self.compute_infer_nanoseconds,
                self.compute_output_nanoseconds,
                *(each.nanoseconds for each in self.steps),
            )
        )

    def with_shares(self, whole_nanoseconds: int) -> "ServerTime":
        """Return it with the share of each step in a mean time."""
        steps = [
            each.model_copy(update={"share": each.nanoseconds / max(1, whole_nanoseconds)})
            for each in self.steps
        ]
        return self.model_copy(update={"steps": steps})


class TensorShape(Document):
    """An input or output of a layer."""

    datatype: str
    """As the engine names it."""
    shape: list[Count] = Field(default_factory=list)


class LayerProfile(Document):
    """One layer of the model, as its engine ran it."""

    index: Count
    """In the order of execution, from 0."""
    name: str
    operator: str
    shape: list[Count] = Field(default_factory=list)
    """Shape of the first output; empty if the engine does not report it."""
    datatype: str = ""
    """What the engine computes it in, or the type of its first output."""
    provider: str = ""
    kernel: str = ""
    """The engine's name of the kernel; empty if it has none."""
    output_bytes: Count | None = None
    start_nanoseconds: Count
    """From the start of the inference, in the last run."""
    durations_nanoseconds: list[Count]
    """One for each profiled run; one in all if the engine reports a mean."""
    outer: Count | None = None
    """Index of the loop or branch that it runs within, and whose duration includes its own."""
    inputs: list[TensorShape] = Field(default_factory=list)
    """Of a profile with kernels of a GPU: what the layer's work is computed from."""
    outputs: list[TensorShape] = Field(default_factory=list)
    """As inputs."""


class KernelProfile(Document):
    """One kernel, copy or fill on a GPU: its launch by a thread, and its execution.

    Starts are those of the last run in which it ran, from the start of the inference.
    """

    index: Count
    """In the order of the launches, from 0."""
    kind: Literal["Kernel", "Memcpy", "Memset"]
    name: str
    """Of a copy its direction."""
    layer: Count | None = None
    """Index of the layer that launched it; none of the copies of the model's inputs and outputs."""
    stream: Count
    """CUDA's number of the stream."""
    launch_start_nanoseconds: Count
    launch_nanoseconds: Count
    """How long the call took that launched it."""
    start_nanoseconds: Count
    """When it began to run."""
    durations_nanoseconds: list[Count]
    """On the GPU, one for each run in which it ran."""
    grid: list[Count] = Field(default_factory=list)
    """Blocks in x, y and z."""
    block: list[Count] = Field(default_factory=list)
    """Threads of a block in x, y and z."""
    registers_per_thread: Count | None = None
    shared_bytes: Count | None = None
    """Static and dynamic shared memory of each block."""
    theoretical_occupancy: float | None = None
    """Share of a multiprocessor's warps that its blocks can fill, from 0 to 1: a bound of the \
achieved occupancy, from registers, shared memory and the size of its blocks."""
    tensor_cores: bool | None = None
    """Whether its name says that it multiplies on tensor cores."""
    moved_bytes: Count | None = None
    """Of a copy or fill."""


class GpuProfile(Document):
    """The GPU of a profile, with its theoretical rates at its highest clocks."""

    name: str
    multiprocessors: Count
    bytes_per_second: Count
    """Of its memory."""
    fp32_flops_per_second: Count | None = None
    """Without tensor cores; none if it is of a kind that is not known."""
    tf32_flops_per_second: Count | None = None
    """With tensor cores, dense."""


class StepProfile(Document):
    """Where the engine spends the time of an inference, in runs within the server.

    Runs with and without the profiler alternate. The durations of the model are of runs without.
    """

    levels: list[Literal["Model", "Layer", "Kernel"]] = Field(default_factory=list)
    """The levels that were profiled."""
    unavailable: dict[str, str] = Field(default_factory=dict)
    """Why a requested level was not: a sentence by level."""
    model_nanoseconds: list[Count] = Field(default_factory=list)
    """Durations of the inferences without a profiler."""
    profiled_nanoseconds: list[Count] = Field(default_factory=list)
    """Durations of those with the profiler of the layers, in the same rounds. On a GPU these are \
serialized: each call waits for its kernel."""
    kernel_profiled_nanoseconds: list[Count] = Field(default_factory=list)
    """Durations of those with the profilers of the layers and of a GPU's kernels."""
    opening_iterations: list[Count] = Field(default_factory=list)
    """How many of these, one after another, were of sessions that were opened together. Empty if \
all were."""
    layers: list[LayerProfile] = Field(default_factory=list)
    kernels: list[KernelProfile] = Field(default_factory=list)
    """What ran on a GPU, in the order of the launches."""
    gpu: GpuProfile | None = None
    notes: list[str] = Field(default_factory=list)
    """What the profile does not cover, one sentence each."""


class StepLayers(Document):
    """Timings of layers by the server's pod, after the load."""

    timings: LayerTimings | None = None
    """What was timed; it belongs to the layer database."""
    unavailable: str = ""
    """Why nothing was timed, as a sentence."""


class ModelFigures(Document):
    """The queries of a step that went to one model of a mix."""

    model: str
    share: float
    """Planned share of the queries, from 0 to 1."""
    queries: Count
    """Queries answered or failed within the window."""
    succeeded: Count
    failed: Count
    errors: dict[str, Count] = Field(default_factory=dict)
    """Failed queries by kind."""
    achieved_qps: float
    """Queries answered per second of the window and, in open loops, of its drain."""
    latency: Distribution | None = None
    """As that of the step; those of all models merge to it. Absent if no query was answered."""


class Step(Document):
    """One measurement at one setting: a whole scenario, or one of its batch sizes or probes."""

    label: str
    """The setting in words: "batch 8"; empty if the scenario has one step."""
    batch_size: Count = 1
    """Samples in each request."""
    seed: Count | None = None
    """Seed of its schedule, if it differs from the scenario's."""
    clients: Count | None = None
    """Outstanding queries, in closed loops."""
    connections: Count | None = None
    """Connections to each server, by all workers together."""
    started_at: Timestamp
    warm_up_nanoseconds: Count
    warm_up_queries: Count = 0
    """Queries of the warm-up, not measured."""
    duration_nanoseconds: Count
    """The measured window. Open loop: the measured part of the schedule. Closed loop: from the \
first query to the answer with which both minimums are reached; in `offline` to the last answer \
or the maximum duration."""
    drain_nanoseconds: Count = 0
    """From the end of the window to the last reply. Only if queries are awaited after the \
window: in open loops, in `concurrency`, and after the maximum duration of a closed loop."""
    ended_early: bool = False
    """Whether the step ended before both minimums were reached; for a trace, before its last \
arrival."""
    counts: Counts
    scheduled_qps: float | None = None
    """The rate of the schedule within the window, in open-loop scenarios."""
    achieved_qps: float
    """Queries answered per second of the window and, in open loops, of its drain."""
    achieved_samples_per_second: float
    """Inferences per second, over the same time."""
    latency: Distribution | None = None
    """Latency: from the scheduled time in open loops, otherwise from the send, to the whole \
reply. Absent if no query was answered."""
    models: list[ModelFigures] = Field(default_factory=list)
    """One for each model of a mix, in its order."""
    longest_silence_nanoseconds: Count | None = None
    """Longest time within the window without an answer; failures are not answers. Only in closed \
loops. For a fleet, times below half a second may be missing."""
    service_time: Distribution | None = None
    """Time from the send to the whole reply, in open loops."""
    server_time: ServerTime | None = None
    """Absent if a server lacks the statistics extension or was restarted within the window."""
    dispatch_lag: Distribution | None = None
    """Time from the scheduled time until the load generator handled the query."""
    windows: list[Window] = Field(default_factory=list)
    usage: list[UsageSample] = Field(default_factory=list)
    server_cpu_seconds: float | None = None
    client_cpu_seconds: float = 0.0
    error_examples: list[ErrorExample] = Field(default_factory=list)
    output_deviations: list[str] = Field(default_factory=list)
    """One sentence for each output whose shape differs from the metadata in every first reply."""
    json_replies: Count = 0
    """First replies that carried tensors as JSON although the requests wanted binary data."""
    energy: Energy
    telemetry: list[NodeTelemetry] = Field(default_factory=list)
    """One for each node with servers and an agent."""
    early_stopping: EarlyStopping | None = None
    """Early stopping for the percentile that decides the verdict; absent if there is none."""
    client: ClientHealth = Field(default_factory=ClientHealth)
    other_load: list[OtherLoad] = Field(default_factory=list)
    """One for each machine of the load generator and the servers on which it is known."""
    workers: list[WorkerShare] = Field(default_factory=list)
    """One for each worker of a fleet."""
    layers: StepLayers | None = None
    """Timings of layers, in scenarios of kind `bound` and `bricks`."""
    profile: StepProfile | None = None
    """In `profile` scenarios."""
    tracing: StepTracing | None = None
    """With `load.tracing`. Present: every Nth query carried a traceparent."""


def whole_windows(step: Step) -> list[Window]:
    """Return the windows of at least the full length; the last may include the remainder.

    Windows that start after the end of the measurement are left out: their load is the rest.
    """
    return [
        each
        for each in step.windows
        if each.duration_milliseconds >= step.windows[0].duration_milliseconds
        and each.start_milliseconds * 1_000_000 < step.duration_nanoseconds
    ]


class Finding(Document):
    """A broken rule, or a condition under which the figures hold."""

    rule: str
    """Name of the rule in docs/reference/verdict.md: MinDuration, ErrorRate, ..."""
    message: str
    """A sentence with the figure, the limit and what to do."""
    figure: str
    limit: str
    step: str = ""
    """Label of the step that the finding is about; empty: the whole scenario. If several steps \
break the rule, the one that breaks it most."""
    steps: list[str] = Field(default_factory=list)
    """Labels of all steps that break the rule, if several but not all alike do."""


class Verdict(Document):
    """Whether the figures can be trusted and the scenario met its requirements."""

    state: VerdictState
    reasons: list[Finding] = Field(default_factory=list)
    """Why the scenario is INVALID."""
    cautions: list[Finding] = Field(default_factory=list)
    """Conditions under which the figures hold; they do not change the verdict."""


class ScenarioResult(Document):
    """Figures and verdict of one repeat of a scenario."""

    name: str
    kind: str
    """singleStream, server, batch, ..."""
    repeat: Annotated[int, Field(ge=1, le=2**31 - 1), Integral] = 1
    seed: Count
    """The seed of its schedule and inputs."""
    steps: list[Step]
    verdict: Verdict
    peak: Peak | None = None
    """Result of the search in `findPeak`."""
    accuracy: AccuracyResult | None = None
    """Measures of `accuracy`."""
    knee: Knee | None = None
    """Knee of `concurrency`; absent if no step was answered."""
    cold_start: ColdStartRecord | None = None
    """The start of the server, in `coldStart`."""


class Outcome(Document):
    """How the run ended."""

    state: OutcomeState
    reason: str
    """One CamelCase word: Measured, ServerDied, Interrupted, ..."""
    message: str = ""
    """What happened, why, and what to do; with the last lines of a crashed server."""


class ResultDocument(Document):
    """All measurements of one run, and their conditions."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    kind: Literal["BenchmarkResult"]
    schema_version: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*\.[0-9]+$")]
    """Version of this format, as MAJOR.MINOR."""
    run_id: str
    """Unique ID of the execution."""
    inferometer_version: str
    started_at: Timestamp
    finished_at: Timestamp
    first_query_at: Timestamp | None = None
    """When the first query was sent, warm-up included. Absent if none was sent."""
    outcome: Outcome
    run: BenchmarkRun
    """The run, with every default filled in."""
    environment: Environment | None = None
    """Absent if the run ended before the server was ready."""
    scenarios: list[ScenarioResult] = Field(default_factory=list)
    """Measured scenarios in the order of the spec, with all repeats of each in a row; those \
measured so far if the run did not complete."""
    repeat_summaries: list[RepeatSummary] = Field(default_factory=list)
    """Summary of the repeats of each scenario that was measured more than once."""

    @property
    def valid(self) -> bool:
        """Whether the run is complete and every scenario is VALID."""
        return self.outcome.state == "Complete" and all(
            scenario.verdict.state == "VALID" for scenario in self.scenarios
        )
