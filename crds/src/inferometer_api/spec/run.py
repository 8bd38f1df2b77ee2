"""The BenchmarkRun: its metadata and its spec."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from inferometer_api import patterns
from inferometer_api.document import DnsSubdomain, Document, Integer, Integral, NullsAbsent
from inferometer_api.rules import Rule, Unique, Where, same_order
from inferometer_api.spec import mlperf
from inferometer_api.spec.load import Load
from inferometer_api.spec.model import ModelSource, OtherModel
from inferometer_api.spec.pipeline import PIPELINE_RULES
from inferometer_api.spec.runtime_lists import HOLD_SEVERAL_MODELS
from inferometer_api.spec.scenario import PROFILES, Scenario, Validity, percentile_value
from inferometer_api.spec.server import Server
from inferometer_api.status.run_status import RunStatus


class Telemetry(Document):
    """Measurements in addition to the requests: energy."""

    power: Literal["Auto", "Disabled"] = "Auto"
    """Auto measures energy if the node has a source; otherwise the result says "unavailable" and \
why. Disabled measures none."""

    idle_seconds: Annotated[int, Field(ge=0, le=3600), Integral] = 5
    """Seconds without load before each warm-up, in which the idle power is measured. Skipped if \
the node has no energy source."""

    estimated_milliwatts_per_core: Annotated[int, Field(ge=1, le=1_000_000), Integral] | None = None
    """Power of one busy CPU core, in mW. If the node has no energy source for its CPUs, their \
energy is estimated as the server's CPU seconds times this value. Absent: no estimate."""


ExportUri = Annotated[
    str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.EXPORT_URI)
]


class Export(Document):
    """Where the result files are copied to."""

    uri: ExportUri
    """Folder to copy to: `s3://BUCKET/PREFIX`, or `pvc://CLAIM/PATH` on a claim labelled \
inferometer.dev/allow-use=true. Each run gets a folder of its own there, RUN-UID."""

    credentials_secret: DnsSubdomain | None = None
    """Secret with the keys of the s3:// store: accessKeyId, secretAccessKey and, if needed, \
endpoint, region, sessionToken, caCertificate. Required with s3://. It must carry the label \
inferometer.dev/allow-use=export. The load generator does not see it."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.credentialsSecret) == self.uri.startsWith('s3://')",
            message="set credentialsSecret with s3://, and only then",
            holds=lambda export: (
                (export.credentials_secret is not None) == export.uri.startswith("s3://")
            ),
            field="credentialsSecret",
        ),
    )


class Retention(Document):
    """What is kept after the run."""

    cleanup: Literal["Always", "OnSuccess", "Never"] = "Always"
    """When the server and the load generator are deleted. Always: at the end of the run. \
OnSuccess: only if the run did not fail. Never: not at all."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2**31 - 1), Integral] = 604_800
    """Seconds after its end when the run itself is deleted."""

    export: Export | None = None
    """Copies the whole result to a store or a claim before the load generator's pod is deleted. \
Needed for results of more than 8 MiB, which are thinned otherwise. Immutable. Local runs ignore \
it."""


def _not_mlperfs(spec: "RunSpec") -> Iterator[tuple[Where, str]]:
    """Yield each `server` scenario that breaks the rules MLPerf, if the spec requires them."""
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
    """Yield each scenario whose requests hold more samples than the server's largest batch."""
    batching = spec.server.batching
    if batching is None:
        return
    for index, each in enumerate(spec.scenarios):
        largest = max(each.load_profile.request_batch_sizes)
        if largest > batching.max_batch_size:
            yield (
                ("scenarios", index, each.kind),
                f"{largest} in scenario {each.name}, and maxBatchSize {batching.max_batch_size}",
            )


def _no_mixes(spec: "RunSpec") -> Iterator[tuple[Where, str]]:
    """Yield each scenario with a mix whose queries cannot go to several models."""
    for index, each in enumerate(spec.scenarios):
        if each.mix is not None and not each.load_profile.takes_mix:
            yield ("scenarios", index, "mix"), f"{each.kind} in scenario {each.name}"


def _not_sampled(spec: "RunSpec") -> Iterator[tuple[Where, str]]:
    """Yield each scenario with sampledAccuracy whose queries cannot carry samples."""
    for index, each in enumerate(spec.scenarios):
        if each.sampled_accuracy is None:
            continue
        if not each.load_profile.takes_samples:
            yield ("scenarios", index, "sampledAccuracy"), f"{each.kind} in scenario {each.name}"
        elif each.mix is not None:
            yield ("scenarios", index, "sampledAccuracy"), f"a mix in scenario {each.name}"


_TAKE_SAMPLES = [kind for kind, profile in PROFILES.items() if profile.takes_samples]
_TAKE_MIX = [kind for kind, profile in PROFILES.items() if profile.takes_mix]
_KEEPS_BATCH_LIMIT = " && ".join(
    f"(!has(s.{kind}) || "
    + profile.keeps_batch_limit.replace("MEMBER", f"s.{kind}").replace(
        "LIMIT", "self.server.batching.maxBatchSize"
    )
    + ")"
    for kind, profile in PROFILES.items()
    if profile.keeps_batch_limit
)
_IN_SERVER = [kind for kind, profile in PROFILES.items() if profile.is_measured_in_server]
_FIXED_WARM_UP = [kind for kind, profile in PROFILES.items() if profile.fixed_warm_up]


def _immutable(field: str) -> Rule:
    return Rule(
        cel=f"self.{field} == oldSelf.{field}",
        message=f"{field} is immutable: create a new BenchmarkRun",
        holds=None,
        field=field,
    )


class RunSpec(Document):
    """What to measure. Immutable except for suspend, cancel and retention (without export)."""

    model: ModelSource
    """The model to measure."""

    other_models: Annotated[list[OtherModel], Field(min_length=1, max_length=31)] | None = None
    """Further models that the server holds, for scenarios with a mix. With runtime OnnxRuntime or \
OpenVino, which load them with the same settings. Their names are the last parts of their \
addresses without .onnx."""

    server: Server = Field(default_factory=Server)
    """The inference server under test."""

    load: Load = Field(default_factory=Load)
    """How requests are sent."""

    scenarios: Annotated[list[Scenario], Field(min_length=1, max_length=32), Unique("name")]
    """Load profiles, measured in order against the same server."""

    validity: Validity = Field(default_factory=Validity)
    """Minimums, warm-up and repeats of each scenario."""

    telemetry: Telemetry = Field(default_factory=Telemetry)
    """Measurements in addition to the requests: energy."""

    active_deadline_seconds: Annotated[int, Field(ge=1, le=2_592_000), Integral] = 3600
    """Seconds from `status.startTime` after which the run fails. Time in the queue or suspended \
does not count."""

    retention: Retention = Field(default_factory=Retention)
    """What is kept after the run."""

    suspend: bool = False
    """Holds a run that has not started to measure. Once it measures, the run fails instead and \
cannot be resumed."""

    cancel: bool = False
    """Ends the run and keeps its measurements. Cannot be unset."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.model.name) == (self.server.runtime == 'External')",
            message="set model.name only with runtime External, and model.uri with every other "
            "runtime",
            holds=lambda spec: (spec.model.name is not None) == (spec.server.runtime == "External"),
        ),
        Rule(
            cel="!has(self.server.external) || !has(self.server.external.url) || "
            "self.server.external.url.startsWith('grpc') == (self.load.protocol == 'GRPC')",
            message="the scheme of url must fit load.protocol: http:// and https:// with HTTP, "
            "grpc:// and grpcs:// with GRPC",
            holds=lambda spec: (
                spec.server.external is None
                or spec.server.external.url is None
                or spec.server.external.url.startswith("grpc") == (spec.load.protocol == "GRPC")
            ),
            field="load.protocol",
        ),
        Rule(
            cel=f"!has(self.server.batching) || self.scenarios.all(s, {_KEEPS_BATCH_LIMIT})",
            message="no scenario may send more samples in a request than server.batching."
            "maxBatchSize: raise it or lower the batch size",
            holds=lambda spec: not any(_above_max_batch(spec)),
            field="scenarios",
            breaches=_above_max_batch,
        ),
        Rule(
            cel="self.validity.rules != 'MLPerf' || self.scenarios.all(s, !has(s.server) || "
            "(has(s.server.latencyBoundMicroseconds) && (!has(s.server.percentile) || "
            "s.server.percentile.startsWith('P99'))))",
            message="MLPerf's server scenario has a latency bound for its P99 (or P99.9): set "
            "latencyBoundMicroseconds, or rules Default",
            holds=lambda spec: not any(_not_mlperfs(spec)),
            field="scenarios",
            breaches=_not_mlperfs,
        ),
        Rule(
            cel="self.validity.warmUp != 'UntilSteady' || !self.scenarios.exists(s, "
            f"{' || '.join(f'has(s.{kind})' for kind in _FIXED_WARM_UP)})",
            message=f"warmUp UntilSteady does not go with {' or '.join(_FIXED_WARM_UP)}, whose "
            "probes have a fixed warm-up: take Fixed, or search in a separate run",
            holds=lambda spec: (
                spec.validity.warm_up != "UntilSteady"
                or not any(each.load_profile.fixed_warm_up for each in spec.scenarios)
            ),
            field="validity.warmUp",
        ),
        Rule(
            cel="!self.scenarios.exists(s, "
            + " || ".join(f"has(s.{kind})" for kind in _IN_SERVER)
            + ") || self.load.protocol == 'HTTP' && self.load.workers == 1",
            message="profiles, bounds and bricks are requested over HTTP, by one load generator: "
            "set load.protocol to HTTP and load.workers to 1, or profile in a separate run",
            holds=lambda spec: (
                not any(each.load_profile.is_measured_in_server for each in spec.scenarios)
                or (spec.load.protocol, spec.load.workers) == ("HTTP", 1)
            ),
            field="scenarios",
        ),
        Rule(
            cel="!self.scenarios.exists(s, has(s.accuracy)) || self.load.workers == 1",
            message="accuracy sends each sample once, by one load generator: set load.workers to "
            "1, or measure accuracy in a separate run",
            holds=lambda spec: (
                all(each.accuracy is None for each in spec.scenarios) or spec.load.workers == 1
            ),
            field="scenarios",
        ),
        Rule(
            cel="self.scenarios.all(s, !has(s.mix) || "
            f"{' || '.join(f'has(s.{kind})' for kind in _TAKE_MIX)})",
            message=f"a mix of models goes with {', '.join(_TAKE_MIX)}: leave mix out, or measure "
            "each model in a run of its own",
            holds=lambda spec: not any(_no_mixes(spec)),
            field="scenarios",
            breaches=_no_mixes,
        ),
        Rule(
            cel="self.scenarios.all(s, !has(s.sampledAccuracy) || !has(s.mix) && "
            f"({' || '.join(f'has(s.{kind})' for kind in _TAKE_SAMPLES)}))",
            message=f"sampledAccuracy goes with {', '.join(_TAKE_SAMPLES)}, without a mix: use a "
            "scenario accuracy instead",
            holds=lambda spec: not any(_not_sampled(spec)),
            field="scenarios",
            breaches=_not_sampled,
        ),
        Rule(
            cel="!self.scenarios.exists(s, has(s.sampledAccuracy)) || self.load.workers == 1",
            message="sampledAccuracy keeps replies in one load generator: set load.workers to 1",
            holds=lambda spec: (
                all(each.sampled_accuracy is None for each in spec.scenarios)
                or spec.load.workers == 1
            ),
            field="scenarios",
        ),
        Rule(
            cel="!self.scenarios.exists(s, has(s.mix)) || "
            "self.load.workers == 1 && !has(self.load.inputs.file)",
            message="a mix of models is driven by one load generator, with random inputs for each "
            "model: set load.workers to 1 and leave load.inputs.file out",
            holds=lambda spec: (
                all(each.mix is None for each in spec.scenarios)
                or (spec.load.workers == 1 and spec.load.inputs.file is None)
            ),
            field="scenarios",
        ),
        Rule(
            cel="!self.scenarios.exists(s, has(s.coldStart)) || "
            "has(self.scenarios[0].coldStart) && "
            "self.scenarios.exists_one(s, has(s.coldStart))",
            message="a cold start is measured once, before anything else has queried the server: "
            "make it the first scenario of the run, and the only coldStart",
            holds=lambda spec: (
                [each.cold_start is not None for each in spec.scenarios].count(True)
                == (spec.scenarios[0].cold_start is not None)
            ),
            field="scenarios",
        ),
        Rule(
            cel="!self.scenarios.exists(s, has(s.coldStart)) || "
            "self.server.runtime != 'External' && self.server.replicas == 1 && "
            "self.load.workers == 1 && "
            "(!has(self.validity.repeatScope) || self.validity.repeatScope == 'Server')",
            message="the run creates one server for each repeat of coldStart, and one load "
            "generator: take another runtime than External, set server.replicas and "
            "load.workers to 1, and omit validity.repeatScope, or take Server",
            holds=lambda spec: (
                all(each.cold_start is None for each in spec.scenarios)
                or (
                    spec.server.external is None
                    and (spec.server.replicas, spec.load.workers) == (1, 1)
                    and spec.validity.repeat_scope in (None, "Server")
                )
            ),
            field="scenarios",
        ),
        Rule(
            cel="self.server.runtime != 'External' || !has(self.validity.repeatScope) || "
            "self.validity.repeatScope != 'Server'",
            message="a run cannot restart a server of runtime External between its repeats: omit "
            "validity.repeatScope, or take Load",
            holds=lambda spec: (
                spec.server.external is None or spec.validity.repeat_scope != "Server"
            ),
            field="validity.repeatScope",
        ),
        Rule(
            cel=f"!has(self.otherModels) || self.server.runtime in {list(HOLD_SEVERAL_MODELS)} && "
            "self.scenarios.exists(s, has(s.mix))",
            message="otherModels are for scenarios with a mix on a server of runtime "
            f"{' or '.join(HOLD_SEVERAL_MODELS)}: leave them out, or set the mix of a scenario",
            holds=lambda spec: (
                spec.other_models is None
                or (
                    spec.server.runtime in HOLD_SEVERAL_MODELS
                    and any(each.mix is not None for each in spec.scenarios)
                )
            ),
            field="otherModels",
            found=lambda spec: (
                f"runtime {spec.server.runtime} and "
                f"{sum(each.mix is not None for each in spec.scenarios)} scenarios with a mix"
            ),
        ),
        *PIPELINE_RULES,
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
        Rule(
            cel="has(self.retention.export) == has(oldSelf.retention.export) && "
            "(!has(self.retention.export) || self.retention.export == oldSelf.retention.export)",
            message="retention.export is immutable: create a new BenchmarkRun",
            holds=None,
            field="retention.export",
        ),
        Rule(
            cel="has(self.otherModels) == has(oldSelf.otherModels) && "
            "(!has(self.otherModels) || self.otherModels == oldSelf.otherModels)",
            message="otherModels is immutable: create a new BenchmarkRun",
            holds=None,
            field="otherModels",
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
    def launched_models(self) -> tuple[str, ...]:
        """The names of the models of a launched server, that of `model` first."""
        others = (each.served_name for each in self.other_models or ())
        return (self.model.served_name, *others)

    @property
    def starts_cold(self) -> bool:
        """Whether the start of the server is measured."""
        return any(each.load_profile.creates_servers for each in self.scenarios)

    @property
    def pulls_image(self) -> bool:
        """Whether the image of the server is not on its node before a start."""
        found = (each.cold_start for each in self.scenarios)
        return any(each is not None and each.state == "Nothing" for each in found)

    @property
    def request_batch_sizes(self) -> tuple[int, ...]:
        """How many samples the requests of all scenarios carry, ascending, each once."""
        sizes = {size for each in self.scenarios for size in each.load_profile.request_batch_sizes}
        return tuple(sorted(sizes))

    @property
    def data_addresses(self) -> tuple[tuple[str, str], ...]:
        """The addresses of manifest, inputs, traces and data sets, with their paths in the spec."""
        file, manifest = self.load.inputs.file, self.model.manifest
        traces = (
            (f"spec.scenarios[{index}].{scenario.data_field}", scenario.data_uri)
            for index, scenario in enumerate(self.scenarios)
            if scenario.data_uri is not None
        )
        return (
            *(() if manifest is None else (("spec.model.manifest.uri", manifest.uri),)),
            *(() if file is None else (("spec.load.inputs.file.uri", file.uri),)),
            *traces,
        )


class ObjectMeta(Document):
    """Kubernetes object metadata. Only name, labels and annotations are used."""

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
            message="set metadata.name",
            holds=lambda meta: bool(meta.name or meta.generate_name),
            field="name",
        ),
    )


class BenchmarkRun(Document):
    """A measurement of how one model is served: the model, the server and the load."""

    api_version: Literal["inferometer.dev/v1alpha1"]
    """Always inferometer.dev/v1alpha1."""

    kind: Literal["BenchmarkRun"]
    """Always BenchmarkRun."""

    metadata: ObjectMeta
    """Standard object metadata: name, labels, annotations."""

    spec: RunSpec
    """What to measure. Immutable except for suspend, cancel and retention (without export)."""

    status: RunStatus | None = None
    """The state and the figures of the run. Written by the operator."""

    @property
    def name(self) -> str:
        """The run's name to show; the prefix of generateName if it has none yet."""
        return self.metadata.name or (self.metadata.generate_name or "").rstrip("-")
