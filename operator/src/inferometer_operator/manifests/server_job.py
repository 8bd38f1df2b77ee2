"""The Job of the server under test: one pod for each replica, none of which is restarted."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from inferometer_api.plan.cluster_objects import (
    HOSTNAME_LABEL,
    PULL_ANNOTATION,
    REPEAT_LABEL,
    SERVER,
    labels,
    server_name,
)
from inferometer_api.plan.fetch_commands import (
    fetch_command,
    fetch_other_command,
    other_model_path,
    pod_layout,
    pod_manifest,
)
from inferometer_api.plan.launch import server_containers, spans_url
from inferometer_api.runtimes.descriptor import Listen, ServerContainer, ServerLaunch, ServerStart
from inferometer_api.spec.address import INPUTS_FILE, MANIFEST_FILE, Address
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Resources, Server, Toleration
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata
from inferometer_operator.manifests.pod_spec import (
    PYTHON,
    SCRAPED_PORT,
    container,
    job_deadline_seconds,
    mount,
    plain_words,
    pod_spec,
    scrape_annotations,
)
from inferometer_operator.manifests.sources import (
    SOURCES,
    addresses,
    cache_volume,
    checksums_file,
    fetch_container,
    fetching_other,
    fetching_pod,
    mount_all,
    mount_cache,
    volumes,
)
from inferometer_operator.settings import Settings

_MODEL_FOLDER = "/model"
_MODEL_VOLUME = "model"
_NO_GPUS: Mapping[str, str] = MappingProxyType({})
_PROBE_MARGIN_SECONDS = 60
"""How much longer than the ready deadline the kubelet waits: the operator ends the run first."""


def server_job(
    run: BenchmarkRun,
    owner: Owner,
    settings: Settings,
    *,
    repeat: int = 1,
    nodes: Sequence[str] = (),
    requirements: Sequence[Manifest] = (),
) -> Manifest:
    """Return the Job of a resolved run whose server is not External.

    No server is restarted within a repeat: a measurement of it would be INVALID. The Job of each
    `repeat` replaces that of the one before, preferably on the same `nodes`. The nodes satisfy the
    `requirements`, which are expressions of their labels. The Job's pods have the QoS
    class Guaranteed: requests equal limits in every container. Raises AddressError if an address
    of the run is not valid.
    """
    made = _job(run, owner, settings)
    if run.spec.pulls_image:
        node = run.spec.server.placement.node_selector[HOSTNAME_LABEL]
        made["metadata"]["annotations"] = {PULL_ANNOTATION: node}
    template = made["spec"]["template"]
    if repeat > 1:
        for metadata in (made["metadata"], template["metadata"]):
            metadata["labels"][REPEAT_LABEL] = str(repeat)
    affinity = _preferably_on(nodes) if nodes else {}
    if requirements:
        term = {"matchExpressions": list(requirements)}
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    if affinity:
        template["spec"]["affinity"]["nodeAffinity"] = affinity
    return made


def _preferably_on(nodes: Sequence[str]) -> Manifest:
    """Return a preference for these nodes: repeats should differ by their processes alone."""
    terms = (
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in nodes
    )
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": term} for term in terms
        ]
    }


def _job(run: BenchmarkRun, owner: Owner, settings: Settings) -> Manifest:
    launch, replicas = settings.launch_of(run.spec), run.spec.server.replicas
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(owner, server_name(owner.name), SERVER),
        "spec": {
            "activeDeadlineSeconds": job_deadline_seconds(run),
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "completions": replicas,
            "parallelism": replicas,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {
                    "labels": labels(owner.name, owner.uid, SERVER),
                    **scrape_annotations(launch.scraped_port, settings),
                },
                "spec": _pod(run, owner, launch, settings),
            },
        },
    }


def _pod(run: BenchmarkRun, owner: Owner, launch: ServerLaunch, settings: Settings) -> Manifest:
    server, file = run.spec.server, run.spec.load.inputs.file
    manifest = pod_manifest(run)
    others = (None if each is None else each.uri for each in (file, manifest))
    places = addresses(*_models(run), *others)
    spec = pod_spec(settings, owner, grace_seconds=launch.stop_seconds)
    spec["volumes"] += [
        {"name": _MODEL_VOLUME, "emptyDir": {"sizeLimit": settings.model_storage}},
        *volumes(places),
    ]
    if fetchers := _fetchers(run, launch, settings, places):
        spec["initContainers"] = fetchers
    described = server_containers(run, launch, _start(run, launch, settings))
    serving, *sidecars = (_container(each, launch, server, settings) for each in described)
    _add_ports_and_probe(serving, launch, run)
    mount_all(serving, addresses(*_models(run)))
    mount(serving, _MODEL_VOLUME, _MODEL_FOLDER, read_only=True)
    cached = cache_volume(run)
    if cached is not None:
        spec["volumes"].append(cached)
        mount_cache(serving)
    spec["containers"] = [serving, *sidecars]
    shared = {volume for each in described for volume in each.volumes}
    spec["volumes"] += [
        {"name": volume, "emptyDir": {"sizeLimit": settings.model_storage}}
        for volume in sorted(shared - {_MODEL_VOLUME})
    ]
    place_pod(spec, server, settings)
    return spec


def _fetchers(
    run: BenchmarkRun, launch: ServerLaunch, settings: Settings, places: Sequence[Address]
) -> list[Manifest]:
    """Return an init container for each model that is fetched, the run's own first."""
    server = run.spec.server
    commands = {
        "fetch": fetch_command(
            run, launch, destination=_MODEL_FOLDER, python=PYTHON, pod=fetching_pod(run, settings)
        )
    }
    for number, other in enumerate(run.spec.other_models or (), 1):
        pod = fetching_other(other, settings)
        commands[f"fetch-{number}"] = fetch_other_command(
            other, destination=_MODEL_FOLDER, python=PYTHON, pod=pod
        )
    image = settings.images.named(launch.fetcher_image(server), launch.images)
    # The GPU is the server's alone; all containers request its CPU and memory.
    resources = _resources(server, gpu=False)
    fetchers = [
        fetch_container(run, image, command, resources, settings, name=name)
        for name, command in commands.items()
        if command
    ]
    for fetcher in fetchers:
        mount_all(fetcher, places)
        mount(fetcher, _MODEL_VOLUME, _MODEL_FOLDER, read_only=False)
    return fetchers


def _models(run: BenchmarkRun) -> tuple[str | None, ...]:
    """Return the addresses of all models of a run's server."""
    return (run.spec.model.uri, *(each.uri for each in run.spec.other_models or ()))


def _start(run: BenchmarkRun, launch: ServerLaunch, settings: Settings) -> ServerStart:
    return ServerStart(
        layout=pod_layout(run, launch, destination=_MODEL_FOLDER, sources=SOURCES),
        python=PYTHON,
        inputs_file=None if run.spec.load.inputs.file is None else f"{_MODEL_FOLDER}/{INPUTS_FILE}",
        listen=Listen(
            "0.0.0.0",  # noqa: S104 - the pod's own addresses
            launch.http_port,
            launch.grpc_port,
            launch.scraped_port,
        ),
        other_models={
            each.served_name: other_model_path(each, destination=_MODEL_FOLDER, sources=SOURCES)
            for each in run.spec.other_models or ()
        },
        max_model_bytes=fetching_pod(run, settings).max_model_bytes,
        checksums_file=checksums_file(run),
        manifest_file=f"{_MODEL_FOLDER}/{MANIFEST_FILE}"
        if run.spec.model.runs_steps_in_server
        else None,
        spans_url=spans_url(run, "Cluster"),
    )


def _container(
    described: ServerContainer, launch: ServerLaunch, server: Server, settings: Settings
) -> Manifest:
    own = described.resources
    resources = _resources(server, gpu=True) if own is None else _guaranteed(own)
    image = settings.images.named(described.image, launch.images)
    made = container(described.name, image, settings.images, described.command, resources)
    if described.arguments:
        made["args"] = plain_words(described.arguments)
    made["env"] += [{"name": name, "value": value} for name, value in described.env.items()]
    for volume, path in described.volumes.items():
        mount(made, volume, path, read_only=volume == _MODEL_VOLUME)
    return made


def _add_ports_and_probe(serving: Manifest, launch: ServerLaunch, run: BenchmarkRun) -> None:
    ports = {SCRAPED_PORT: launch.scraped_port, "grpc": launch.grpc_port}
    if launch.http_port != launch.scraped_port:
        ports["requests"] = launch.http_port
    serving["ports"] = [
        {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()
    ]
    # No other probe: once the server is ready, no probe disturbs it.
    serving["startupProbe"] = {
        "httpGet": {"path": launch.ready_path_of(run), "port": launch.http_port},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": run.spec.server.ready_deadline_seconds + _PROBE_MARGIN_SECONDS,
    }


def _resources(server: Server, *, gpu: bool) -> Manifest:
    gpus = {server.gpu.resource: str(server.gpu.count)} if gpu and server.gpu is not None else {}
    return _guaranteed(server.resources, gpus)


def _guaranteed(resources: Resources, gpus: Mapping[str, str] = _NO_GPUS) -> Manifest:
    quantities = {"cpu": resources.cpu, "memory": resources.memory, **gpus}
    return {"requests": dict(quantities), "limits": dict(quantities)}


def server_tolerations(server: Server, settings: Settings) -> list[Toleration]:
    """Return the taints that the pods of a server tolerate."""
    of_gpus = settings.gpu.tolerations if server.device == "GPU" else ()
    return [*server.placement.tolerations, *of_gpus]


def place_pod(spec: Manifest, server: Server, settings: Settings) -> None:
    """Add node selector, tolerations and runtime class."""
    if server.device == "GPU" and settings.gpu.runtime_class is not None:
        spec["runtimeClassName"] = settings.gpu.runtime_class
    tolerations = server_tolerations(server, settings)
    spec["tolerations"] += [each.model_dump(mode="json", exclude_none=True) for each in tolerations]
    if server.placement.node_selector:
        spec["nodeSelector"] = dict(server.placement.node_selector)
