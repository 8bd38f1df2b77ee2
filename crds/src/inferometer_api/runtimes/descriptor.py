"""Description of an inference server: data and pure functions that every component reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import join, normpath
from typing import Literal
from urllib.parse import quote

from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Resources, Server

HTTP_PORT, GRPC_PORT = 8000, 8001
"""Default ports of the Open Inference Protocol's servers."""

Place = Literal["Local", "Cluster"]
"""Where a run's processes run."""

INSTANCE_ID = "{instanceId}"
"""What the fetcher replaces by another word for each pod, in the texts of a layout."""

ImageName = str
"""The name of an image in the operator's settings, which the descriptor chooses."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a server listens; port 0 lets it choose a free one."""

    host: str = "127.0.0.1"
    http_port: int = 0
    grpc_port: int = 0
    metrics_port: int = 0
    """The HTTP port, unless `ServerLaunch.metrics_port` names another one."""


LOOPBACK = Listen()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedLayout:
    """The files of a model as a server expects them."""

    root: str = ""
    """The folder that the server reads, relative to the folder that the fetcher fills."""
    model_file: str
    """The model, relative to `root`; an absolute path if the model stays where it is."""
    takes_any_path: bool = False
    """Whether a model from file: or pvc:// stays where it is. Otherwise the fetcher copies it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of further files that the fetcher writes, by their path relative to `root`."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Names of programs in `inferometer_fetch.programs` that the fetcher copies, by their path
    relative to `root`."""

    @property
    def model_path(self) -> str:
        """The path of the model."""
        return join(self.root, self.model_file)

    def located(self, folder: str, model_path: str | None = None) -> "FetchedLayout":
        """Return the layout in the folder of the fetcher, with the model at `model_path` if any."""
        root = normpath(join(folder, self.root))
        return replace(self, root=root, model_file=model_path or self.model_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStart:
    """Facts of the place where a server starts."""

    layout: FetchedLayout
    python: str
    """The Python interpreter, for servers that are Python programs."""
    listen: Listen = LOOPBACK
    shapes: Mapping[str, Sequence[int]] | None = None
    """Whole shapes of inputs with open axes; None takes those of random inputs."""
    inputs_file: str | None = None
    """The .npz file of inputs, if the server has to read the shapes from it."""
    other_models: Mapping[str, str] = field(default_factory=dict)
    """Paths of further models, by the names that they are served as."""
    max_model_bytes: int | None = None
    checksums_file: str | None = None
    """JSON with the verified checksums of the model's files, if a cache has them."""
    manifest_file: str | None = None
    """The model's manifest, if the server runs its steps."""
    allow_python_steps: bool = False
    """Whether Python in the manifest may run in the server."""
    spans_url: str = ""
    """Where the server sends its spans by OTLP/HTTP; empty if nothing takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContainer:
    """One container of a server's pod, or the one process of a local server."""

    image: ImageName
    command: tuple[str, ...]
    """Empty: the image's own, in a pod."""
    arguments: tuple[str, ...] = ()
    """What follows the image's own command, in a pod."""
    name: str = "server"
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Paths of writable folders that live as long as the pod, by the name of their volume.
    Containers with the same name share a folder. A local run has none."""
    resources: Resources | None = None
    """Requests and limits; None: those of `spec.server.resources`, and the GPU."""


@dataclass(frozen=True, slots=True)
class FieldLimit:
    """A field of `spec.server` of which a runtime supports some values only."""

    path: str
    value: Callable[[Server], object]
    supported: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A setting of `spec.server` that a runtime does not support."""

    path: str
    place: Place | None
    """None: everywhere."""
    sentence: Callable[[Server], str | None]
    """What follows the path, without a full stop; None if the setting is supported."""


@dataclass(frozen=True, slots=True)
class Schemes:
    """Beginnings of the addresses that can be fetched, by place."""

    local: tuple[str, ...]
    cluster: tuple[str, ...]

    def at(self, place: Place) -> tuple[str, ...]:
        """Return those of one place."""
        return self.local if place == "Local" else self.cluster


FETCHED_MODELS = Schemes(
    local=("zoo://", "file:", "https://"),
    cluster=("zoo://", "https://", "pvc://", "s3://"),
)
"""The models that `inferometer_fetch` can fetch."""
FETCHED_DATA = Schemes(
    local=("file:",),
    cluster=("configmap://", "pvc://", "https://", "s3://"),
)
"""The inputs and traces that a load generator can read."""


def no_notes(_: Server) -> tuple[str, ...]:
    """Return no notes."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSupport:
    """How a local run starts the server as a child process."""

    program: str
    """The name of the program in messages."""
    python_package: str | None = None
    """The package that must be importable."""
    executable: str | None = None
    """The program that must be on the search path."""
    installation: str
    """How to install it: the end of a sentence that begins with "Install"."""
    announces_ports: bool = False
    """Whether the process chooses its ports and reports its state in lines of JSON on standard
    output: `{"event": "listening", "httpPort": ..., "grpcPort": ...}`, then `{"event": "ready"}`,
    or `{"event": "refused" | "failed", "message": ...}`. Otherwise the local run chooses the ports
    and polls `ServerLaunch.ready_path`."""
    notes: Callable[[Server], tuple[str, ...]] = no_notes
    """Sentences about the settings of a server that a local run does not enforce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLaunch:
    """How Inferometer starts the server."""

    layout: Callable[[BenchmarkRun], FetchedLayout]
    """The files that the server reads, relative to the folder that the fetcher fills."""
    containers: Callable[[BenchmarkRun, ServerStart], tuple[ServerContainer, ...]]
    """The containers of a pod of a resolved run. The first one answers the requests and the
    readiness probe, has the ports and mounts the model; a local run starts it alone."""
    fetcher_image: Callable[[Server], ImageName]
    """The image of the init container that fetches the model."""
    images: Mapping[ImageName, str] = field(default_factory=dict)
    """References of images that are not Inferometer's own. The operator's settings can name others
    (images.servers)."""
    engine: Callable[[Server], str | None]
    """The name of the engine that computes, in lower case; None: only the server knows it."""
    engines_in: Callable[[Server], ImageName] | None = None
    """The name under which the operator's settings have the versions of a server's engines; None:
    that of its image."""
    http_port: int = HTTP_PORT
    grpc_port: int = GRPC_PORT
    metrics_port: int | None = None
    """The port that serves /metrics in Prometheus' text format; None: the HTTP port."""
    ready_path: str
    """HTTP path that answers 200 once the model is ready; {modelName} stands for its name."""
    stop_seconds: int
    """How long the server may take to end."""
    local: LocalSupport | None
    """None: the server runs in clusters only."""
    by_kserve: bool = False
    """Whether KServe creates the pods, of an InferenceService, and a Service in front of them. The
    requests go to that Service."""

    def ready_path_of(self, run: BenchmarkRun) -> str:
        """Return the path for a run's model."""
        return self.ready_path.replace("{modelName}", quote(run.spec.model.served_name, safe=""))

    def port(self, protocol: Literal["HTTP", "GRPC"]) -> int:
        """Return the port of a protocol in a pod."""
        return self.grpc_port if protocol == "GRPC" else self.http_port

    @property
    def scraped_port(self) -> int:
        """The port of the metrics in a pod."""
        return self.http_port if self.metrics_port is None else self.metrics_port


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeDescriptor:
    """One value of `spec.server.runtime`."""

    launch: ServerLaunch | None
    """None: the server already runs."""
    model_schemes: Schemes = FETCHED_MODELS
    data_schemes: Schemes = FETCHED_DATA
    limits: tuple[FieldLimit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    holds_several_models: bool = False
    """Whether spec.otherModels can be set."""
    runs_steps: bool = False
    """Whether spec.model.pipeline can be Server."""
    times_layers: bool = False
    """Whether the server is profiled and times layers when the load generator requests it."""
    reports_spans: bool = False
    """Whether the load generator fetches the spans of traced queries from the server."""
    without_tls: Callable[[Server], str | None]
    """Why spec.load.tls is refused, without a full stop; None if the server has TLS."""
    restart_identity: tuple[str, ...]
    """Names of the model's configuration parameters that differ between two starts of a server;
    the first one that the server reports counts. Empty: the load generator cannot see a restart."""
    varying_settings: tuple[str, ...] = ()
    """Names of further configuration parameters that vary from start to start: a comparison does
    not list them."""
