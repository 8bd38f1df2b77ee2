"""What is a BenchmarkRun: what a person asks to be measured?"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from inferometer_api.document import DnsSubdomain, Document, Integer, Integral, NullsAbsent
from inferometer_api.rules import Rule, Unique, Where, same_order
from inferometer_api.spec import mlperf
from inferometer_api.spec.load import Load
from inferometer_api.spec.model import ModelSource
from inferometer_api.spec.scenario import Scenario, Validity, percentile_value
from inferometer_api.spec.server import Server
from inferometer_api.status.run_status import RunStatus


class Telemetry(Document):
    """What is measured beside the requests."""

    power: Literal["Auto", "Disabled"] = "Auto"
    """Auto: energy where the node has a source for it, else "unavailable" with the reason."""

    idle_seconds: Annotated[int, Field(ge=0, le=3600), Integral] = 5
    """Seconds without load directly before each warm-up, in which the idle power is measured; \
they are spent only where the node has a source of energy."""

    estimated_milliwatts_per_core: Annotated[int, Field(ge=1, le=1_000_000), Integral] | None = None
    """By choice, where the node has no source for its CPUs: their energy is then the server's CPU \
seconds times this many thousandths of a watt, and is labelled estimated."""


class Retention(Document):
    """What is left when the run has ended."""

    cleanup: Literal["Always", "OnSuccess", "Never"] = "Always"
    """When the server and the load generator are deleted: Always at the end, OnSuccess (kept for \
a look when the run Failed), or Never."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2**31 - 1), Integral] = 86_400
    """Seconds after which the finished run itself is deleted."""


def _not_mlperfs(spec: "RunSpec") -> Iterator[tuple[Where, str]]:
    """Yield each `server` scenario that is not MLPerf's, where its rules are asked for."""
    if spec.validity.rules != "MLPerf":
        return
    for index, each in enumerate(spec.scenarios):
        load = each.server
        if load is None:
            continue
        if load.latency_bound_microseconds is None:
            yield ("scenarios", index, "server"), "none"
        elif percentile_value(load.percentile) < mlperf.SERVER_PERCENTILE:
            yield ("scenarios", index, "server"), f"one for its {load.percentile}"


def _above_max_batch(spec: "RunSpec") -> Iterator[tuple[Where, str]]:
    """Yield each scenario that sends more samples in a request than the server joins."""
    batching = spec.server.batching
    if batching is None:
        return
    for index, each in enumerate(spec.scenarios):
        largest = max(each.profile.request_batch_sizes)
        if largest > batching.max_batch_size:
            yield (
                ("scenarios", index, each.kind),
                f"{largest} in scenario {each.name}, and maxBatchSize {batching.max_batch_size}",
            )


def _immutable(field: str) -> Rule:
    return Rule(
        cel=f"self.{field} == oldSelf.{field}",
        message=f"{field} is immutable: create a new BenchmarkRun",
        holds=None,
        field=field,
    )


class RunSpec(Document):
    """What is measured. Immutable but for suspend, cancel and retention."""

    model: ModelSource
    """The model."""

    server: Server = Field(default_factory=Server)
    """The inference server under test."""

    load: Load = Field(default_factory=Load)
    """How requests are sent."""

    scenarios: Annotated[list[Scenario], Field(min_length=1, max_length=32), Unique("name")]
    """Load profiles, run in order against the same server."""

    validity: Validity = Field(default_factory=Validity)
    """What must hold for each scenario."""

    telemetry: Telemetry = Field(default_factory=Telemetry)
    """What is measured beside the requests."""

    active_deadline_seconds: Annotated[int, Field(ge=1, le=2_592_000), Integral] = 3600
    """The run is Failed past it, counted from `status.startTime`; not while queued or \
suspended."""

    retention: Retention = Field(default_factory=Retention)
    """What is left when the run has ended."""

    suspend: bool = False
    """Holds a run that has not begun to measure. Later it ends the run as Failed, which never \
resumes."""

    cancel: bool = False
    """Ends the run and keeps what was measured. Can be set once."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.model.name) == (self.server.runtime == 'External')",
            message="model.name goes with runtime External, model.uri with every other runtime",
            holds=lambda spec: (spec.model.name is not None) == (spec.server.runtime == "External"),
        ),
        Rule(
            cel="!has(self.server.external) || !has(self.server.external.url) || "
            "self.server.external.url.startsWith('grpc') == (self.load.protocol == 'GRPC')",
            message="the url's scheme goes with load.protocol: http:// and https:// with HTTP, "
            "grpc:// and grpcs:// with GRPC",
            holds=lambda spec: (
                spec.server.external is None
                or spec.server.external.url is None
                or spec.server.external.url.startswith("grpc") == (spec.load.protocol == "GRPC")
            ),
            field="load.protocol",
        ),
        Rule(
            cel="!has(self.server.batching) || self.scenarios.all(s, "
            "(!has(s.batch) || s.batch.batchSizes.all(b, b <= self.server.batching.maxBatchSize))"
            " && (!has(s.offline) || s.offline.batchSize <= self.server.batching.maxBatchSize)"
            " && (!has(s.multiStream)"
            " || s.multiStream.samplesPerQuery <= self.server.batching.maxBatchSize))",
            message="no scenario may send more samples in a request than server.batching."
            "maxBatchSize: raise it or lower the batch size",
            holds=lambda spec: not any(_above_max_batch(spec)),
            field="scenarios",
            breaches=_above_max_batch,
        ),
        Rule(
            cel="self.validity.rules != 'MLPerf' || self.scenarios.all(s, !has(s.server) || "
            "(has(s.server.latencyBoundMicroseconds) && s.server.percentile.startsWith('P99')))",
            message="MLPerf's server scenario has a latency bound for its P99 (or P99.9): set "
            "latencyBoundMicroseconds, or rules Default",
            holds=lambda spec: not any(_not_mlperfs(spec)),
            field="scenarios",
            breaches=_not_mlperfs,
        ),
        Rule(
            cel="self.validity.warmUp != 'UntilSteady' || !self.scenarios.exists(s, "
            "has(s.findPeak))",
            message="warmUp UntilSteady does not go with findPeak, whose probes have a fixed "
            "warm-up: take Fixed, or search in a run of its own",
            holds=lambda spec: (
                spec.validity.warm_up != "UntilSteady"
                or all(each.find_peak is None for each in spec.scenarios)
            ),
            field="validity.warmUp",
        ),
        *map(
            _immutable,
            (
                "model",
                "server",
                "load",
                "scenarios",
                "validity",
                "telemetry",
                "activeDeadlineSeconds",
            ),
        ),
        same_order("scenarios", key="name"),
        Rule(
            cel="!oldSelf.cancel || self.cancel",
            message="cancel cannot be taken back",
            holds=None,
            field="cancel",
        ),
    )

    @property
    def request_batch_sizes(self) -> tuple[int, ...]:
        """How many samples the requests of all scenarios carry, ascending, each once."""
        sizes = {size for each in self.scenarios for size in each.profile.request_batch_sizes}
        return tuple(sorted(sizes))

    @property
    def data_addresses(self) -> tuple[tuple[str, str], ...]:
        """Where inputs and traces come from: the path in the spec, and the address."""
        file = self.load.inputs.file
        traces = (
            (f"spec.scenarios[{index}].{scenario.kind}.uri", scenario.profile.data_uri)
            for index, scenario in enumerate(self.scenarios)
            if scenario.profile.data_uri is not None
        )
        return (*(() if file is None else (("spec.load.inputs.file.uri", file.uri),)), *traces)


class ObjectMeta(Document):
    """The metadata of any Kubernetes object, of which only name, labels and annotations count."""

    name: DnsSubdomain | None = None
    generate_name: Annotated[str, Field(max_length=253)] | None = None
    namespace: Annotated[str, Field(max_length=63)] | None = None
    labels: Annotated[dict[str, str], NullsAbsent] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], NullsAbsent] = Field(default_factory=dict)
    uid: str | None = None
    resource_version: str | None = None
    generation: Integer | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Integer | None = None
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[dict[str, Any]] = Field(default_factory=list)
    managed_fields: list[dict[str, Any]] = Field(default_factory=list)
    self_link: str | None = None

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.name) || has(self.generateName)",
            message="the run needs a metadata.name",
            holds=lambda meta: bool(meta.name or meta.generate_name),
            field="name",
        ),
    )


class BenchmarkRun(Document):
    """A measurement of how one model is served: which model, on what, under which load."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    """Always inferometer.dev/v1alpha1."""

    kind: Literal["BenchmarkRun"]
    """Always BenchmarkRun."""

    metadata: ObjectMeta
    """The metadata of any Kubernetes object: name, labels, annotations."""

    spec: RunSpec
    """What is measured. Immutable but for suspend, cancel and retention."""

    status: RunStatus | None = None
    """What was found so far. Written by the operator alone."""

    @property
    def name(self) -> str:
        """The run's name, for people: generateName's prefix where it has no other."""
        return self.metadata.name or (self.metadata.generate_name or "").rstrip("-")
