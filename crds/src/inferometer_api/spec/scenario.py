"""Which load profile is driven, and for how long must it hold?"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints
from typing_extensions import override

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


class LoadProfile(Document):
    """The member of a scenario that selects its kind and holds its settings."""

    @property
    def request_batch_sizes(self) -> tuple[int, ...]:
        """How many samples its requests carry, in the order of its steps."""
        return (1,)

    @property
    def data_uri(self) -> str | None:
        """Where its data file comes from; None if it needs none."""
        return None


class SingleStream(LoadProfile):
    """One query of one sample at a time, the next as soon as the last is answered."""


class ServerLoad(LoadProfile):
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


class Batch(LoadProfile):
    """One query at a time, of each batch size in turn."""

    batch_sizes: Annotated[list[_BatchSize], Field(min_length=1, max_length=32), Unique()]
    """Samples per query. Each size gets an equal share of both minimums, and at least 10 \
queries."""

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("batchSizes"),)

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The size of each step."""
        return tuple(self.batch_sizes)


class MultiStream(LoadProfile):
    """One query of several samples at a time."""

    samples_per_query: _BatchSize = 8
    """Samples in each query."""

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The one size."""
        return (self.samples_per_query,)


class Probe(Document):
    """How long one probe of findPeak may take."""

    min_queries: Annotated[int, Field(ge=10, le=100_000_000), Integral] = 1024
    """The query limit: how many queries a whole probe has; other probes end as soon as they are \
decided. Raised to what early stopping needs at least, 459 for P99 and 4,603 for P99.9."""

    max_seconds: Annotated[int, Field(ge=1, le=86_400), Integral] = 60
    """Seconds after which a probe ends, decided or not."""


class FindPeak(LoadProfile):
    """Searches the highest rate whose percentile latency keeps the bound."""

    latency_bound_microseconds: _LatencyBound
    """The latency that the percentile must keep."""

    percentile: Percentile = "P99"
    """The percentile that must keep the bound."""

    probe: Probe = Field(default_factory=Probe)
    """How long one probe may take."""


class Concurrency(LoadProfile):
    """A number of clients, each with one query outstanding, for each number in turn."""

    clients: Annotated[
        list[Annotated[int, Field(ge=1, le=100_000), Integral]],
        Field(min_length=1, max_length=32),
        Unique(),
    ]
    """Clients of each step."""

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("clients"),)


class Offline(LoadProfile):
    """All samples at once, batched: the server's throughput."""

    samples: Annotated[int, Field(ge=1, le=1_000_000_000), Integral] = 24_576
    """Samples, sent once."""

    batch_size: _BatchSize = 1
    """Samples per request."""

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The one size."""
        return (self.batch_size,)


class Burst(LoadProfile):
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


class Trace(LoadProfile):
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

    @property
    @override
    def data_uri(self) -> str:
        """The address of the recorded arrival times."""
        return self.uri


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
        """The wire name of the member that is set."""
        return self._member[0]

    @property
    def profile(self) -> LoadProfile:
        """The member that is set."""
        return self._member[1]

    @property
    def _member(self) -> tuple[str, LoadProfile]:
        members = (
            (field.alias or name, getattr(self, name))
            for name, field in Scenario.model_fields.items()
        )
        return next((name, each) for name, each in members if isinstance(each, LoadProfile))


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
