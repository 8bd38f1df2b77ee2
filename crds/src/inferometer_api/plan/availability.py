"""What does a valid run ask for that this version cannot do here?

The API has more than this version does. What is not done yet is refused by name, never left out
in silence.
"""

from collections.abc import Iterator
from typing import Literal

from inferometer_api.runtimes.descriptor import RuntimeDescriptor
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.scenarios.table import most_clients
from inferometer_api.spec.address import AddressError, address
from inferometer_api.spec.load import Load, Tls
from inferometer_api.spec.run import BenchmarkRun, RunSpec

Place = Literal["Local", "Cluster"]

_NOT_HERE = "is not available in this version"
_MODEL_SCHEMES: dict[Place, tuple[str, ...]] = {
    "Local": ("zoo://", "file:", "https://"),
    "Cluster": ("zoo://", "https://", "pvc://", "s3://"),
}
_DATA_SCHEMES = ("configmap://", "pvc://", "https://", "s3://")

_KUBERNETES = ".kubernetes.io"
"""What is below this domain is Kubernetes' own: cpu and memory need none at all."""

_Refusal = tuple[str, bool, str]
"""A path, whether something is asked there that cannot be, and the sentence behind the path."""


def unavailable(run: BenchmarkRun, *, place: Place) -> tuple[str, ...]:
    """Return a sentence for each thing that the spec asks and this version cannot do at `place`.

    Every sentence begins with the path; an empty tuple says that the run can be tried.
    """
    spec = run.spec
    match place:
        case "Local":
            at_place = (_local_addresses(spec), _told(_refused_locally(spec)))
        case "Cluster":
            at_place = (_cluster_addresses(spec), _told(_refused_in_cluster(spec)))
    anywhere = (_runtime(spec),)
    groups = (*anywhere, *at_place, unavailable_load(spec, place))
    return tuple(sentence for group in groups for sentence in group)


def _runtime(spec: RunSpec) -> Iterator[str]:
    """Yield what the runtime, or this version without it, does not support anywhere."""
    runtime = spec.server.runtime
    descriptor = RUNTIMES.get(runtime)
    if descriptor is None:
        yield f"spec.server.runtime: {runtime} {_NOT_HERE}; available: {_listed(tuple(RUNTIMES))}."
        return
    for limit in descriptor.limits:
        value = limit.value(spec.server)
        if value not in limit.supported:
            yield f"{limit.path}: {value} {_NOT_HERE}; available: {_listed(limit.supported)}."


def _local_runtime(spec: RunSpec) -> Iterator[str]:
    descriptor = RUNTIMES.get(spec.server.runtime)
    launch = None if descriptor is None else descriptor.launch
    if launch is not None and launch.local is None:
        yield (
            f"spec.server.runtime: {spec.server.runtime} runs in clusters only; available here: "
            f"{_listed(tuple(name for name, each in RUNTIMES.items() if _runs_locally(each)))}."
        )


def _runs_locally(descriptor: RuntimeDescriptor) -> bool:
    return descriptor.launch is None or descriptor.launch.local is not None


def _local_addresses(spec: RunSpec) -> Iterator[str]:
    """Addresses that a local run reaches."""
    uri, schemes = spec.model.uri, _MODEL_SCHEMES["Local"]
    if uri is not None and not uri.startswith(schemes):
        yield (
            f"spec.model.uri: {_scheme(uri)} needs a cluster; available here: {_listed(schemes)}."
        )
    for path, uri in spec.data_addresses:
        if not uri.startswith("file:"):
            yield (
                f"{path}: a local run reads file: only, not {_scheme(uri)}; fetch the file and "
                "name it as file:PATH, relative to the run file."
            )


def _cluster_addresses(spec: RunSpec) -> Iterator[str]:
    """Addresses that pods reach, and that lead somewhere."""
    uri, schemes = spec.model.uri, _MODEL_SCHEMES["Cluster"]
    if uri is not None:
        yield from _in_cluster("spec.model.uri", uri, schemes)
        if uri.startswith("s3://") and spec.model.credentials_secret is None:
            yield (
                "spec.model.credentialsSecret: s3:// needs the keys of its store; name a Secret "
                "with accessKeyId and secretAccessKey, labelled inferometer.dev/allow-use=true."
            )
    for path, data in spec.data_addresses:
        yield from _in_cluster(path, data, _DATA_SCHEMES)
        if data.startswith("s3://") and spec.model.credentials_secret is None:
            yield (
                f"{path}: s3:// is read with the keys of the model's store "
                "(spec.model.credentialsSecret), which are absent; use configmap://NAME/KEY, "
                "pvc://CLAIM/PATH or https://..."
            )


def _in_cluster(path: str, uri: str, schemes: tuple[str, ...]) -> Iterator[str]:
    if not uri.startswith(schemes):
        yield (
            f"{path}: pods cannot reach {_scheme(uri)} of the machine that you write on; "
            f"available in a cluster: {_listed(schemes)}."
        )
        return
    try:
        address(uri)
    except AddressError as error:
        yield f"{path}: {error}"


def _told(refusals: tuple[_Refusal, ...]) -> Iterator[str]:
    for path, asked, sentence in refusals:
        if asked:
            yield f"{path}: {sentence}."


def _refused_locally(spec: RunSpec) -> tuple[_Refusal, ...]:
    server = spec.server
    return (
        (
            "spec.server.replicas",
            server.replicas != 1,
            f"{server.replicas} servers were asked for, but a local run has one; set it to 1",
        ),
        (
            "spec.server.external.service",
            server.external is not None and server.external.service is not None,
            "a local run has no Services; give the server's address as a url",
        ),
        (
            "spec.suspend",
            spec.suspend,
            "a local run cannot be suspended: leave it out, and start the run when it shall run",
        ),
        (
            "spec.cancel",
            spec.cancel,
            "a local run is cancelled by Ctrl-C: leave it out",
        ),
    )


def _refused_in_cluster(spec: RunSpec) -> tuple[_Refusal, ...]:
    resource = "" if spec.server.gpu is None else spec.server.gpu.resource
    domain = resource.rpartition("/")[0]
    return (
        (
            "spec.server.gpu.resource",
            resource != "" and (not domain or f".{domain}".endswith(_KUBERNETES)),
            f"{resource} is no device plugin's resource, as nvidia.com/gpu is; name one of these",
        ),
    )


def _scheme(uri: str) -> str:
    head, separator, _ = uri.partition("://")
    return f"{head}://" if separator else f"{uri.partition(':')[0]}:"


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


_NO_FILES = "pods have no files of yours"
_NO_SECRETS = "a local run has no Secrets"
_OF_FILES = {
    "caFile": "caSecret, whose key ca.crt it is",
    "clientCertificateFile": "clientSecret, whose key tls.crt it is",
    "clientKeyFile": "clientSecret, whose key tls.key it is",
}
"""Fields that name a file, and where a cluster has the same."""
_OF_SECRETS = {"caSecret": "caFile", "clientSecret": "clientCertificateFile and clientKeyFile"}


def unavailable_load(spec: RunSpec, place: Literal["Local", "Cluster"]) -> Iterator[str]:
    """Yield a sentence for each thing that `spec.load` asks and that cannot be done at `place`."""
    load = spec.load
    if load.tls is not None:
        yield from _without_tls(spec)
        yield from _tls_elsewhere(load.tls, place)
    if place == "Local" and load.headers_secret is not None:
        yield f"spec.load.headersSecret: {_NO_SECRETS}; name a file in spec.load.headersFile."
    if place == "Cluster" and load.headers_file is not None:
        yield f"spec.load.headersFile: {_NO_FILES}; name a Secret in spec.load.headersSecret."
    yield from _too_many_clients(spec, load)


def _without_tls(spec: RunSpec) -> Iterator[str]:
    external = spec.server.external
    if external is None:
        yield "spec.load.tls: the server that a run starts speaks no TLS; leave it out."
    elif external.url is not None and not external.url.startswith(("https://", "grpcs://")):
        scheme = external.url.partition("://")[0]
        yield (
            f"spec.load.tls: the server's url begins with {scheme}://, which is without TLS; write "
            f"{scheme}s:// in spec.server.external.url, or leave tls out."
        )


def _tls_elsewhere(tls: Tls, place: Literal["Local", "Cluster"]) -> Iterator[str]:
    asked = tls.model_dump(by_alias=True, exclude_none=True)
    others, why = (_OF_SECRETS, _NO_SECRETS) if place == "Local" else (_OF_FILES, _NO_FILES)
    for name, instead in others.items():
        if name in asked:
            yield f"spec.load.tls.{name}: {why}; use {instead}."


def _too_many_clients(spec: RunSpec, load: Load) -> Iterator[str]:
    room = load.connections * load.streams_per_connection
    for index, scenario in enumerate(spec.scenarios):
        most = most_clients(scenario) or 0
        if load.protocol == "GRPC" and most > room:
            yield (
                f"spec.scenarios[{index}].{scenario.kind}.clients: {most} clients are more than "
                f"the {room} requests that {load.connections} connections with "
                f"{load.streams_per_connection} streams each carry at a time; raise "
                "spec.load.connections or spec.load.streamsPerConnection."
            )
