"""Which load profile is driven, and for how long must it hold?"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import Decimal, DnsLabel, Document, Integral
from inferometer_api.rules import Rule, Unique, exactly_one, same_order
from inferometer_api.spec import mlperf

Percentile = Literal["P50", "P90", "P95", "P97", "P99", "P99.9"]
_LatencyBound = Annotated[int, Field(ge=1, le=3_600_000_000), Integral]
_BatchSize = Annotated[int, Field(ge=1, le=4096), Integral]


def percentile_value(percentile: Percentile) -> float:
    """Return the number of a percentile's name: 99.9 for P99.9."""
    return float(percentile.removeprefix("P"))


class SingleStream(Document):
    """One query of one sample at a time, the next as soon as the last is answered."""


class ServerLoad(Document):
    """Queries of one sample by a schedule, whether or not the server keeps up (open loop)."""

    target_qps: Decimal
    """Queries per second, on average: 200 or "16.5", with at most 3 decimals."""

    arrivals: Literal["Poisson", "Constant"] = "Poisson"
    """Poisson: exponential gaps, as independent users make; Constant: equal gaps."""

    latency_bound_microseconds: _LatencyBound | None = None
    """The latency that the percentile must keep, counted from the scheduled time. Absent: no \
bound."""

    percentile: Percentile = "P99"
    """The percentile that must keep the bound."""


class Batch(Document):
    """One query at a time, of each batch size in turn."""

    batch_sizes: Annotated[list[_BatchSize], Field(min_length=1, max_length=32), Unique()]
    """Samples per query. Each size gets an equal share of both minimums, and at least 10 \
queries."""

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("batchSizes"),)


class MultiStream(Document):
    """One query of several samples at a time."""

    samples_per_query: _BatchSize = 8
    """Samples in each query."""


class Probe(Document):
    """How long one probe of findPeak may take."""

    min_queries: Annotated[int, Field(ge=10, le=100_000_000), Integral] = 1024
    """The query limit: how many queries a whole probe has; other probes end as soon as they are \
decided. Raised to what early stopping needs at least, 459 for P99 and 4,603 for P99.9."""

    max_seconds: Annotated[int, Field(ge=1, le=86_400), Integral] = 60
    """Seconds after which a probe ends, decided or not."""


class FindPeak(Document):
    """Searches the highest rate whose percentile latency keeps the bound."""

    latency_bound_microseconds: _LatencyBound
    """The latency that the percentile must keep."""

    percentile: Percentile = "P99"
    """The percentile that must keep the bound."""

    probe: Probe = Field(default_factory=Probe)
    """How long one probe may take."""


class Concurrency(Document):
    """A number of clients, each with one query outstanding, for each number in turn."""

    clients: Annotated[
        list[Annotated[int, Field(ge=1, le=100_000), Integral]],
        Field(min_length=1, max_length=32),
        Unique(),
    ]
    """Clients of each step."""

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("clients"),)


class Offline(Document):
    """All samples at once, batched: the server's throughput."""

    samples: Annotated[int, Field(ge=1, le=1_000_000_000), Integral] = 24_576
    """Samples, sent once."""

    batch_size: _BatchSize = 1
    """Samples per request."""


class Burst(Document):
    """Queries at a low rate with bursts at a high rate."""

    base_qps: Decimal
    """Queries per second between bursts."""

    burst_qps: Decimal
    """Queries per second within a burst."""

    burst_seconds: Annotated[int, Field(ge=1, le=86_399), Integral]
    """Length of a burst."""

    period_seconds: Annotated[int, Field(ge=2, le=86_400), Integral]
    """From the start of one burst to the start of the next; longer than a burst."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.burstSeconds < self.periodSeconds",
            message="burstSeconds must be less than periodSeconds: a burst ends before the next "
            "begins",
            holds=lambda burst: burst.burst_seconds < burst.period_seconds,
            field="burstSeconds",
        ),
    )


class Trace(Document):
    """Queries at recorded times."""

    uri: Annotated[
        str,
        StringConstraints(
            min_length=1,
            max_length=2048,
            pattern=patterns.DATA_URI,
        ),
    ]
    """A CSV file with one arrival time in seconds a line: `file:PATH` in local runs, \
`configmap://NAME/KEY`, `pvc://CLAIM/PATH`, `s3://BUCKET/KEY` or `https://...`. ConfigMaps and \
claims must carry the label inferometer.dev/allow-use=true."""

    time_scale: Decimal = "1"
    """Times are multiplied by it: "0.5" replays twice as fast."""


SCENARIO_KINDS = (
    "singleStream",
    "server",
    "batch",
    "multiStream",
    "findPeak",
    "concurrency",
    "offline",
    "burst",
    "trace",
)
"""The members of a scenario, of which exactly one is set."""


READ_FOR_THROUGHPUT = frozenset(("batch", "offline"))
"""The kinds whose figure is samples per second; the others are read by a latency."""


class Scenario(Document):
    """A named load profile. Set exactly one member beside the name."""

    name: DnsLabel
    """Name of the scenario, unique within the run."""

    single_stream: SingleStream | None = None
    """One query of one sample at a time: latency."""

    server: ServerLoad | None = None
    """Queries by a schedule, at a rate: latency under load."""

    batch: Batch | None = None
    """One query at a time, of each batch size in turn: throughput by batch size."""

    multi_stream: MultiStream | None = None
    """One query of several samples at a time."""

    find_peak: FindPeak | None = None
    """The highest rate whose latency keeps a bound: capacity."""

    concurrency: Concurrency | None = None
    """A sweep over the number of closed-loop clients."""

    offline: Offline | None = None
    """All samples at once: throughput."""

    burst: Burst | None = None
    """A low rate with bursts."""

    trace: Trace | None = None
    """Recorded arrival times."""

    constraints: ClassVar[tuple[Rule, ...]] = (exactly_one(SCENARIO_KINDS),)

    @property
    def kind(self) -> str:
        """Which member is set, by its wire name."""
        return next(
            field.alias or name
            for name, field in Scenario.model_fields.items()
            if name != "name" and getattr(self, name) is not None
        )

    @property
    def batch_sizes_sent(self) -> tuple[int, ...]:
        """How many samples its requests carry: one, unless the member set says otherwise."""
        if self.batch is not None:
            return tuple(self.batch.batch_sizes)
        if self.offline is not None:
            return (self.offline.batch_size,)
        if self.multi_stream is not None:
            return (self.multi_stream.samples_per_query,)
        return (1,)


class Validity(Document):
    """What must hold for each scenario."""

    rules: Literal["Default", "MLPerf"] = "Default"
    """MLPerf: also the minimums of MLPerf Inference for each scenario that it has."""

    warm_up: Literal["Fixed", "UntilSteady"] = "Fixed"
    """Fixed: warmUpSeconds; UntilSteady: until three windows differ by less than 10 %."""

    warm_up_seconds: Annotated[int, Field(ge=0, le=86_400), Integral] = 5
    """Seconds of the scenario's own load before the window, not measured."""

    min_duration_seconds: Annotated[int, Field(ge=1, le=604_800), Integral] = 60
    """A scenario is measured at least so long."""

    min_queries: Annotated[int, Field(ge=1, le=1_000_000_000), Integral] = 1024
    """A scenario has at least so many queries; in batch it counts samples."""

    max_duration_seconds: Annotated[int, Field(ge=1, le=604_800), Integral] = 600
    """Past it a scenario ends, INVALID where a minimum is not reached."""

    repeats: Annotated[int, Field(ge=1, le=100), Integral] = 1
    """How often each scenario is measured."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.minDurationSeconds <= self.maxDurationSeconds",
            message="minDurationSeconds must not exceed maxDurationSeconds: lower one or raise the "
            "other",
            holds=lambda validity: validity.min_duration_seconds <= validity.max_duration_seconds,
            field="minDurationSeconds",
        ),
        Rule(
            cel=f"self.rules != 'MLPerf' || self.maxDurationSeconds >= {mlperf.DURATION_SECONDS}",
            message=f"rules MLPerf measure each scenario for {mlperf.DURATION_SECONDS} s at least: "
            "raise maxDurationSeconds",
            holds=lambda validity: (
                validity.rules != "MLPerf"
                or validity.max_duration_seconds >= mlperf.DURATION_SECONDS
            ),
            field="maxDurationSeconds",
        ),
    )

    def raised(self, kind: str) -> "Validity":
        """Return what must hold for this kind of scenario: MLPerf's minimums where it has them.

        Only with `rules: MLPerf`. What `offline` sends at least is `mlperf.Minimums.samples`.
        """
        least = mlperf.mlperf_minimums(kind)
        if self.rules != "MLPerf" or least is None:
            return self
        return self.model_copy(
            update={
                "min_duration_seconds": max(self.min_duration_seconds, least.duration_seconds),
                "min_queries": max(self.min_queries, least.queries),
            }
        )
