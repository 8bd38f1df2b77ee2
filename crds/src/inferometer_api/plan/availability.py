"""Refusals of valid specs: what this version cannot do, and what one place cannot do."""

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
"""The domain of Kubernetes' own resources, of which cpu and memory have no domain at all."""

_Refusal = tuple[str, bool, str]
"""The path of a field, whether its value is refused, and the sentence that follows the path."""


def unavailable(run: BenchmarkRun, *, place: Place) -> tuple[str, ...]:
    """Return a sentence for each setting that this version does not support at `place`.

    Each sentence begins with the path of a field. Empty if the run can be tried.
    """
    spec = run.spec
    at_place = _unavailable_locally if place == "Local" else _unavailable_in_cluster
    return (*_runtime(spec), *at_place(spec), *_load(spec, place))


def _unavailable_locally(spec: RunSpec) -> Iterator[str]:
    yield from _without_local_support(spec)
    yield from _local_addresses(spec)
    yield from _sentences(_refused_locally(spec))


def _unavailable_in_cluster(spec: RunSpec) -> Iterator[str]:
    yield from _cluster_addresses(spec)
    yield from _sentences(_refused_in_cluster(spec))


def _runtime(spec: RunSpec) -> Iterator[str]:
    """Yield what the runtime does not support at any place."""
    runtime = spec.server.runtime
    descriptor = RUNTIMES.get(runtime)
    if descriptor is None:
        yield f"spec.server.runtime: {runtime} {_NOT_HERE}; available: {_listed(tuple(RUNTIMES))}."
        return
    for limit in descriptor.limits:
        value = limit.value(spec.server)
        if value not in limit.supported:
            yield f"{limit.path}: {value} {_NOT_HERE}; available: {_listed(limit.supported)}."


def _without_local_support(spec: RunSpec) -> Iterator[str]:
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
            f"{path}: pods cannot reach {_scheme(uri)} on your machine; "
            f"available in a cluster: {_listed(schemes)}."
        )
        return
    try:
        address(uri)
    except AddressError as error:
        yield f"{path}: {error}"


def _sentences(refusals: tuple[_Refusal, ...]) -> Iterator[str]:
    for path, is_refused, sentence in refusals:
        if is_refused:
            yield f"{path}: {sentence}."


def _refused_locally(spec: RunSpec) -> tuple[_Refusal, ...]:
    server = spec.server
    return (
        (
            "spec.server.replicas",
            server.replicas != 1,
            f"a local run has one server, not {server.replicas}; set it to 1",
        ),
        (
            "spec.server.external.service",
            server.external is not None and server.external.service is not None,
            "a local run has no Services; give the server's address as a url",
        ),
        (
            "spec.suspend",
            spec.suspend,
            "a local run cannot be suspended; leave it out and start the run later",
        ),
        (
            "spec.cancel",
            spec.cancel,
            "a local run is cancelled with Ctrl-C; leave it out",
        ),
    )


def _refused_in_cluster(spec: RunSpec) -> tuple[_Refusal, ...]:
    resource = "" if spec.server.gpu is None else spec.server.gpu.resource
    domain = resource.rpartition("/")[0]
    return (
        (
            "spec.server.gpu.resource",
            resource != "" and (not domain or f".{domain}".endswith(_KUBERNETES)),
            f"{resource} is not the resource of a device plugin; name one, such as nvidia.com/gpu",
        ),
    )


def _scheme(uri: str) -> str:
    head, separator, _ = uri.partition("://")
    return f"{head}://" if separator else f"{uri.partition(':')[0]}:"


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


_NO_FILES = "pods cannot read files on your machine"
_NO_SECRETS = "a local run has no Secrets"
_OF_FILES = {
    "caFile": "caSecret (key ca.crt)",
    "clientCertificateFile": "clientSecret (key tls.crt)",
    "clientKeyFile": "clientSecret (key tls.key)",
}
"""Fields that name a local file, and the Secret to use in a cluster."""
_OF_SECRETS = {"caSecret": "caFile", "clientSecret": "clientCertificateFile and clientKeyFile"}


def _load(spec: RunSpec, place: Place) -> Iterator[str]:
    """Yield a sentence for each setting of `spec.load` that is not supported at `place`."""
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
        if not _starts_with_tls(spec):
            yield "spec.load.tls: the server that the run starts has no TLS; leave it out."
    elif external.url is not None and not external.url.startswith(("https://", "grpcs://")):
        scheme = external.url.partition("://")[0]
        yield (
            f"spec.load.tls: the server's url begins with {scheme}://, which is without TLS; write "
            f"{scheme}s:// in spec.server.external.url, or leave tls out."
        )


def _starts_with_tls(spec: RunSpec) -> bool:
    descriptor = RUNTIMES.get(spec.server.runtime)
    launch = None if descriptor is None else descriptor.launch
    return launch is not None and launch.speaks_tls


def _tls_elsewhere(tls: Tls, place: Place) -> Iterator[str]:
    given = tls.model_dump(by_alias=True, exclude_none=True)
    others, why = (_OF_SECRETS, _NO_SECRETS) if place == "Local" else (_OF_FILES, _NO_FILES)
    for name, instead in others.items():
        if name in given:
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
