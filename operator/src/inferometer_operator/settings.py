"""The settings of the cluster's admin, which hold for every run.

One YAML file, written by the chart; `python -m inferometer_operator --settings FILE` reads it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from inferometer_api.document import CpuQuantity, DnsLabel, Document, Integral, MemoryQuantity
from inferometer_api.runtimes.custom import AllowedServer, custom_launch
from inferometer_api.runtimes.descriptor import ServerLaunch
from inferometer_api.runtimes.table import launch_of
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.server import Resources, Toleration

_EngineVersion = Annotated[
    str, StringConstraints(max_length=64, pattern=r"^\d+(\.\d+)*((a|b|rc)\d+)?$")
]
"""A release as Python writes it: 1.31.1, 1.32.0rc1."""


class Images(Document):
    """The images of a run's pods, each with its tag or digest."""

    serving: str
    """The server for CPUs, with ONNX Runtime and OpenVINO. It also fetches models."""
    serving_gpu: str
    """The same server with ONNX Runtime's CUDA build."""
    loadgen: str
    """The load generator."""
    servers: dict[str, str] = Field(default_factory=dict)
    """Images of further servers, by the names in the descriptors of their runtimes, instead of the
    references there."""
    engines: dict[str, dict[str, _EngineVersion]] = Field(default_factory=dict)
    """Versions of the engines in an image, by the image's name (`ServerLaunch.engines_in`) and the
    engine. Manifests are resolved over them; without them, the engine of a server is compared with
    its manifest once it has started."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: list[str] = Field(default_factory=list)
    """Names of image pull secrets in the run's namespace."""

    def named(self, name: str, references: Mapping[str, str]) -> str:
        """Return the image that a runtime's descriptor names; `references` are the descriptor's.

        Raises KeyError if neither the settings nor the descriptor know it.
        """
        own = {"serving": self.serving, "servingGpu": self.serving_gpu}
        return {**references, **own, **self.servers}[name]


class GpuPods(Document):
    """Additions to pods that request a GPU."""

    runtime_class: str | None = None
    tolerations: list[Toleration] = Field(default_factory=list)


class LoadPods(Document):
    """How load generators run.

    They have no CPU limit, because throttling would distort the measurement.
    """

    resources: Resources = Field(default_factory=Resources)
    """CPU requested; memory requested, and its limit."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class Agents(Document):
    """The node agents, which measure energy and utilisation during the load."""

    namespace: str
    service: str = "inferometer-agent"
    """The Service in front of all agents."""
    image_removal_token_file: str | None = None
    """A file with the operator's token for the image removers of that chart
    (coldStart.allowImageRemoval); absent: there are none, and no server starts without image."""


class MetricsSettings(Document):
    """How Prometheus finds and reads metrics."""

    scrape_annotations: bool = True
    """Whether server and load pods carry the annotations prometheus.io/scrape, port and path."""
    token_file: str | None = None
    """A file with the bearer token that the operator's own /metrics requires; absent: none."""


_AtMost = Annotated[int, Field(ge=1), Integral]


class Ceilings(Document):
    """The most that one run may ask for. Absent: as much as the API allows.

    A run beyond a ceiling is refused with the field, its value and the ceiling.
    """

    active_deadline_seconds: _AtMost | None = None
    ttl_seconds_after_finished: _AtMost | None = None
    """Also holds for a run whose TTL is raised later."""
    replicas: _AtMost | None = None
    workers: _AtMost | None = None
    connections: _AtMost | None = None
    cpu: CpuQuantity | None = None
    """CPUs that all server and load pods of the run request together."""
    memory: MemoryQuantity | None = None
    """Memory that they request together."""
    gpus: Annotated[int, Field(ge=0), Integral] | None = None
    """GPUs that all server pods of the run request together."""


class ResultsServiceSettings(Document):
    """The service that keeps the results of the cluster's runs (chart inferometer-results)."""

    url: str
    """Its address: "https://inferometer-results.inferometer-results.svc"."""
    authority_file: str | None = None
    """A file with the certificates that sign its own; absent: those of the system."""
    token_file: str
    """A file with a token for its audience; read before each delivery, because it changes."""
    web_url: str = "http://127.0.0.1:8091"
    """Where people open its pages: the address of `kubectl inferometer web` by default."""


class Kueue(Document):
    """How runs are admitted by Kueue."""

    enabled: bool = False
    """Whether runs with the label kueue.x-k8s.io/queue-name wait for Kueue to admit them."""


class KServe(Document):
    """Whether runs may use KServe."""

    enabled: bool = False
    """Whether runs of runtime KServe may create InferenceServices."""


class ServerNotAllowedError(ValueError):
    """A run names a server that the settings do not allow; the message is a sentence."""


class Settings(Document):
    """The settings of the cluster's admin."""

    namespace: str | None = None
    """The one namespace to serve; absent: every namespace."""
    max_concurrent_runs: Annotated[int, Field(ge=1, le=1000), Integral] = 4
    """Runs at a time. Each has nodes of its own: the scheduler puts no two runs on one node."""
    ceilings: Ceilings = Field(default_factory=Ceilings)
    images: Images
    gpu: GpuPods = Field(default_factory=GpuPods)
    load: LoadPods = Field(default_factory=LoadPods)
    priority_class: str | None = None
    """The priority class of server and load pods."""
    fixed_user: bool = True
    """Whether server and load pods run as user and group 10001; else the policy of their namespace
    assigns a user, or the image does."""
    external_allow_list: list[str] = Field(default_factory=list)
    """Hosts of External servers in addition to Services of the run's namespace: "HOST:PORT", "HOST"
    for every port, "*.SUFFIX" for every name below it."""
    allowed_servers: dict[DnsLabel, AllowedServer] = Field(default_factory=dict)
    """Servers that runs of runtime Custom may name."""
    agent: Agents | None = None
    """The node agents; absent: there are none, and energy is unavailable."""
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    read_nodes: bool = False
    """Whether the operator may read nodes, which suites with `systems` or `reuse` need, and from
    which results know the instance type of their servers."""
    allow_secrets: bool = False
    """Whether runs may name Secrets. The operator then may read their labels."""
    kueue: Kueue = Field(default_factory=Kueue)
    kserve: KServe = Field(default_factory=KServe)
    results: ResultsServiceSettings | None = None
    """Keeps each result for good; absent: results live in ConfigMaps as long as their runs."""
    model_cache: bool = False
    """Whether the nodes have a model cache (chart inferometer-agent), for runs with model.cache."""
    model_storage: MemoryQuantity = "10Gi"
    """The most disk that a model may take on a node."""

    def launch_of(self, spec: RunSpec) -> ServerLaunch:
        """Return how the server of an accepted run is started.

        Raises ValueError if it is External, and ServerNotAllowedError if the settings lack it.
        """
        custom = spec.server.custom
        if custom is None:
            return launch_of(spec)
        if custom.name not in self.allowed_servers:
            listed = ", ".join(self.allowed_servers) or "nothing"
            raise ServerNotAllowedError(
                f"spec.server.custom.name: {custom.name} is not among the servers that the "
                f"operator allows (its setting allowedServers: {listed})."
            )
        return custom_launch(self.allowed_servers[custom.name])

    def engine_of(self, spec: RunSpec) -> tuple[str, dict[str, str]]:
        """Return the engine of a run's server, and the known versions of engines in its image.

        Both are empty if the server is External or only the server knows its engine; the version of
        that engine is empty if the settings lack it.
        """
        try:
            launch = self.launch_of(spec)
        except ValueError:
            return "", {}
        engine = launch.engine(spec.server)
        if engine is None:
            return "", {}
        image = next(iter(launch.images), launch.fetcher_image(spec.server))
        name = image if launch.engines_in is None else launch.engines_in(spec.server)
        return engine, {engine: "", **self.images.engines.get(name, {})}
