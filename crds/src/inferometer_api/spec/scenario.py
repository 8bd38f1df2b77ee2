"""The scenarios of a run, and the validity rules that apply to them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, StringConstraints
from pydantic.alias_generators import to_camel
from typing_extensions import override

from inferometer_api import patterns
from inferometer_api.document import DECIMAL_MAXIMUM, Decimal, DnsLabel, Document, Integral, Sha256
from inferometer_api.rules import Rule, Unique, exactly_one, same_order
from inferometer_api.spec import mlperf
from inferometer_api.spec.checksum import needs_checksum
from inferometer_api.spec.model_mix import MixedModel, MixWeights

UNKNOWN_KIND = "unknown"
"""The kind of a scenario that a newer version of Inferometer wrote."""

ProfileLevel = Literal["Model", "Layer", "Kernel"]
AccuracyMetric = Literal["Top1", "Top5", "MAP", "MeanIoU", "ExactMatch", "F1", "WER", "CER", "MSE"]
ColdStartState = Literal["Nothing", "ImagePresent", "ModelCached", "ModelInMemory"]
Percentile = Literal["P50", "P90", "P95", "P97", "P99", "P99.9"]
_LatencyBound = Annotated[int, Field(ge=1, le=3_600_000_000), Integral]
_PROBE_QUERIES, _PROBE_SECONDS = 1024, 60
_BatchSize = Annotated[int, Field(ge=1, le=4096), Integral]
_BudgetSeconds = Annotated[int, Field(ge=1, le=86_400), Integral]
_ZooAddress = Annotated[str, StringConstraints(max_length=128, pattern=patterns.ZOO_URI)]


def percentile_value(percentile: Percentile) -> float:
    """Return the number of a percentile's name: 99.9 for P99.9."""
    return float(percentile.removeprefix("P"))


class LoadProfile(Document):
    """The member of a scenario that selects its kind and holds its settings."""

    keeps_batch_limit: ClassVar[str] = ""
    """CEL: whether `request_batch_sizes` of MEMBER are at most LIMIT. Empty: all are 1."""

    fixed_warm_up: ClassVar[bool] = False
    """Whether its steps have a warm-up of their own, whatever `validity.warmUp` says."""

    takes_mix: ClassVar[bool] = False
    """Whether its queries may go to a mix of models."""

    takes_samples: ClassVar[bool] = False
    """Whether its queries may carry the samples of a data set: one sample each, without a file."""

    is_measured_in_server: ClassVar[bool] = False
    """Whether it requests measurements from the server, after its own queries."""

    creates_servers: ClassVar[bool] = False
    """Whether each of its repeats measures the start of a new server."""

    data_field: ClassVar[str] = "uri"
    """Path of the address of its data file, if it has one."""

    @property
    def request_batch_sizes(self) -> tuple[int, ...]:
        """How many samples its requests carry, in the order of its steps."""
        return (1,)

    @property
    def data_uri(self) -> str | None:
        """Where its data file comes from; None if it needs none."""
        return None

    @property
    def data_sha256(self) -> str | None:
        """The checksum of its data file, if it has one."""
        return None

    @property
    def added_seconds(self) -> int:
        """Seconds that it takes at most beyond the limits of the validity."""
        return 0


class SingleStream(LoadProfile):
    """One query of one sample at a time, the next as soon as the last is answered."""

    takes_mix = True
    takes_samples = True


class ServerLoad(LoadProfile):
    """Open loop: queries of one sample at scheduled times, whether or not the server keeps up."""

    takes_mix = True
    takes_samples = True

    target_qps: Decimal
    """Mean queries per second: 200 or "16.5", with at most 3 decimals."""

    arrivals: Literal["Poisson", "Constant"] = "Poisson"
    """Poisson: exponential gaps, as from independent users. Constant: equal gaps."""

    latency_bound_microseconds: _LatencyBound | None = None
    """Latency bound of the percentile, in us, counted from the scheduled time. Absent: no bound."""

    percentile: Percentile = "P99"
    """Percentile of the latency that must not exceed the bound."""


class Batch(LoadProfile):
    """One query at a time, of each batch size in turn."""

    takes_mix = True

    batch_sizes: Annotated[list[_BatchSize], Field(min_length=1, max_length=32), Unique()]
    """Samples per query. Each size gets an equal share of both minimums, and at least 10 \
queries."""

    keeps_batch_limit = "MEMBER.batchSizes.all(b, b <= LIMIT)"
    constraints: ClassVar[tuple[Rule, ...]] = (same_order("batchSizes"),)

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The size of each step."""
        return tuple(self.batch_sizes)


class MultiStream(LoadProfile):
    """One query of several samples at a time."""

    takes_mix = True

    samples_per_query: _BatchSize = 8
    """Samples in each query."""

    keeps_batch_limit = "(has(MEMBER.samplesPerQuery) ? MEMBER.samplesPerQuery : 8) <= LIMIT"

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The one size."""
        return (self.samples_per_query,)


class Probe(Document):
    """How long one probe of findPeak may take."""

    min_queries: Annotated[int, Field(ge=10, le=100_000_000), Integral] = _PROBE_QUERIES
    """Queries of a full probe; other probes end as soon as they are decided. Raised to the \
minimum of early stopping: 459 for P99, 4,603 for P99.9."""

    max_seconds: Annotated[int, Field(ge=1, le=86_400), Integral] = _PROBE_SECONDS
    """Seconds after which a probe is cut off, even if it is not decided. It must suffice for \
minQueries at the first rate, half the closed-loop throughput; otherwise the search ends before \
its first probe."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"(has(self.minQueries) ? self.minQueries : {_PROBE_QUERIES}) <= "
            f"(has(self.maxSeconds) ? self.maxSeconds : {_PROBE_SECONDS}) * {DECIMAL_MAXIMUM}",
            message=f"at {DECIMAL_MAXIMUM:,} queries/s, the highest rate, minQueries take longer "
            "than maxSeconds: raise maxSeconds or lower minQueries",
            holds=lambda probe: probe.min_queries <= probe.max_seconds * DECIMAL_MAXIMUM,
            field="maxSeconds",
            found=lambda probe: (
                f"{probe.max_seconds}, and at least {-(-probe.min_queries // DECIMAL_MAXIMUM)} "
                "would do"
            ),
        ),
    )


class FindPeak(LoadProfile):
    """Search for the highest rate whose percentile latency stays within a bound."""

    takes_mix = True

    latency_bound_microseconds: _LatencyBound
    """Latency bound of the percentile, in us."""

    percentile: Percentile = "P99"
    """The percentile that must keep the bound."""

    probe: Probe = Field(default_factory=Probe)
    """Limits of one probe."""

    fixed_warm_up = True
    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.latencyBoundMicroseconds < 1000000 * (has(self.probe) && "
            f"has(self.probe.maxSeconds) ? self.probe.maxSeconds : {_PROBE_SECONDS})",
            message="a probe of probe.maxSeconds ends before any query can exceed "
            "latencyBoundMicroseconds: raise probe.maxSeconds or lower the bound",
            holds=lambda search: (
                search.latency_bound_microseconds < 1_000_000 * search.probe.max_seconds
            ),
            field="latencyBoundMicroseconds",
            found=lambda search: (
                f"{search.latency_bound_microseconds} with maxSeconds {search.probe.max_seconds}, "
                f"and {search.latency_bound_microseconds // 1_000_000 + 1} would do"
            ),
        ),
    )


class Concurrency(LoadProfile):
    """Closed loop: a number of clients with one outstanding query each, for each number in turn."""

    takes_mix = True
    takes_samples = True

    clients: Annotated[
        list[Annotated[int, Field(ge=1, le=100_000), Integral]],
        Field(min_length=1, max_length=32),
        Unique(),
    ]
    """Numbers of clients, one step each."""

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("clients"),)


class Offline(LoadProfile):
    """All samples at once, in batches: the throughput of the server."""

    takes_mix = True

    samples: Annotated[int, Field(ge=1, le=1_000_000_000), Integral] = 24_576
    """Samples, each sent once."""

    batch_size: _BatchSize = 1
    """Samples per request."""

    keeps_batch_limit = "(!has(MEMBER.batchSize) || MEMBER.batchSize <= LIMIT)"

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The one size."""
        return (self.batch_size,)


class Burst(LoadProfile):
    """Open loop: a low rate with periodic bursts at a high rate."""

    takes_mix = True
    takes_samples = True

    base_qps: Decimal
    """Queries per second between bursts."""

    burst_qps: Decimal
    """Queries per second within a burst."""

    burst_seconds: Annotated[int, Field(ge=1, le=86_399), Integral]
    """Length of a burst, in seconds."""

    period_seconds: Annotated[int, Field(ge=2, le=86_400), Integral]
    """Seconds from the start of one burst to the start of the next. Longer than a burst."""

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
    """Open loop: queries at recorded times."""

    takes_mix = True

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

    sha256: Sha256 | None = None
    """SHA-256 of the file in 64 lower-case hexadecimal digits. Checked before use; required with \
https://."""

    time_scale: Decimal = "1"
    """Factor for the times: "0.5" replays twice as fast."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        needs_checksum("a trace", lambda trace: (trace.uri, trace.sha256)),
    )

    @property
    @override
    def data_uri(self) -> str:
        """The address of the recorded arrival times."""
        return self.uri

    @property
    @override
    def data_sha256(self) -> str | None:
        """The checksum of the recorded arrival times."""
        return self.sha256


class Profile(LoadProfile):
    """One query at a time, of each batch size in turn; then profiled runs within the server.

    The figures are those of the queries, which no profiler slows down. Profiled results are never
    a baseline.
    """

    is_measured_in_server = True

    levels: Annotated[list[ProfileLevel], Field(min_length=1, max_length=3), Unique()] = Field(
        default=["Model", "Layer", "Kernel"]
    )
    """Model: inferences without a profiler. Layer: also the layers, in runs of their own. Kernel: \
also the engine's names of the kernels, if it has them; on a GPU what ran on it, by CUPTI, in runs \
of their own."""

    batch_sizes: Annotated[list[_BatchSize], Field(min_length=1, max_length=32), Unique()] = Field(
        default=[1]
    )
    """Samples per query. Each size gets an equal share of both minimums, and at least 10 \
queries."""

    iterations: Annotated[int, Field(ge=1, le=10_000), Integral] = 30
    """Runs of each level, at each batch size."""

    keeps_batch_limit = "(!has(MEMBER.batchSizes) || MEMBER.batchSizes.all(b, b <= LIMIT))"
    constraints: ClassVar[tuple[Rule, ...]] = (
        same_order("levels", is_optional=True),
        same_order("batchSizes", is_optional=True),
    )

    @property
    @override
    def request_batch_sizes(self) -> tuple[int, ...]:
        """The size of each step."""
        return tuple(self.batch_sizes)


class AccuracyDataset(Document):
    """Address of a data set."""

    uri: Annotated[
        str,
        StringConstraints(min_length=1, max_length=2048, pattern=patterns.DATASET_URI),
    ]
    """`builtin://digits`; a folder with dataset.yaml (`file:PATH` in local runs); a tar or zip of \
one, a CSV file or a JSONL file: `file:PATH`, `configmap://NAME/KEY`, `pvc://CLAIM/PATH`, \
`s3://BUCKET/KEY` or `https://...`. ConfigMaps and claims must carry the label \
inferometer.dev/allow-use=true."""

    sha256: Sha256 | None = None
    """SHA-256 of the file in 64 lower-case hexadecimal digits. Checked before use; required with \
https://."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        needs_checksum("a data set", lambda dataset: (dataset.uri, dataset.sha256)),
    )


class Accuracy(LoadProfile):
    """Each sample of a data set once; compares the predictions with the labels.

    The steps around the model are those of its manifest.
    """

    dataset: AccuracyDataset
    """The data set."""

    metrics: Annotated[list[AccuracyMetric], Field(min_length=1, max_length=9), Unique()]
    """Measures. Top1, Top5: classes. MAP: boxes. MeanIoU: masks. ExactMatch, F1: answers. WER, \
CER: error rates of words and characters. MSE: numbers."""

    samples: Annotated[int, Field(ge=1, le=1_000_000_000), Integral] | None = None
    """How many samples, from the first. Absent: all."""

    on_sample_error: Literal["Continue", "Stop"] = "Continue"
    """What to do about a sample that cannot be processed. Continue: it is counted and named, and \
counts as failed. Stop: the scenario ends with it, INVALID."""

    data_field = "dataset.uri"
    constraints: ClassVar[tuple[Rule, ...]] = (same_order("metrics"),)

    @property
    @override
    def data_uri(self) -> str | None:
        """The address of the data set; None if it is built in."""
        return None if self.dataset.uri.startswith("builtin://") else self.dataset.uri

    @property
    @override
    def data_sha256(self) -> str | None:
        """The checksum of the data set."""
        return self.dataset.sha256


class SampledAccuracy(Document):
    """Accuracy of sampled replies to a load whose queries carry the samples of a data set."""

    dataset: AccuracyDataset
    """The data set, whose steps are those of the model's manifest."""

    metrics: Annotated[list[AccuracyMetric], Field(min_length=1, max_length=9), Unique()]
    """Measures, as those of an accuracy scenario."""

    samples: Annotated[int, Field(ge=1, le=4096), Integral] = 256
    """How many samples, from the first. They are encoded before the window and sent in turn."""

    sample_every: Annotated[int, Field(ge=1, le=10_000), Integral] = 4
    """One reply in so many is kept, on average; of each sample the first that is kept counts."""

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("metrics"),)


class ColdStart(LoadProfile):
    """How long a new server takes to its first answer, phase by phase, and to its steady latency.

    The server is created anew for each repeat. Then one query of one sample at a time is sent, the
    next as soon as the last is answered.
    """

    creates_servers = True

    repeats: Annotated[int, Field(ge=1, le=100), Integral] = 5
    """How often the server is created. If it is more than `validity.repeats`, it takes its place: \
all scenarios of the run are measured so often."""

    state: ColdStartState = "ImagePresent"
    """What the node holds before each start. Nothing: neither image nor model. ImagePresent: the \
image; the model is fetched as part of the start. ModelCached: also the model, on disk and not in \
memory. ModelInMemory: also the model's files in memory (page cache). The share of the files that \
is in memory is measured before each start; a state that does not hold makes the scenario \
INVALID."""


class BoundLoad(LoadProfile):
    """One query at a time; then the layers of the model are timed alone, within the server's pod.

    The timings go into the layer database, from which the lower bound of the latency follows. They
    are of FP32, with the threads of the server. The server needs runtime OnnxRuntime or OpenVino.
    """

    is_measured_in_server = True

    fill: bool = True
    """Whether all layers are timed by each engine. False: only the whole model is."""

    advise: bool = False
    """Whether the model is also timed with other settings, and rewritten with fixed shapes, with
    fused operators and in INT8. The report then says what would make it faster, and by how much."""

    budget_seconds: _BudgetSeconds = 600
    """Seconds after which no more layers are timed. The others are named."""

    @property
    @override
    def added_seconds(self) -> int:
        """Until no more layers are timed."""
        return self.budget_seconds


class BricksLoad(LoadProfile):
    """One query at a time; then unique layers of several models are timed in the server's pod.

    The timings go into the layer database, from which the latency of any model that consists of
    these layers follows. They are of ONNX Runtime, with the threads of the server; with several,
    chains of up to three layers are timed.
    """

    is_measured_in_server = True

    models: Annotated[list[_ZooAddress], Field(max_length=100), Unique()] = Field(
        default_factory=list
    )
    """Built-in models to take layers from, as zoo://TASK/NAME, next to the model of the run."""

    batch_size: _BatchSize = 1
    """Samples of an inference for which the layers are timed."""

    budget_seconds: _BudgetSeconds = 600
    """Seconds after which no more layers are timed. The others are named."""

    @property
    @override
    def added_seconds(self) -> int:
        """Until no more layers are timed."""
        return self.budget_seconds

    constraints: ClassVar[tuple[Rule, ...]] = (same_order("models", is_optional=True),)


_NO_KIND = ("name", "mix", "mix_weights", "sampled_accuracy")
"""Fields of a scenario that are no load profile."""


def _weights_text(scenario: "Scenario") -> str:
    without = [each.model for each in scenario.mix or () if each.weight is None]
    if scenario.mix_weights is None:
        return f"no weight of {', '.join(without)}"
    return f"mixWeights {scenario.mix_weights} and weights"


class Scenario(Document):
    """A named load profile. Set the name and exactly one load profile."""

    name: DnsLabel
    """Name of the scenario, unique within the run."""

    mix: Annotated[list[MixedModel], Field(min_length=2, max_length=32), Unique("model")] | None = (
        None
    )
    """Models of the server that share the queries: the model of each query is drawn with its \
weight from the seed. Absent: all queries go to spec.model."""

    mix_weights: MixWeights | None = None
    """Weights of the mix by the order of its models. Uniform: equal. Zipf: 1/k for the k-th. \
Pareto: the probability of [k, k + 1) with shape 1.5."""

    sampled_accuracy: SampledAccuracy | None = None
    """Sends the samples of a data set as the load, and computes measures of accuracy over the \
replies that are sampled within the window. Absent: the queries carry load.inputs."""

    single_stream: SingleStream | None = None
    """One query of one sample at a time: latency."""

    server: ServerLoad | None = None
    """Queries at a given rate: latency under load."""

    batch: Batch | None = None
    """One query at a time, of each batch size in turn: throughput by batch size."""

    multi_stream: MultiStream | None = None
    """One query of several samples at a time."""

    find_peak: FindPeak | None = None
    """Search for the highest rate within a latency bound: capacity."""

    concurrency: Concurrency | None = None
    """Sweep over the number of closed-loop clients."""

    offline: Offline | None = None
    """All samples at once: throughput."""

    burst: Burst | None = None
    """A low rate with bursts."""

    trace: Trace | None = None
    """Recorded arrival times."""

    profile: Profile | None = None
    """One query at a time, of each batch size in turn, and where the engine spends the time."""

    accuracy: Accuracy | None = None
    """Each sample of a data set once: how often the model is right."""

    cold_start: ColdStart | None = None
    """From creating the server to its first answer, and to its steady latency. The first scenario \
of its run."""

    bound: BoundLoad | None = None
    """One query at a time, and timings of the model's layers: how fast it could be."""

    bricks: BricksLoad | None = None
    """One query at a time, and timings of the layers of several models: how fast this node runs \
any of them."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        exactly_one(tuple(to_camel(each) for each in __annotations__ if each not in _NO_KIND)),
        Rule(
            cel="!has(self.mixWeights) || has(self.mix)",
            message="mixWeights are the weights of mix, which is absent: set mix, or leave "
            "mixWeights out",
            holds=lambda scenario: scenario.mix_weights is None or scenario.mix is not None,
            field="mixWeights",
        ),
        Rule(
            cel="!has(self.mix) || self.mix.all(each, has(each.weight) != has(self.mixWeights))",
            message="set the weight of every model of the mix, or mixWeights and no weight",
            holds=lambda scenario: all(
                (each.weight is None) == (scenario.mix_weights is not None)
                for each in scenario.mix or ()
            ),
            field="mix",
            found=_weights_text,
        ),
        same_order("mix", key="model", is_optional=True),
    )

    @property
    def kind(self) -> str:
        """The wire name of the member that is set; UNKNOWN_KIND if this version has none."""
        return self._member[0]

    @property
    def evaluated(self) -> Accuracy | SampledAccuracy | None:
        """What it evaluates, alone or next to its load; None if it evaluates nothing."""
        return self.accuracy or self.sampled_accuracy

    @property
    def dataset(self) -> AccuracyDataset | None:
        """The data set that it evaluates; None if it has none."""
        return None if self.evaluated is None else self.evaluated.dataset

    @property
    def data_uri(self) -> str | None:
        """Where its data file comes from; None if it needs none."""
        if self.sampled_accuracy is None:
            return self.load_profile.data_uri
        uri = self.sampled_accuracy.dataset.uri
        return None if uri.startswith("builtin://") else uri

    @property
    def data_sha256(self) -> str | None:
        """The checksum of its data file, if it has one."""
        sampled = self.sampled_accuracy
        return self.load_profile.data_sha256 if sampled is None else sampled.dataset.sha256

    @property
    def data_field(self) -> str:
        """Path of the address of its data file."""
        if self.sampled_accuracy is not None:
            return "sampledAccuracy.dataset.uri"
        return f"{self.kind}.{self.load_profile.data_field}"

    @property
    def load_profile(self) -> LoadProfile:
        """The member that is set; without settings if this version does not know it."""
        return self._member[1]

    @property
    def _member(self) -> tuple[str, LoadProfile]:
        members = (
            (field.alias or name, getattr(self, name))
            for name, field in Scenario.model_fields.items()
        )
        known = ((name, each) for name, each in members if isinstance(each, LoadProfile))
        return next(known, (UNKNOWN_KIND, LoadProfile()))


PROFILES: Mapping[str, type[LoadProfile]] = MappingProxyType(
    {
        field.alias or name: get_args(field.annotation)[0]
        for name, field in Scenario.model_fields.items()
        if name not in _NO_KIND
    }
)
"""The members of a scenario, of which exactly one is set, by their wire names."""
SCENARIO_KINDS = tuple(PROFILES)


class Validity(Document):
    """Minimums, warm-up and repeats of each scenario."""

    rules: Literal["Default", "MLPerf"] = "Default"
    """Default: the minimums below. MLPerf: also those of MLPerf Inference, for its scenarios."""

    warm_up: Literal["Fixed", "UntilSteady"] = "Fixed"
    """Fixed: for warmUpSeconds. UntilSteady: until three windows differ by less than 10 %."""

    warm_up_seconds: Annotated[int, Field(ge=0, le=86_400), Integral] = 5
    """Seconds of the scenario's load before the measured window."""

    min_duration_seconds: Annotated[int, Field(ge=1, le=604_800), Integral] = 60
    """Minimum length of the measured window, in seconds."""

    min_queries: Annotated[int, Field(ge=1, le=1_000_000_000), Integral] = 1024
    """Minimum number of queries; of samples in batch."""

    max_duration_seconds: Annotated[int, Field(ge=1, le=604_800), Integral] = 600
    """Seconds after which a scenario ends. It is INVALID if it has not reached its minimums."""

    repeats: Annotated[int, Field(ge=1, le=100), Integral] = 1
    """Number of times that all scenarios are measured, one after the other."""

    repeat_scope: Literal["Server", "Load"] | None = None
    """What each repeat begins anew. Server: the server too, which is restarted before each \
further repeat; intervals over the repeats then cover what differs from process to process. Load: \
the load alone; one server process answers all repeats, and the intervals hold for that process. \
Default: Server for launched servers, Load for External ones, which cannot be restarted."""

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
