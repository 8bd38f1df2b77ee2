"""What was found over several measurements of a scenario: its peak, its knee, its repeats?"""

from typing import Literal

from pydantic import Field

from inferometer_api.document import Count, Document


class Probe(Document):
    """One rate that `findPeak` tried, and what came of it; its figures are the step's."""

    step: str
    """The label of its step."""
    seed: Count
    """Of its schedule: each probe has its own."""
    target_qps: float
    within_bound: bool
    """Whether the percentile kept the bound at this rate."""
    decided_by: Literal["Overshoots", "EnoughQueries", "Unfinished", "Errors"]
    """Overshoots: more queries exceeded the bound than the query limit allows. EnoughQueries: so \
many queries kept the bound that early stopping passes. Unfinished: neither happened within the \
probe's time, `withinBound` is false, and the share of queries over the bound decides the next \
rate. Errors: too many queries failed."""
    ran_to_completion: bool = False
    """Whether it ran to its last query, though it may have been decided before: the peak is
estimated from these, but for the pilots."""
    pilot: bool = False
    """Whether it only told at which two rates the peak was to be estimated."""
    queries: Count
    overshoots: Count


class Peak(Document):
    """The highest rate whose percentile latency keeps the bound, and how well it is known."""

    percentile: float
    latency_bound_nanoseconds: Count
    qps: float | None = None
    """The rate at which the percentile is just at the bound, estimated over all whole probes but
the pilots; absent where they do not tell."""
    low_qps: float | None = None
    """The bracket's lower end. Without `qps` a rate that kept the bound, below all whole probes
that did not."""
    high_qps: float | None = None
    """The bracket's upper end. Without `qps` a rate that did not keep it, above all whole probes
that did; absent where there is none."""
    confidence: float | None = None
    """How often brackets found like this one hold the peak: 0.95. Absent where the probes do not
bound it, or saw too few bursts of overshoots to know how much they differ by chance."""
    step: str | None = None
    """The label of the probe nearest to the peak, by which the search is judged."""
    stop_reason: Literal[
        "Resolved",
        "Indistinguishable",
        "CannotBeMet",
        "ProbesTooShort",
        "OutOfTime",
        "EndedEarly",
    ]
    """Resolved: the bracket is within 1 %; Indistinguishable: two probes at its ends would differ
by chance alone, or, without a confidence, all probes together do not bound the peak, or, without
qps, contradict one another; CannotBeMet: the bound is below the service time, or no probe kept it
down to 1/200 of the closed-loop throughput; ProbesTooShort: a probe kept it at more than 2.5 times
that throughput, which no server answers for long; OutOfTime: the scenario's maximum duration was
reached; EndedEarly: something else ended it."""
    closed_loop_qps: float | None = None
    """The throughput of closed-loop clients, by which the search began."""
    service_time_nanoseconds: Count | None = None
    """The percentile of the latency with one query outstanding."""
    probes: list[Probe] = Field(default_factory=list)


class Knee(Document):
    """The number of clients beyond which a server gives much latency for little throughput."""

    step: str
    """The label of the step."""
    clients: Count
    qps: float
    p99_nanoseconds: Count | None = None
    last_step: bool = False
    """Whether it is the last step, so that the knee may lie beyond it."""


class RepeatFigure(Document):
    """One figure over the repeats of a scenario."""

    name: str
    """Of the figure, as in a step: achievedQps, p99Nanoseconds."""
    step: str = ""
    """The label of the step it is of; empty where a scenario has one."""
    values: list[float]
    """By repeat."""
    mean: float
    low: float | None = None
    """Lower bound of the mean's 95 % confidence interval (Student's t); absent below 2 repeats."""
    high: float | None = None
    coefficient_of_variation: float | None = None
    """Standard deviation over mean."""


class RepeatSummary(Document):
    """What the repeats of one scenario say together."""

    name: str
    """Of the scenario."""
    repeats: Count
    """How many were measured."""
    figures: list[RepeatFigure] = Field(default_factory=list)
    advice: str = ""
    """Sentences: how many repeats were cut short and left out, how many are INVALID, and how many \
it takes, where these are too few for an interval within 5 % of the mean."""
