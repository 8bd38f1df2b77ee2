"""The status of a BenchmarkSuite: counts, cells in work, best and worst cells, the gate."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import Count, DnsLabel, DnsSubdomain, Document, Integral, Timestamp
from inferometer_api.rules import Unique

SuiteConditionType = Literal["Accepted", "Complete", "Failed", "Gate", "Finished"]
SuitePhase = Literal["Pending", "Scheduled", "Suspended", "Running", "Complete", "Failed"]
SuiteReason = Literal[
    "Accepted",
    "InvalidSpec",
    "NotAvailable",
    "SpecChanged",
    "Running",
    "Suspended",
    "Scheduled",
    "CreationRefused",
    "StoreUnreachable",
    "StatusRefused",
    "Complete",
    "SomeFailed",
    "StoppedAfterFailure",
    "Cancelled",
    "Pass",
    "Fail",
    "Inconclusive",
    "CouldNotRun",
    "Advisory",
]
"""Reasons of a suite's conditions; `SUITE_REASONS` explains each."""
SUITE_REASONS: dict[SuiteReason, str] = {
    "Accepted": "Every cell is a valid run.",
    "InvalidSpec": "A cell would be no valid run, or the schedule has no times. Nothing was "
    "started; the message names the cell.",
    "NotAvailable": "The suite requires what this operator does not do, or may not read: the "
    "message names it.",
    "SpecChanged": "The cells are not those with which the suite started. Create a new suite.",
    "Running": "Cells are measured.",
    "Suspended": "spec.suspend is true: no run is started.",
    "Scheduled": "The suite waits for the next time of its schedule.",
    "CreationRefused": "The API server does not accept a run now; the operator tries again. The "
    "message has its words.",
    "StoreUnreachable": "spec.reuse is true, and the results service does not show which results "
    "are stored. Nothing is started until it does; the operator tries again.",
    "StatusRefused": "The API server refuses the whole status, with the words in the message. The "
    "suite continues, and the status shows a minimum. Correct what the message names: an older "
    "CustomResourceDefinition, or a policy.",
    "Complete": "Every run is complete. INVALID runs are counted in status.cells.",
    "SomeFailed": "Runs failed or were deleted. They are not repeated: create a new suite for "
    "them.",
    "StoppedAfterFailure": "A run failed, and spec.onFailure is Stop.",
    "Cancelled": "spec.cancel is true.",
    "Pass": "No cell is slower than the baseline by more than the gate allows.",
    "Fail": "At least one cell is shown to be slower: status.gate.slower.",
    "Inconclusive": "It is not shown whether a cell is slower. Do what status.gate.reasons says.",
    "CouldNotRun": "Runs failed, were deleted, skipped or reused, or there is no baseline yet.",
    "Advisory": "Fewer than 20 A/A pairs of the anchor exist on a class of nodes. The outcome in "
    "status.gate is a hint.",
}
"""What each reason means."""
GateOutcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "CouldNotRun"]

MOST_PLANNED = 3000
"""Runs with those of the anchor: two for each block, and a block has a cell at least."""
MOST_PAIRS = 64
"""Newest pairs of anchors that are kept of a node class."""
_Message = Annotated[str, Field(max_length=1024)]
_Shown = Annotated[str, Field(max_length=253)]
_System = Annotated[str, Field(max_length=317)]
_Ratio = Annotated[int, Field(ge=0, le=2**31 - 1), Integral]


class SuiteCondition(Document):
    """One aspect of the suite's state."""

    type: SuiteConditionType
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


class CellCounts(Document):
    """How many runs are in which state, those of the anchor included."""

    planned: Count = 0
    """Runs that the suite consists of."""

    active: Count = 0
    """Runs that were created and are not over."""

    valid: Count = 0
    """Complete runs whose scenarios are all VALID."""

    invalid: Count = 0
    """Complete runs with an INVALID scenario."""

    failed: Count = 0
    """Runs that failed."""

    deleted: Count = 0
    """Runs that were deleted before they were over. They are not repeated."""

    skipped: Count = 0
    """Runs that will not be started, because the suite has ended before."""

    reused: Count = 0
    """Runs that are not measured: a stored VALID result is equal (spec.reuse)."""


class CurrentRun(Document):
    """A run that is not over."""

    run: DnsSubdomain
    """Name of the BenchmarkRun."""

    cell: _Shown
    """Its cell and system."""


class ReusedCell(Document):
    """A run that is not measured, because a stored result is equal."""

    run: DnsSubdomain
    """Name that the run would have."""

    cell: _Shown
    """Its cell and system."""

    result: Annotated[str, Field(max_length=64)]
    """ID of the stored result."""


class CellFigure(Document):
    """A figure of one cell."""

    cell: _Shown
    """The cell and its system."""

    run: DnsSubdomain
    """Name of the BenchmarkRun."""

    p50_microseconds: Count | None = None
    """Median latency, in us."""

    p99_microseconds: Count | None = None
    """99th percentile of the latency, in us."""

    achieved_milli_qps: Count | None = None
    """Answered queries per 1,000 s."""


class ScenarioRange(Document):
    """The best and the worst cell of a scenario, by its rate or else its median latency."""

    name: DnsLabel
    """The scenario's name."""

    best: CellFigure | None = None
    """The cell with the best figure, of VALID ones. Absent if they cannot be ranked."""

    worst: CellFigure | None = None
    """The cell with the worst figure, of VALID ones. Absent if they cannot be ranked."""

    unranked: _Message = ""
    """Why the cells cannot be ranked: engines or precisions differ, and an accuracy is missing."""


class JudgedCell(Document):
    """A figure of a cell, compared with the baseline's."""

    cell: _Shown
    """The cell and its system."""

    scenario: DnsLabel
    """The scenario's name."""

    step: Annotated[str, Field(max_length=64)] = ""
    """The step of the scenario, such as clients 4; empty if there is one, and of a peak."""

    figure: Annotated[str, Field(max_length=16)]
    """qps or p50."""

    ratio_parts_per_million: _Ratio
    """The figure divided by the baseline's."""

    low_parts_per_million: _Ratio
    """Lower bound of the ratio."""

    high_parts_per_million: _Ratio
    """Upper bound of the ratio."""


class GateStatus(Document):
    """What the gate decided."""

    outcome: GateOutcome
    """PASS, FAIL, INCONCLUSIVE or CouldNotRun, by the rules of `inferometer compare`. Each step \
of each scenario is judged."""

    armed: bool
    """Whether 20 A/A pairs of the anchor exist on each class of nodes on which anchors ran or \
cells are judged. Before that the outcome is advisory: the condition Gate is Unknown."""

    judged: Count = 0
    """Figures that were compared: of each step of each cell the rate, unless the scenario fixes \
it, and the median latency; of findPeak the rate at the peak alone."""

    detectable_parts_per_million: _Ratio | None = None
    """The smallest slow-down that such a suite shows with a probability of 0.8 in every figure, \
if the true scatter of its runs is the one that these suggest."""

    slower: Annotated[list[JudgedCell], Field(max_length=20)] = Field(default_factory=list)
    """Figures that are shown to be slower: the 20 worst, the worst first."""

    slower_count: Count | None = None
    """How many figures are shown to be slower. Absent in outcomes of older versions."""

    reasons: Annotated[list[_Message], Field(max_length=10)] = Field(default_factory=list)
    """Why it is not shown that no cell is slower: one sentence each. The last may count others."""

    invalid_blocks: Annotated[list[_Shown], Field(max_length=50)] = Field(default_factory=list)
    """Blocks that do not count: their two runs of the anchor drifted apart, are not both VALID, \
or were on two nodes. The last may count others."""


class AnchorPairs(Document):
    """The A/A pairs of the anchor on one class of nodes."""

    node_class: Annotated[str, Field(min_length=1, max_length=253)]
    """The class: the value of the systems' label, the instance type, or the node."""

    cell: Annotated[str, Field(max_length=63)] = ""
    """The anchor's cell: the value of the label inferometer.dev/suite-cell of its runs."""

    spec_digest: Annotated[str, Field(max_length=16)] = ""
    """The digest of that cell's spec: the value of the label inferometer.dev/suite-spec."""

    ratios_parts_per_million: Annotated[list[_Ratio], Field(max_length=MOST_PAIRS)] = Field(
        default_factory=list
    )
    """The anchor's median latency at the end of a block divided by that at its begin, newest \
last."""


class SuiteDisplay(Document):
    """Columns of `kubectl get`."""

    cells: Annotated[str, Field(max_length=64)] = ""
    """Runs that are over, of those planned: 37/60."""

    problems: Annotated[str, Field(max_length=64)] = ""
    """Failed, INVALID and deleted runs."""

    gate: Annotated[str, Field(max_length=64)] = ""
    """Outcome of the gate."""


class SuiteStatus(Document):
    """The state of the suite. Written by the operator."""

    observed_generation: Count | None = None
    """The metadata.generation that the status is based on."""

    phase: SuitePhase | None = None
    """A summary of the conditions."""

    conditions: Annotated[list[SuiteCondition], Unique("type")] = Field(
        default_factory=list, max_length=8
    )
    """State of the suite, with reasons. Finished is True once the suite is over."""

    operator: Annotated[str, Field(max_length=317)] | None = None
    """Namespace and name of the Lease of the operator that carries the suite out."""

    start_time: Timestamp | None = None
    """When the cells were planned."""

    completion_time: Timestamp | None = None
    """When the suite was over."""

    plan_sha256: (
        Annotated[str, StringConstraints(pattern=patterns.SHA256, max_length=64)] | None
    ) = None
    """Checksum of the planned runs. They are fixed once the suite has started."""

    systems: Annotated[list[_System], Field(max_length=200)] = Field(default_factory=list)
    """Systems on which the cells are measured, found when the suite started: nodes, or values of \
the label, with =NODE if one node stands for a value."""

    cells: CellCounts | None = None
    """How many runs are in which state."""

    states: Annotated[str, Field(max_length=MOST_PLANNED)] = ""
    """The state of each planned run, one letter each, in the order of `inferometer suite plan`: \
. waits, a active, V VALID, I INVALID, F failed, D deleted, S skipped, R reused."""

    current: Annotated[list[CurrentRun], Field(max_length=20)] = Field(default_factory=list)
    """Runs that are not over."""

    reused: Annotated[list[ReusedCell], Field(max_length=20)] = Field(default_factory=list)
    """Runs for which a stored result stands: the first 20. The suite's page has all."""

    scenarios: Annotated[list[ScenarioRange], Field(max_length=32)] = Field(default_factory=list)
    """The best and the worst cell of each scenario."""

    gate: GateStatus | None = None
    """What the gate decided. Absent without a gate, and until the suite is over."""

    anchors: Annotated[list[AnchorPairs], Field(max_length=100)] = Field(default_factory=list)
    """A/A pairs of the anchor, by class of nodes; a schedule keeps those of its executions."""

    last_schedule_time: Timestamp | None = None
    """The time of the schedule for which the last execution was created."""

    next_schedule_time: Timestamp | None = None
    """The next time of the schedule."""

    execution: DnsSubdomain | None = None
    """Name of the execution that was created last: a BenchmarkSuite."""

    counted_execution: DnsSubdomain | None = None
    """Name of the execution whose A/A pairs were added last."""

    page: Annotated[str, Field(max_length=1024)] | None = None
    """Address of the suite's page in the results service, once that has its outcome."""

    left_out: Annotated[str, Field(max_length=512)] = ""
    """What this status leaves out of its lists, since it has at most 64 KiB: counts of each."""

    display: SuiteDisplay | None = None
    """Columns of `kubectl get`."""
