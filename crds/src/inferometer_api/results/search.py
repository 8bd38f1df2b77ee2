"""Results over several measurements of a scenario: its peak, its knee and its repeats."""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Count, Document

RepeatScope = Literal["Server", "Load"]


class ProbeRecord(Document):
    """One rate that `findPeak` tried. The figures are in the step."""

    step: str
    """The label of its step."""
    seed: Count
    """Seed of its schedule; each probe has its own."""
    target_qps: float
    within_bound: bool | None = None
    """Whether the percentile kept the bound at this rate. Absent if the probe does not decide it: \
`probe.maxSeconds` cut it off before that, or its late queries are fewer than the percentile \
allows but more than early stopping does."""
    decided_by: Literal["Overshoots", "EnoughQueries", "Unfinished", "Errors"]
    """Overshoots: more queries exceeded the bound than the query limit allows, or, of a probe \
that was cut off, than chance explains (99 %). EnoughQueries: so many queries kept the bound that \
early stopping passes. Unfinished: `probe.maxSeconds` cut the probe off before either happened; \
the share of queries over the bound decides only the next rate. Errors: too many queries failed."""
    ran_to_completion: bool = False
    """Whether it ran to its last query, even if it was decided earlier. The peak is estimated \
from these probes, except pilots."""
    pilot: bool = False
    """Whether it only located the two rates at which the peak is estimated, or checked a rate \
above the bracket."""
    queries: Count
    overshoots: Count


class Peak(Document):
    """The highest rate within the latency bound, with its uncertainty."""

    percentile: float
    latency_bound_nanoseconds: Count
    qps: float | None = None
    """Rate at which the percentile reaches the bound, estimated from all completed probes except \
pilots. Absent if they do not determine it, or if it contradicts a probe that kept the bound."""
    low_qps: float | None = None
    """Lower end of the bracket. Without `confidence`: the highest rate at which a probe kept the \
bound, unless a later completed probe at that rate did not."""
    high_qps: float | None = None
    """Upper end of the bracket; no probe kept the bound above it. Without `confidence`: the \
lowest rate above `lowQps` at which a probe did not keep the bound; absent if there is none. The \
peak is not confirmed above it, but may be higher."""
    confidence: float | None = None
    """Probability that such a bracket contains the peak: 0.95. Absent if the probes do not bound \
the peak, saw too few overshoots to estimate their spread, or kept the bound at a rate far above."""
    step: str | None = None
    """Label of the probe nearest to the peak, which decides the verdict."""
    stop_reason: Literal[
        "Resolved",
        "Indistinguishable",
        "CannotBeMet",
        "ProbesTooShort",
        "ProbesCutOff",
        "OutOfTime",
        "EndedEarly",
    ]
    """Resolved: the bracket is within 1 %; Indistinguishable: two probes at its ends would differ
by chance alone, or, without a confidence, all probes together do not bound the peak, or, without
qps, contradict one another; CannotBeMet: the bound is below the service time, or no probe kept it
down to 1/200 of the closed-loop throughput; ProbesTooShort: a probe kept it at more than 2.5 times
that throughput, which no server answers for long; ProbesCutOff: `probe.maxSeconds` is too short
for a probe at the first rate, half that throughput, or at the next lower one; OutOfTime: the
scenario's maximum duration was reached; EndedEarly: something else ended it."""
    probe_queries: Count | None = None
    """Queries of a full probe: `probe.minQueries`, raised to the minimum of early stopping."""
    probe_max_seconds: Count | None = None
    """Seconds after which a probe was cut off: `probe.maxSeconds`."""
    max_duration_seconds: Count | None = None
    """Seconds after which the search was ended: `validity.maxDurationSeconds`."""
    closed_loop_qps: float | None = None
    """Throughput of closed-loop clients, with which the search started."""
    service_time_nanoseconds: Count | None = None
    """Percentile of the latency with one outstanding query."""
    probes: list[ProbeRecord] = Field(default_factory=list)


class Knee(Document):
    """Number of clients beyond which latency rises more than throughput."""

    step: str
    """The label of the step."""
    clients: Count
    qps: float
    p99_nanoseconds: Count | None = None
    last_step: bool = False
    """Whether it is the last step; then the knee may be at more clients."""


class RepeatFigure(Document):
    """One figure over the repeats of a scenario."""

    name: str
    """Name of the figure, as in a step: achievedQps, p99Nanoseconds."""
    step: str = ""
    """Label of the step; empty if the scenario has one step."""
    values: list[float]
    """One value per repeat."""
    mean: float
    """Geometric mean, as in `inferometer compare`; 0 if a value is 0."""
    low: float | None = None
    """Lower bound of the mean's 95 % confidence interval (Student's t of the logarithms); absent \
below 2 repeats, or if the interval is of no use."""
    high: float | None = None
    coefficient_of_variation: float | None = None
    """Standard deviation over arithmetic mean."""


class RepeatSummary(Document):
    """Summary of the repeats of one scenario."""

    name: str
    """Name of the scenario."""
    repeats: Count
    """Number of measured repeats."""
    scope: RepeatScope = "Load"
    """What each repeat began anew. Server: the server's processes, so that the intervals cover \
what differs between them. Load: the load alone, so that the intervals hold for one process."""
    figures: list[RepeatFigure] = Field(default_factory=list)
    advice: str = ""
    """How many repeats were cut short or INVALID, and how many are needed for an interval within \
5 % of the mean."""
