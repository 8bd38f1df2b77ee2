"""Refusals of valid specs: what this version cannot do, and what one place cannot do."""

from collections.abc import Iterator
from typing import assert_never

from inferometer_api.plan.cluster_objects import HOSTNAME_LABEL, LOADGEN_PORT
from inferometer_api.plan.result_folder import export_address
from inferometer_api.runtimes.descriptor import Place, RuntimeDescriptor
from inferometer_api.runtimes.launch_refusals import UNAVAILABLE
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.scenarios.table import SCENARIOS, most_clients
from inferometer_api.spec.address import AddressError, address
from inferometer_api.spec.load import Load, Tls
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_api.spec.scenario import ColdStartState
from inferometer_api.spec.zoo_address import UnknownModelError, zoo_model, zoo_name

_NOT_HERE = "is not available in this version"

_Refusal = tuple[str, bool, str]
"""The path of a field, whether its value is refused, and the sentence that follows the path."""


def unavailable(run: BenchmarkRun, *, place: Place) -> tuple[str, ...]:
    """Return a sentence for each setting that this version does not support at `place`.

    Each sentence begins with the path of a field. Empty if the run can be tried.
    """
    spec = run.spec
    descriptor = RUNTIMES.get(spec.server.runtime, UNAVAILABLE)
    at_place = _unavailable_locally if place == "Local" else _unavailable_in_cluster
    return (
        *_limits(spec, descriptor),
        *_scenario_kinds(spec),
        *_mixes(spec, descriptor),
        *_models_of_bricks(spec),
        *_cold_starts(spec, place),
        *at_place(spec, descriptor),
        *_load(spec, descriptor, place),
    )


def _limits(spec: RunSpec, descriptor: RuntimeDescriptor) -> Iterator[str]:
    """Yield what the runtime does not support at any place."""
    if descriptor is UNAVAILABLE:
        runtime = spec.server.runtime
        yield f"spec.server.runtime: {runtime} {_NOT_HERE}; available: {_listed(tuple(RUNTIMES))}."
    for limit in descriptor.limits:
        value = limit.value(spec.server)
        if value not in limit.supported:
            yield f"{limit.path}: {value} {_NOT_HERE}; available: {_listed(limit.supported)}."


def _scenario_kinds(spec: RunSpec) -> Iterator[str]:
    for index, scenario in enumerate(spec.scenarios):
        if scenario.kind not in SCENARIOS:
            yield (
                f"spec.scenarios[{index}].{scenario.kind}: {scenario.kind} {_NOT_HERE}; "
                f"available: {_listed(tuple(SCENARIOS))}."
            )


def _mixes(spec: RunSpec, descriptor: RuntimeDescriptor) -> Iterator[str]:
    """Yield a sentence for each model that a launched server would not have, or has twice."""
    if descriptor.launch is None:
        return
    names = spec.launched_models
    for index, name in enumerate(names[1:]):
        if name in names[: index + 1]:
            yield (
                f"spec.otherModels[{index}].uri: another model of the server has the name {name}, "
                "the last part of its address; take a copy of the file with another name."
            )
    for index, scenario in enumerate(spec.scenarios):
        for each, mixed in enumerate(scenario.mix or ()):
            if mixed.model not in names:
                yield (
                    f"spec.scenarios[{index}].mix[{each}].model: the server holds "
                    f"{_listed(names)}, and not {mixed.model}; name one of these, or add the "
                    "address of the model to spec.otherModels."
                )


def _models_of_bricks(spec: RunSpec) -> Iterator[str]:
    for index, scenario in enumerate(spec.scenarios):
        for each, uri in enumerate(scenario.bricks.models if scenario.bricks else ()):
            try:
                zoo_model(zoo_name(uri))
            except UnknownModelError as error:
                yield f"spec.scenarios[{index}].bricks.models[{each}]: {error}"


def _unavailable_locally(spec: RunSpec, descriptor: RuntimeDescriptor) -> Iterator[str]:
    if not _runs_locally(descriptor):
        yield (
            f"spec.server.runtime: {spec.server.runtime} runs in clusters only; available here: "
            f"{_listed(tuple(name for name, each in RUNTIMES.items() if _runs_locally(each)))}."
        )
    yield from _local_addresses(spec, descriptor)
    yield from _refused_by_runtime(spec, descriptor, "Local")
    for path, is_refused, sentence in _refused_locally(spec):
        if is_refused:
            yield f"{path}: {sentence}."


def _unavailable_in_cluster(spec: RunSpec, descriptor: RuntimeDescriptor) -> Iterator[str]:
    yield from _cluster_addresses(spec, descriptor)
    yield from _refused_by_runtime(spec, descriptor, "Cluster")


def _cold_starts(spec: RunSpec, place: Place) -> Iterator[str]:
    for index, scenario in enumerate(spec.scenarios):
        cold = scenario.cold_start
        if cold is not None and place == "Cluster":
            path = f"spec.scenarios[{index}].coldStart.state"
            yield from _cold_in_cluster(path, cold.state, spec)
            others = {
                f"spec.otherModels[{number}].uri": each.uri
                for number, each in enumerate(spec.other_models or ())
            }
            for where, uri in {"spec.model.uri": spec.model.uri, **others}.items():
                if uri is not None and uri.startswith("pvc://"):
                    yield (
                        f"{where}: it is not known which pages of a claim's file are in memory "
                        "before a cold start; take a model that is fetched: zoo://, https:// or "
                        "s3://."
                    )
        elif cold is not None and cold.state == "Nothing":
            yield (
                f"spec.scenarios[{index}].coldStart.state: a local run has no image to remove; "
                "available here: ImagePresent, ModelCached, ModelInMemory."
            )


def _cold_in_cluster(path: str, state: ColdStartState, spec: RunSpec) -> Iterator[str]:
    match state:
        case "ImagePresent":
            return
        case "Nothing":
            yield from _without_image(path, spec)
        case "ModelCached" | "ModelInMemory":
            yield (
                f"{path}: the pod of each start fetches the model anew, so that nothing of it is "
                "on the node; available in clusters: ImagePresent, Nothing."
            )
        case _:
            assert_never(state)


def _without_image(path: str, spec: RunSpec) -> Iterator[str]:
    """Yield why the image of a server cannot be removed from its node before each start."""
    launch = RUNTIMES.get(spec.server.runtime, UNAVAILABLE).launch
    if launch is None or launch.images or launch.by_kserve:
        yield (
            f"{path}: only images of Inferometer are removed from nodes, and a server of runtime "
            f"{spec.server.runtime} has another; available: ImagePresent."
        )
    if HOSTNAME_LABEL not in spec.server.placement.node_selector:
        yield (
            f"{path}: Nothing removes the server's image from one node; name the node in "
            f"spec.server.placement.nodeSelector with {HOSTNAME_LABEL}."
        )
    if spec.model.cache is not None:
        yield f"{path}: the node's cache has the model; leave spec.model.cache out."


def _runs_locally(descriptor: RuntimeDescriptor) -> bool:
    return descriptor.launch is None or descriptor.launch.local is not None


def _local_addresses(spec: RunSpec, descriptor: RuntimeDescriptor) -> Iterator[str]:
    uri, schemes = spec.model.uri, descriptor.model_schemes.local
    if uri is not None and not uri.startswith(schemes):
        yield (
            f"spec.model.uri: {_scheme(uri)} needs a cluster; available here: {_listed(schemes)}."
        )
    for index, other in enumerate(spec.other_models or ()):
        if not other.uri.startswith(schemes):
            yield (
                f"spec.otherModels[{index}].uri: {_scheme(other.uri)} needs a cluster; available "
                f"here: {_listed(schemes)}."
            )
    readable = descriptor.data_schemes.local
    for path, uri in spec.data_addresses:
        if not uri.startswith(readable):
            yield (
                f"{path}: a local run reads {_listed(readable)} only, not {_scheme(uri)}; fetch "
                "the file and name it as file:PATH, relative to the run file."
            )


def _cluster_addresses(spec: RunSpec, descriptor: RuntimeDescriptor) -> Iterator[str]:
    uri = spec.model.uri
    if uri is not None:
        yield from _in_cluster("spec.model.uri", uri, descriptor.model_schemes.cluster)
        if uri.startswith("s3://") and spec.model.credentials_secret is None:
            yield (
                "spec.model.credentialsSecret: s3:// needs the keys of its store; name a Secret "
                "with accessKeyId and secretAccessKey, labelled inferometer.dev/allow-use=s3."
            )
    for index, other in enumerate(spec.other_models or ()):
        path = f"spec.otherModels[{index}].uri"
        yield from _in_cluster(path, other.uri, descriptor.model_schemes.cluster)
        yield from _without_keys(path, other.uri, spec)
    yield from _export_address(spec)
    for path, data in spec.data_addresses:
        yield from _in_cluster(path, data, descriptor.data_schemes.cluster)
        yield from _without_keys(path, data, spec)


def _without_keys(path: str, uri: str, spec: RunSpec) -> Iterator[str]:
    if uri.startswith("s3://") and spec.model.credentials_secret is None:
        yield (
            f"{path}: s3:// is read with the keys of the model's store "
            "(spec.model.credentialsSecret), which are absent; use configmap://NAME/KEY, "
            "pvc://CLAIM/PATH or https://..."
        )


def _export_address(spec: RunSpec) -> Iterator[str]:
    export = spec.retention.export
    if export is not None:
        try:
            export_address(export.uri)
        except AddressError as error:
            yield f"spec.retention.export.uri: {error}"


def _in_cluster(path: str, uri: str, schemes: tuple[str, ...]) -> Iterator[str]:
    if not uri.startswith(schemes):
        yield (
            f"{path}: pods cannot reach {_scheme(uri)} on your machine; "
            f"available in a cluster: {_listed(schemes)}."
        )
        return
    try:
        address(uri)
        if uri.startswith("zoo://"):
            zoo_model(zoo_name(uri))
    except (AddressError, UnknownModelError) as error:
        yield f"{path}: {error}"


def _refused_by_runtime(
    spec: RunSpec, descriptor: RuntimeDescriptor, place: Place
) -> Iterator[str]:
    for refusal in descriptor.refusals:
        sentence = refusal.sentence(spec.server) if refusal.place in {place, None} else None
        if sentence is not None:
            yield f"{refusal.path}: {sentence}."


def _refused_locally(spec: RunSpec) -> tuple[_Refusal, ...]:
    return (
        (
            "spec.model.cache",
            spec.model.cache is not None,
            "a local run has no model cache of a node; leave it out",
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


def _load(spec: RunSpec, descriptor: RuntimeDescriptor, place: Place) -> Iterator[str]:
    """Yield a sentence for each setting of `spec.load` that is not supported at `place`."""
    load = spec.load
    if load.tls is not None:
        without = descriptor.without_tls(spec.server)
        if without is not None:
            yield f"spec.load.tls: {without}."
        yield from _tls_elsewhere(load.tls, place)
    if place == "Local" and load.headers_secret is not None:
        yield f"spec.load.headersSecret: {_NO_SECRETS}; name a file in spec.load.headersFile."
    if place == "Cluster" and load.headers_file is not None:
        yield f"spec.load.headersFile: {_NO_FILES}; name a Secret in spec.load.headersSecret."
    if place == "Cluster" and load.receiver_port == LOADGEN_PORT:
        yield (
            f"spec.load.tracing.receiverPort: the load generator answers the operator at port "
            f"{LOADGEN_PORT} of its pod; use another one, such as 4318."
        )
    yield from _too_many_clients(spec, load)


def _tls_elsewhere(tls: Tls, place: Place) -> Iterator[str]:
    given = tls.model_dump(by_alias=True, exclude_none=True)
    others, why = (_OF_SECRETS, _NO_SECRETS) if place == "Local" else (_OF_FILES, _NO_FILES)
    for name, instead in others.items():
        if name in given:
            yield f"spec.load.tls.{name}: {why}; use {instead}."


def _too_many_clients(spec: RunSpec, load: Load) -> Iterator[str]:
    room = load.connections * load.streams_per_connection
    for index, scenario in enumerate(spec.scenarios):
        most = (most_clients(scenario) or 0) if scenario.kind in SCENARIOS else 0
        if load.protocol == "GRPC" and most > room:
            yield (
                f"spec.scenarios[{index}].{scenario.kind}.clients: {most} clients are more than "
                f"the {room} requests that {load.connections} connections with "
                f"{load.streams_per_connection} streams each carry at a time; raise "
                "spec.load.connections or spec.load.streamsPerConnection."
            )
