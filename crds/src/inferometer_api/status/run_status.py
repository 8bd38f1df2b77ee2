"""What does a BenchmarkRun's status tell while it runs and afterwards?"""

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
    "Accepted", "ServerReady", "Measuring", "Complete", "Valid", "Failed", "Finished"
]
Phase = Literal["Pending", "Queued", "Suspended", "Starting", "Measuring", "Complete", "Failed"]
Attribution = Literal["dedicated", "shared", "node", "estimated", "unavailable"]

_Message = Annotated[str, Field(max_length=4096)]
_Shown = Annotated[str, Field(max_length=64)]


class Condition(Document):
    """One observation of the run's state, as in every Kubernetes API."""

    type: ConditionType
    """Which observation."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    observed_generation: Count | None = None
    """The metadata.generation that it speaks of."""

    last_transition_time: Timestamp
    """When its status last changed."""

    reason: Annotated[str, StringConstraints(max_length=253, pattern=patterns.REASON)]
    """Why, in one CamelCase word; every one is in the documentation."""

    message: _Message = ""
    """What was asked, what was found, and what to do."""


class Display(Document):
    """Ready-to-read figures for `kubectl get`: of the scenario now running, else the last one."""

    scenario: _Shown | None = None
    """The scenario's name."""

    valid: _Shown | None = None
    """VALID, INVALID, or empty while nothing is judged."""

    qps: _Shown | None = None
    """Queries per second."""

    p99: _Shown | None = None
    """99th percentile of the latency, with its unit."""

    joules_per_inference: _Shown | None = None
    """Energy per inference, with its unit."""


class ScenarioSummary(Document):
    """What was found for one scenario."""

    name: DnsLabel
    """The scenario's name."""

    repeat: Annotated[int, Field(ge=1, le=100), Integral] = 1
    """Which repeat of the scenario."""

    verdict: Literal["VALID", "INVALID"]
    """Whether the figures can be trusted and what was asked was met."""

    reasons: list[_Message] = Field(default_factory=list, max_length=16)
    """Why it is INVALID: one sentence each."""

    cautions: list[_Message] = Field(default_factory=list, max_length=16)
    """Under which conditions the figures hold: one sentence each."""

    step: _Shown = ""
    """Which of several steps the rates, latencies and energy are of: that with the most samples \
per second; in concurrency the knee, in findPeak the probe at the peak. Empty where there is one \
step."""

    peak_milli_qps: Count | None = None
    """In findPeak the rate at which the percentile is just at the bound, in queries per 1,000 \
seconds."""

    queries: Count = 0
    """Queries measured."""

    errors: Count = 0
    """Queries that failed."""

    achieved_milli_qps: Count | None = None
    """Queries answered per 1,000 seconds."""

    scheduled_milli_qps: Count | None = None
    """Queries scheduled per 1,000 seconds, in open-loop scenarios."""

    p50_microseconds: Count | None = None
    """Median latency."""

    p90_microseconds: Count | None = None
    """90th percentile of the latency."""

    p99_microseconds: Count | None = None
    """99th percentile of the latency."""

    p999_microseconds: Count | None = None
    """99.9th percentile of the latency."""

    microjoules_per_inference: Count | None = None
    """Energy per inference (sample), gross: idle power included."""

    net_microjoules_per_inference: (
        Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1), Integral] | None
    ) = None
    """Energy per inference (sample) less the idle power's part."""

    energy_attribution: Attribution | None = None
    """What the energy covers."""


class ResultReference(Document):
    """Where the whole result document is kept."""

    config_maps: list[DnsSubdomain] = Field(default_factory=list, max_length=16)
    """ConfigMaps that hold its parts, in order."""

    sha256: Sha256 | None = None
    """SHA-256 of the document."""

    bytes: Count = 0
    """Size of the document."""


class RunStatus(Document):
    """What was found so far. Written by the operator alone."""

    observed_generation: Count | None = None
    """The metadata.generation that the status speaks of."""

    phase: Phase | None = None
    """A summary of the conditions."""

    conditions: Annotated[list[Condition], Unique("type")] = Field(
        default_factory=list, max_length=16
    )
    """What holds and why; Finished is True at every end."""

    start_time: Timestamp | None = None
    """When the run began: its turn had come, and its first child was asked for."""

    completion_time: Timestamp | None = None
    """When the run ended."""

    progress_percent: Annotated[int, Field(ge=0, le=100), Integral] | None = None
    """How far the measurement is."""

    nodes: list[DnsSubdomain] = Field(default_factory=list, max_length=16)
    """Names of the nodes that the servers ran on, where they are known."""

    display: Display | None = None
    """Ready-to-read figures for `kubectl get`."""

    scenarios: list[ScenarioSummary] = Field(default_factory=list, max_length=3200)
    """What was found, by scenario."""

    result: ResultReference | None = None
    """Where the whole result document is kept."""
