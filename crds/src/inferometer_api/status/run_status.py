"""The status of a BenchmarkRun, during the run and afterwards."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import (
    Count,
    DnsLabel,
    DnsSubdomain,
    Document,
    Integral,
    Sha256,
    Timestamp,
)
from inferometer_api.rules import Unique

ConditionType = Literal[
    "Accepted", "ServerReady", "Measuring", "Complete", "Valid", "Failed", "Finished", "Stored"
]
Phase = Literal["Pending", "Queued", "Suspended", "Starting", "Measuring", "Complete", "Failed"]
Attribution = Literal["dedicated", "shared", "node", "estimated", "unavailable"]

MOST_STEPS = 32
"""Steps of a scenario: batch sizes, or numbers of clients."""
_Message = Annotated[str, Field(max_length=4096)]
_Shown = Annotated[str, Field(max_length=64)]


class Condition(Document):
    """One aspect of the run's state, as in every Kubernetes API."""

    type: ConditionType
    """Which aspect of the state."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    observed_generation: Count | None = None
    """The metadata.generation that the condition is based on."""

    last_transition_time: Timestamp
    """When its status last changed."""

    reason: Annotated[str, StringConstraints(max_length=253, pattern=patterns.REASON)]
    """Why, as one CamelCase word. docs/reference/conditions.md lists them all."""

    message: _Message = ""
    """What happened, why, and what to do."""


class Display(Document):
    """Columns of `kubectl get`, with the figures of one step of one scenario."""

    scenario: _Shown | None = None
    """The scenario's name."""

    step: _Shown | None = None
    """Step of the scenario that the figures belong to. Absent if there is one step."""

    valid: _Shown | None = None
    """Verdict of the whole run: VALID or INVALID, as in the condition Valid. Absent while there \
is none, and if the run did not complete."""

    qps: _Shown | None = None
    """Queries per second of the step."""

    p99: _Shown | None = None
    """99th percentile of the step's latency, with unit."""

    joules_per_inference: _Shown | None = None
    """Energy per inference in the step, with unit."""

    nodes: _Shown | None = None
    """Nodes of the servers; if there are many, the first and how many more."""


class ServedStepSummary(Document):
    """One step of the manifest in the server."""

    step: _Shown
    """Its name, such as decode."""

    mean_microseconds: Count
    """Mean per request, in us."""

    share_millionths: Count
    """Share of the mean latency, in millionths; without latencies share of the mean time in the \
server."""


class ServerTimeSummary(Document):
    """Where the servers spent the time of their requests: means per request within the window."""

    queue_microseconds: Count
    """Waiting for the model, in us."""

    compute_input_microseconds: Count
    """Reading, joining and copying inputs, in us."""

    compute_infer_microseconds: Count
    """Running the model, in us."""

    compute_output_microseconds: Count
    """Copying and writing outputs, in us."""

    steps: list[ServedStepSummary] = Field(default_factory=list, max_length=32)
    """Steps around the model, in their order, with `pipeline: Server`."""


class StepSummary(Document):
    """Figures of one step of a scenario."""

    step: _Shown
    """Its name, such as clients 4."""

    achieved_milli_qps: Count | None = None
    """Answered queries per 1,000 s. Absent if the scenario schedules the rate."""

    p50_microseconds: Count | None = None
    """Median latency, in us."""


class ScenarioSummary(Document):
    """Figures and verdict of one scenario."""

    name: DnsLabel
    """The scenario's name."""

    repeat: Annotated[int, Field(ge=1, le=100), Integral] = 1
    """Which repeat of the scenario, counted from 1."""

    verdict: Literal["VALID", "INVALID"]
    """VALID if the figures can be trusted and the scenario met its requirements."""

    reasons: list[_Message] = Field(default_factory=list, max_length=16)
    """Why the scenario is INVALID: one sentence each."""

    reason_rules: list[_Shown] = Field(default_factory=list, max_length=16)
    """Names of the violated rules, in the order of the reasons. docs/how-to/invalid.md has a \
section for each."""

    cautions: list[_Message] = Field(default_factory=list, max_length=16)
    """Conditions under which the figures hold: one sentence each."""

    step: _Shown = ""
    """Step that the counts, rates, latencies and energy belong to: in concurrency the knee, in \
findPeak the probe at the peak, otherwise the step with the most samples per second. Empty if \
there is one step, or if the scenario has no such step."""

    steps: list[StepSummary] = Field(default_factory=list, max_length=MOST_STEPS)
    """Figures of each step, which the gate of a suite judges. Empty if there is one step, in \
findPeak, and if the status of the run would become too large."""

    peak_milli_qps: Count | None = None
    """Rate at which the percentile reaches the bound, in queries per 1,000 s; only in findPeak."""

    queries: Count | None = None
    """Queries measured in the step. Absent if the scenario has no such step."""

    errors: Count | None = None
    """Queries of the step that failed."""

    total_queries: Count | None = None
    """Queries measured in all steps. Absent if there is one step."""

    total_errors: Count | None = None
    """Queries of all steps that failed. Absent if there is one step."""

    achieved_milli_qps: Count | None = None
    """Answered queries per 1,000 s."""

    scheduled_milli_qps: Count | None = None
    """Scheduled queries per 1,000 s, in open-loop scenarios."""

    p50_microseconds: Count | None = None
    """Median latency, in us."""

    p90_microseconds: Count | None = None
    """90th percentile of the latency, in us."""

    p99_microseconds: Count | None = None
    """99th percentile of the latency, in us."""

    p999_microseconds: Count | None = None
    """99.9th percentile of the latency, in us."""

    server_time: ServerTimeSummary | None = None
    """Where the servers spent the time of the step's requests. Absent if a server lacks the \
statistics extension."""

    cold_start_microseconds: Count | None = None
    """From the creation of the server to its first answer, in us; only in coldStart."""

    first_answer_microseconds: Count | None = None
    """Latency of the first query of a new server, in us; only in coldStart."""

    microjoules_per_inference: Count | None = None
    """Energy per inference (sample) in uJ, including idle power."""

    net_microjoules_per_inference: (
        Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1), Integral] | None
    ) = None
    """Energy per inference (sample) in uJ, without the share of the idle power."""

    energy_attribution: Attribution | None = None
    """What the energy figures cover."""


class ExportedResult(Document):
    """Where the result was exported to (`retention.export`)."""

    uri: Annotated[str, Field(max_length=2048)]
    """Address of the exported result document. The other files of the run are next to it, and \
files.json lists all with their checksums."""

    sha256: Sha256
    """SHA-256 of the exported document."""

    bytes: Count = 0
    """Size of the exported document, in bytes."""


class StoredResult(Document):
    """Where the cluster's results service keeps the result."""

    id: Annotated[str, Field(max_length=64)]
    """ID of the result, for `kubectl inferometer results show`."""

    url: Annotated[str, Field(max_length=2048)]
    """Permanent address of its page. `kubectl inferometer web` serves it, unless the operator's \
admin has set another address."""


class ResultReference(Document):
    """Location of the result document."""

    config_maps: list[DnsSubdomain] = Field(default_factory=list, max_length=16)
    """ConfigMaps with the parts of the document, in order. Empty if it is only exported, and once \
it is stored."""

    sha256: Sha256 | None = None
    """SHA-256 of the document in the ConfigMaps or in the results service."""

    bytes: Count = 0
    """Size of the document in the ConfigMaps or in the results service, in bytes."""

    stored: StoredResult | None = None
    """The copy in the results service, if the cluster has one."""

    exported: ExportedResult | None = None
    """The copy in the store or on the claim of `retention.export`."""


class NodeWait(Document):
    """What a run that found no nodes for its pods has tried."""

    attempts: Count
    """How often the pods found no nodes, and were deleted."""

    since: Timestamp
    """When the first attempt began."""

    retry_time: Timestamp | None = None
    """When the operator tries again, at the latest. Absent once the run may take its next turn."""


class RunStatus(Document):
    """The state and the figures of the run. Written by the operator."""

    observed_generation: Count | None = None
    """The metadata.generation that the status is based on."""

    phase: Phase | None = None
    """A summary of the conditions."""

    conditions: Annotated[list[Condition], Unique("type")] = Field(
        default_factory=list, max_length=16
    )
    """State of the run, with reasons. Finished is True once the run is over."""

    operator: Annotated[str, Field(max_length=317)] | None = None
    """Namespace and name of the Lease of the operator that carries the run out: NAMESPACE/NAME."""

    operator_renew_time: Timestamp | None = None
    """When an operator that serves every namespace last confirmed that it carries the run out. \
Renewed every 4 min after the run has begun, for operators that may not read its Lease."""

    start_time: Timestamp | None = None
    """When the run left the queue and its first object was created. Removed when the run goes \
back to the queue (suspended, or no nodes found); spec.activeDeadlineSeconds then counts anew."""

    waiting_for_nodes: NodeWait | None = None
    """Attempts that found no nodes. Absent if the first one did."""

    completion_time: Timestamp | None = None
    """When the run was over."""

    progress_percent: Annotated[int, Field(ge=0, le=100), Integral] | None = None
    """Progress of the measurement, in percent."""

    nodes: list[DnsSubdomain] = Field(default_factory=list, max_length=16)
    """Nodes that the servers ran on, if known."""

    display: Display | None = None
    """Columns of `kubectl get`. While the run measures, they show the current scenario; \
afterwards the headline scenario: the first findPeak, else the first concurrency, else the first \
scenario. Of an INVALID run they show the headline of its INVALID scenarios."""

    scenarios: list[ScenarioSummary] = Field(default_factory=list, max_length=3200)
    """Figures and verdict of each measured scenario."""

    result: ResultReference | None = None
    """Location of the result document."""
