"""What was found: the result document of a run.

Times are integers in nanoseconds, rates are floats per second; every unit is in the field's name.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api.document import Count, Document, Integer, Integral, Timestamp
from inferometer_api.results.search import Knee, Peak, RepeatSummary
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.status.run_status import Attribution

SCHEMA_VERSION = "1.1"
"""MAJOR.MINOR. Readers ignore what a newer minor version adds, and reject a newer major version."""

OutcomeState = Literal["Complete", "Failed", "Refused", "Interrupted", "Terminated"]
VerdictState = Literal["VALID", "INVALID"]


class Tensor(Document):
    """An input or an output of the model, as the server describes it."""

    name: str
    datatype: str
    """Its datatype in the Open Inference Protocol: FP32, INT64, BYTES, ..."""
    shape: list[Integer]
    """Its shape; -1 stands for an open axis."""


class Node(Document):
    """The machine that the load generator ran on; with a local run the server's too."""

    hostname: str
    """In a cluster the name of the Kubernetes node."""
    operating_system: str
    """In a pod that of the image, marked "(container)"; the kernel is the node's."""
    kernel: str
    architecture: str
    cpu_model: str
    cpu_count: Count
    memory_bytes: Count
    cpu_governor: str | None = None
    """The frequency governor of CPU 0; absent where the machine does not tell."""
    gpus: list[str] = Field(default_factory=list)
    """The GPUs' names."""


class ServerReplica(Document):
    """One of the servers among which requests are shared, and where it runs."""

    url: str
    pod: str = ""
    """The pod's name; empty where it runs in none that is known."""
    node: str = ""
    """The name of the pod's node."""
    quality_of_service: str = ""
    """The pod's class: Guaranteed, Burstable or BestEffort."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Parameters of its model configuration that differ from those of the first."""


class ServerInfo(Document):
    """What the server says of itself, and how it was started."""

    launched: bool
    """Whether Inferometer started it; False: something that already served."""
    url: str
    name: str = ""
    version: str = ""
    extensions: list[str] = Field(default_factory=list)
    settings: dict[str, str] = Field(default_factory=dict)
    """What its model configuration tells: parameters (runtime version, threads, providers, ...) \
and max_batch_size, where there is a limit."""
    graph_nodes_by_provider: dict[str, Count] = Field(default_factory=dict)
    """How many graph nodes ran on which execution provider."""
    replicas: list[ServerReplica] = Field(default_factory=list)
    """Every server, in a cluster or where there are several; what stands above is of the first."""
    cpu_fallback_graph_nodes: Count | None = None
    """Compute nodes that a GPU was asked for and that ran on the CPU."""


class ModelInfo(Document):
    """Which model was measured."""

    name: str
    version: str = ""
    uri: str | None = None
    sha256: str | None = None
    inputs: list[Tensor] = Field(default_factory=list)
    outputs: list[Tensor] = Field(default_factory=list)


class Environment(Document):
    """Under which conditions the figures were found."""

    place: Literal["Local", "Cluster"]
    node: Node
    server: ServerInfo
    model: ModelInfo
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions of what the load generator is made of."""
    images: dict[str, str] = Field(default_factory=dict)
    """Digests of the container images, in a cluster."""
    notes: list[str] = Field(default_factory=list)
    """What was asked and does not apply here, one sentence each."""


class PercentileValue(Document):
    """One percentile with its 95 % confidence bounds by order statistics."""

    percentile: float
    """In percent: 99.9."""
    nanoseconds: Count
    low_nanoseconds: Count | None = None
    """Lower bound; absent where there are too few queries to know one."""
    high_nanoseconds: Count | None = None
    """Upper bound; absent where there are too few queries to know one."""

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds are known."""
        return self.low_nanoseconds is not None and self.high_nanoseconds is not None


class Distribution(Document):
    """A distribution of times, kept as an HdrHistogram with 3 significant digits."""

    count: Count
    min_nanoseconds: Count
    mean_nanoseconds: Count
    max_nanoseconds: Count
    percentiles: list[PercentileValue]
    """50, 90, 95, 97, 99, 99.9 and 99.99 percent, where there is at least one query."""
    histogram: str
    """The HdrHistogram of nanoseconds in its V2 encoding, compressed, base64."""


def percentile_of(distribution: Distribution | None, percentile: float) -> PercentileValue | None:
    """Return a percentile (in percent) with its bounds; None where the distribution has none."""
    values = distribution.percentiles if distribution is not None else []
    return next((value for value in values if value.percentile == percentile), None)


def nanoseconds_at(distribution: Distribution | None, percentile: float) -> int | None:
    """Return a percentile (in percent) in nanoseconds; None where the distribution has none."""
    value = percentile_of(distribution, percentile)
    return None if value is None else value.nanoseconds


class Counts(Document):
    """How many of what."""

    queries: Count
    """Queries that were answered or failed within the window."""
    samples: Count
    """Samples (inferences) in the queries that were answered."""
    succeeded: Count
    failed: Count
    errors: dict[str, Count] = Field(default_factory=dict)
    """Failed queries by kind: timeout, connection, status, protocol, content."""
    scheduled: Count | None = None
    """Queries that the schedule had within the window, in open-loop scenarios."""
    waited_for_connection: Count = 0
    """Queries that were due and found no free connection; their wait is in their latency."""
    checked_replies: Count = 0
    """Replies whose outputs' names, types and shapes were checked."""
    reconnects: Count = 0
    """Connections that were lost and opened again."""
    overshoots: Count | None = None
    """Queries whose latency was beyond the bound that was asked, failed ones among them. Where a \
probe was decided, also those that were past it unanswered, which are not in `queries`."""


class ErrorExample(Document):
    """What one kind of error said, once."""

    kind: str
    message: str


class Window(Document):
    """One second of the measurement (longer in long runs, then all windows are equally long).

    Queries count where they were answered, which for the last ones is after the measurement's end.
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
    """What server and load generator used, at one moment."""

    at_milliseconds: Count
    """From the start of the measurement."""
    server_cpu_cores: float | None = None
    """CPU seconds per second since the sample before; absent where the server is not ours."""
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
    """The part of it that counts as the servers': 1 where it is dedicated or of the whole node."""
    domain_microjoules: Count
    """All of it."""
    microjoules: Count
    """The servers' part."""
    baseline_milliwatts: Count | None = None
    """Its power before warm-up, with servers ready and no load; absent where not measured."""
    net_microjoules: Integer | None = None
    """The servers' part of what exceeds baseline_milliwatts times the window. Below zero where \
the load is lost in the noise of the idle power."""


class Energy(Document):
    """The energy of the window. What has no source is unavailable, never zero."""

    attribution: Attribution
    """What the figure covers: the weakest of its domains."""
    reason: str = ""
    """Why it is unavailable."""
    microjoules: Count | None = None
    """Gross: all energy of the window that counts as the servers'."""
    microjoules_per_inference: Count | None = None
    """Gross, over the samples that were answered between the window's edges."""
    baseline_milliwatts: Count | None = None
    """The domains' power together before warm-up, with servers ready and no load."""
    net_microjoules: Integer | None = None
    """Gross less the servers' part of the baseline's power times the window."""
    net_microjoules_per_inference: Integer | None = None
    window_nanoseconds: Count | None = None
    """Between the counters' two readings, by the node's clock."""
    domains: list[EnergyDomain] = Field(default_factory=list)
    not_covered: list[str] = Field(default_factory=list)
    """What the figure leaves out, one sentence each without its period: a GPU without a counter."""


class NodeSample(Document):
    """What a node that servers run on did, at one moment; rates are since the sample before."""

    at_milliseconds: Integer
    """From the start of the measurement; below zero before it."""
    watts: dict[str, float] = Field(default_factory=dict)
    """Power by domain."""
    cpu_cores: float | None = None
    """CPU seconds per second of the whole node."""
    steal_cores: float | None = None
    cpu_frequency_hertz: Count | None = None
    temperature_celsius: float | None = None
    server_cpu_cores: float | None = None
    """CPU seconds per second of the servers on it."""
    server_memory_bytes: Count | None = None
    server_throttled_cores: float | None = None
    """Seconds per second that the servers' threads waited since their CPU limit was used up."""
    server_cpu_pressure: float | None = None
    """Seconds per second in which some of the servers' threads waited for a CPU."""
    gpu_utilization: dict[str, float] = Field(default_factory=dict)
    """From 0 to 1, by GPU: "gpu-0"."""
    gpu_memory_bytes: dict[str, Count] = Field(default_factory=dict)
    gpu_clock_hertz: dict[str, Count] = Field(default_factory=dict)
    gpu_throttle_reasons: dict[str, list[str]] = Field(default_factory=dict)


class NodeTelemetry(Document):
    """What the agent of one node told during a step."""

    node: str
    agent_version: str = ""
    cpu_count: Count | None = None
    governor: str | None = None
    server_cpu_seconds: float | None = None
    """Of the servers on it, within the window."""
    server_throttled_seconds: float | None = None
    """How long the servers' threads waited within the window since their CPU limit was used up."""
    steal_seconds: float | None = None
    """CPU time of the window that the hypervisor gave to others, of all CPUs."""
    samples: list[NodeSample] = Field(default_factory=list)
    """One a second, at most 600."""
    missing: list[str] = Field(default_factory=list)
    """What the agent could not read: a sentence each, without its period."""


class EarlyStopping(Document):
    """What MLPerf's early stopping says of a percentile, with 99 % confidence.

    By the binomial's tail (MLPerf LoadGen, early_stopping.cc).
    """

    percentile: float
    latency_bound_nanoseconds: Count | None = None
    """Absent where no bound is asked."""
    queries: Count
    overshoots: Count
    """With a bound: queries beyond it, failed ones among them. Without: the most that may be \
beyond the estimate."""
    required_queries: Count | None = None
    """How many queries it takes, with so many overshoots, to know that the percentile keeps the \
bound. Without a bound: how many an estimate takes, where these are too few."""
    estimate_nanoseconds: Count | None = None
    """Without a bound: what the percentile is at most. Absent where the queries are too few to \
know one."""


class ClientHealth(Document):
    """What became of the load generator itself within the window and its drain."""

    throttled_seconds: float | None = None
    """How long its threads waited since a CPU limit was used up; absent where that is not told."""
    runnable_wait_seconds: float | None = None
    """How long it was ready to run and waited for a CPU (the kernel's schedstat)."""
    wake_up_lag_nanoseconds: Count | None = None
    """How late it was when a timer of its own should have woken it, 200 times a second: the P99. \
Only in closed loops, of 300 times or more; open ones have a dispatch lag."""
    wake_up_lag_max_nanoseconds: Count | None = None
    """The greatest such lag: how long it stood still at a stretch. Only in closed loops."""
    steal_seconds: float | None = None
    """CPU time of its machine that the hypervisor gave to others. Of a fleet that worker's of \
whose CPUs it is the largest share."""
    cpu_count: Count | None = None
    """The CPUs that this time is of: those that it may use."""
    clock_jump_nanoseconds: Integer = 0
    """The largest change between the wall clock and the monotonic clock from one second to the \
next."""


class WorkerShare(Document):
    """What one worker of a fleet did in a step."""

    worker: Count
    """From 0."""
    node: str = ""
    queries: Count
    """Answered or failed within the window."""
    start_offset_nanoseconds: Integer
    """When it began its schedule, from the moment that was agreed, by the master's clock."""
    clock_offset_nanoseconds: Integer
    """Its clock less the master's, measured by an exchange of time stamps before the step."""
    clock_uncertainty_nanoseconds: Count
    """How far that may be off: half the shortest round trip; 0 where both share one clock."""
    client_cpu_seconds: float
    client: ClientHealth | None = None
    """What became of it; absent where it had no part in the step, or was lost."""
    lost: bool = False
    """Whether it was lost before the step's end."""
    loss_reason: str = ""
    """What became of it, where it was lost: words without a period."""


class Step(Document):
    """One measurement at one setting: a whole scenario, or one of its batch sizes or probes."""

    label: str
    """The setting in words: "batch 8"; empty where the scenario has one step."""
    batch_size: Count = 1
    """Samples in each request."""
    seed: Count | None = None
    """Of its schedule, where it is not the scenario's."""
    clients: Count | None = None
    """Queries kept outstanding, in closed loops."""
    connections: Count | None = None
    """Connections to each server, of all workers together."""
    started_at: Timestamp
    warm_up_nanoseconds: Count
    warm_up_queries: Count = 0
    """Queries before the window, not measured."""
    duration_nanoseconds: Count
    """The measured window: in closed loops from its first query to the answer with which both \
minimums hold (in `offline` to the last answer, or to its maximum duration), in open-loop \
scenarios the part of the schedule that is measured."""
    drain_nanoseconds: Count = 0
    """From the window's end to the last reply, where queries are awaited after it: in open-loop \
scenarios and `concurrency`, and where the maximum duration ended the window of a closed loop."""
    ended_early: bool = False
    """Whether the step ended before both minimums were reached or, of a trace, before its last \
arrival."""
    counts: Counts
    scheduled_qps: float | None = None
    """The rate of the schedule within the window, in open-loop scenarios."""
    achieved_qps: float
    """Queries answered per second of the window and, in open-loop scenarios, of its drain."""
    achieved_samples_per_second: float
    """Inferences answered per second, over the same time."""
    latency: Distribution | None = None
    """From the scheduled time in open-loop scenarios, else from the send, to the whole reply. \
Absent where no query was answered."""
    longest_silence_nanoseconds: Count | None = None
    """The longest time within the window in which no query was answered, failures being no \
answers. In closed loops; of a fleet those of less than half a second may be missing."""
    service_time: Distribution | None = None
    """From the send to the whole reply, in open-loop scenarios."""
    dispatch_lag: Distribution | None = None
    """From the scheduled time to the moment the load generator took the query up."""
    windows: list[Window] = Field(default_factory=list)
    usage: list[UsageSample] = Field(default_factory=list)
    server_cpu_seconds: float | None = None
    client_cpu_seconds: float = 0.0
    error_examples: list[ErrorExample] = Field(default_factory=list)
    energy: Energy
    telemetry: list[NodeTelemetry] = Field(default_factory=list)
    """One for each node with an agent that servers run on."""
    early_stopping: EarlyStopping | None = None
    """Of the percentile that the scenario is judged by; absent where it has none."""
    client: ClientHealth = Field(default_factory=ClientHealth)
    workers: list[WorkerShare] = Field(default_factory=list)
    """One for each worker of a fleet."""


def whole_windows(step: Step) -> list[Window]:
    """Return the windows of at least the full length, the last with the rest that joined it.

    Those that begin after the window's end are left out: there the load is only what is left.
    """
    return [
        each
        for each in step.windows
        if each.duration_milliseconds >= step.windows[0].duration_milliseconds
        and each.start_milliseconds * 1_000_000 < step.duration_nanoseconds
    ]


class Finding(Document):
    """One rule that was broken, or one condition under which the figures hold."""

    rule: str
    """Its name in the documentation: MinDuration, ErrorRate, ..."""
    message: str
    """A sentence with the figure, the limit and what to do."""
    figure: str
    limit: str
    step: str = ""
    """The label of the step it speaks of; empty: the whole scenario."""


class Verdict(Document):
    """Whether the figures can be trusted and what was asked was met."""

    state: VerdictState
    reasons: list[Finding] = Field(default_factory=list)
    """Why it is INVALID."""
    cautions: list[Finding] = Field(default_factory=list)
    """Conditions of the figures; they do not change the verdict."""


class ScenarioResult(Document):
    """What was found for one scenario (and repeat)."""

    name: str
    kind: str
    """singleStream, server, batch, ..."""
    repeat: Annotated[int, Field(ge=1), Integral] = 1
    seed: Count
    """The seed of its schedule and inputs."""
    steps: list[Step]
    verdict: Verdict
    peak: Peak | None = None
    """What `findPeak` found."""
    knee: Knee | None = None
    """Of `concurrency`; absent where no step was answered."""


class Outcome(Document):
    """How the run ended."""

    state: OutcomeState
    reason: str
    """One CamelCase word: Measured, ServerDied, Interrupted, ..."""
    message: str = ""
    """What was asked, what was found, what to do; with the server's last lines where it died."""


class ResultDocument(Document):
    """Everything that was found in one run, and under which conditions."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    kind: Literal["BenchmarkResult"]
    schema_version: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*\.[0-9]+$")]
    """Version of this format, as MAJOR.MINOR."""
    run_id: str
    """Unique for each execution."""
    inferometer_version: str
    started_at: Timestamp
    finished_at: Timestamp
    first_query_at: Timestamp | None = None
    """When the first query was sent, warm-up included. Absent if none was sent."""
    outcome: Outcome
    run: BenchmarkRun
    """What was asked, with every default filled in."""
    environment: Environment | None = None
    """Absent where the run ended before the server was ready."""
    scenarios: list[ScenarioResult] = Field(default_factory=list)
    """What was measured, in order; where the run did not complete, what was measured until then."""
    repeat_summaries: list[RepeatSummary] = Field(default_factory=list)
    """Of each scenario that was measured more than once, what its repeats say together."""

    @property
    def valid(self) -> bool:
        """Whether the run is complete and every scenario is VALID."""
        return self.outcome.state == "Complete" and all(
            scenario.verdict.state == "VALID" for scenario in self.scenarios
        )
