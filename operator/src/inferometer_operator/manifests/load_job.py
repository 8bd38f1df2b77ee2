"""The Job of the load generator: one pod, or those of a fleet."""

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    JOB_INDEX_LABEL,
    LOADGEN,
    LOADGEN_PORT,
    RUN_UID_LABEL,
    SERVER,
    labels,
    load_name,
    load_service_name,
)
from inferometer_api.plan.credentials import Credentials, credentials_below, secrets_of
from inferometer_api.plan.fetch_commands import fetch_inputs_command
from inferometer_api.plan.launch import fleet_pods, load_command
from inferometer_api.spec.address import INPUTS_FILE, MANIFEST_FILE, dataset_file, trace_file
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Scenario
from inferometer_operator.manifests.config_maps import PLAN_FILE
from inferometer_operator.manifests.exporter import (
    RESULTS_FOLDER,
    add_exporter,
    exporter_seconds,
)
from inferometer_operator.manifests.load_service import load_service_ports
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata
from inferometer_operator.manifests.pod_spec import (
    HOST,
    PYTHON,
    SCRAPED_PORT,
    container,
    job_deadline_seconds,
    mount,
    pod_spec,
    scrape_annotations,
)
from inferometer_operator.manifests.sources import (
    addresses,
    fetch_container,
    fetching_pod,
    mount_all,
    volumes,
)
from inferometer_operator.settings import Settings

_INPUTS_FOLDER = "/inputs"
_PLAN_FOLDER = "/etc/inferometer"
_CREDENTIALS_FOLDER = "/etc/inferometer-credentials"
_PLAN_VOLUME, _INPUTS_VOLUME = "plan", "inputs"
_READABLE = 0o440
"""Readable by the pod's user and group."""
_GRACE_SECONDS = 30
"""How long the load generator may take to write its result."""


def inputs_path(run: BenchmarkRun) -> str | None:
    """Return the path of the .npz file of inputs, or None for random inputs."""
    return None if run.spec.load.inputs.file is None else f"{_INPUTS_FOLDER}/{INPUTS_FILE}"


def trace_paths(run: BenchmarkRun) -> dict[str, str]:
    """Return where the load generator finds each trace and data set, by its scenario's name."""
    return {
        scenario.name: f"{_INPUTS_FOLDER}/{_data_file(scenario)}"
        for scenario in run.spec.scenarios
        if scenario.data_uri is not None
    }


def _data_file(scenario: Scenario) -> str:
    return (trace_file if scenario.dataset is None else dataset_file)(scenario.name)


def manifest_path(run: BenchmarkRun) -> str | None:
    """Return where the load generator finds the model's manifest; None if it has none."""
    return None if run.spec.model.manifest is None else f"{_INPUTS_FOLDER}/{MANIFEST_FILE}"


def credentials_of(run: BenchmarkRun) -> Credentials:
    """Return where the load generator finds certificates and headers."""
    return credentials_below(_CREDENTIALS_FOLDER, run.spec.load)


def load_job(run: BenchmarkRun, owner: Owner, settings: Settings) -> Manifest:
    """Return the Job that measures a resolved run, once and never again.

    Its pods request CPU and have no CPU limit, because throttling would distort the measurement.
    The pods of a fleet share plan and command: the index gives each its role, and only index 0
    answers the operator. Raises AddressError if an address of the run is not valid.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(owner, load_name(owner.name), LOADGEN),
        "spec": {
            "activeDeadlineSeconds": job_deadline_seconds(run) + exporter_seconds(run),
            **_pods_of(run),
            # No pod replaces one that may still be measuring.
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {
                    "labels": labels(owner.name, owner.uid, LOADGEN),
                    **scrape_annotations(LOADGEN_PORT, settings),
                },
                "spec": _pod(run, owner, settings),
            },
        },
    }


def _pods_of(run: BenchmarkRun) -> Manifest:
    """Return the number of pods, and that none is replaced."""
    count = fleet_pods(run)
    if count == 1:
        return {"backoffLimit": 0, "completions": 1, "parallelism": 1}
    return {
        # Per index: else a worker that fails would have the pod of index 0 deleted, which is
        # writing the result to its log.
        "backoffLimitPerIndex": 0,
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
    }


def _pod(run: BenchmarkRun, owner: Owner, settings: Settings) -> Manifest:
    spec = pod_spec(settings, owner, grace_seconds=_GRACE_SECONDS)
    loader = _container(run, settings)
    plan = {"name": load_name(owner.name), "items": [{"key": PLAN_FILE, "path": PLAN_FILE}]}
    spec["volumes"].append({"name": _PLAN_VOLUME, "configMap": plan})
    mount(loader, _PLAN_VOLUME, _PLAN_FOLDER, read_only=True)
    _mount_credentials(run, spec, loader)
    data = [uri for _, uri in run.spec.data_addresses]
    if data:
        places = addresses(*data)
        spec["volumes"] += [
            {"name": _INPUTS_VOLUME, "emptyDir": {"sizeLimit": settings.model_storage}},
            *volumes(places),
        ]
        command = fetch_inputs_command(
            run, destination=_INPUTS_FOLDER, python=PYTHON, pod=fetching_pod(run, settings)
        )
        image = settings.images.serving
        fetcher = fetch_container(run, image, command, _resources(settings), settings)
        mount_all(fetcher, places)
        mount(fetcher, _INPUTS_VOLUME, _INPUTS_FOLDER, read_only=False)
        mount(loader, _INPUTS_VOLUME, _INPUTS_FOLDER, read_only=True)
        spec["initContainers"] = [fetcher]
    spec["containers"] = [loader]
    add_exporter(spec, loader, run, owner, settings)
    if not any(uri.startswith("pvc://") for uri in data):
        # A claim may be bound to one node, which is then the server's too.
        spec["affinity"]["podAntiAffinity"] |= _apart_from_the_server(owner)
    if fleet_pods(run) > 1:
        spec["subdomain"] = load_service_name(owner.name)
        spec["topologySpreadConstraints"] = [_spread(owner)]
    _place(spec, settings)
    return spec


def _mount_credentials(run: BenchmarkRun, spec: Manifest, loader: Manifest) -> None:
    """Mount certificates and headers into the load generator alone.

    A key that a Secret lacks is left out, so that the load generator can name it.
    """
    for folder, (secret, keys) in secrets_of(run.spec.load).items():
        source = {"secretName": secret, "defaultMode": _READABLE, "optional": True}
        if keys:
            source["items"] = [{"key": key, "path": key} for key in keys]
        spec["volumes"].append({"name": folder, "secret": source})
        mount(loader, folder, f"{_CREDENTIALS_FOLDER}/{folder}", read_only=True)


def _container(run: BenchmarkRun, settings: Settings) -> Manifest:
    images = settings.images
    command = load_command(
        PYTHON,
        plan_path=f"{_PLAN_FOLDER}/{PLAN_FILE}",
        port=LOADGEN_PORT,
        results=None if run.spec.retention.export is None else RESULTS_FOLDER,
    )
    loader = container(LOADGEN, images.loadgen, images, command, _resources(settings))
    loader["env"] += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (("NODE_NAME", "spec.nodeName"), ("POD_NAME", "metadata.name"))
    ]
    loader["ports"] = [{"name": SCRAPED_PORT, "containerPort": LOADGEN_PORT, "protocol": "TCP"}]
    loader["ports"] += [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in load_service_ports(run).items()
    ]
    return loader


def _resources(settings: Settings) -> Manifest:
    resources = settings.load.resources
    return {
        "requests": {"cpu": resources.cpu, "memory": resources.memory},
        "limits": {"memory": resources.memory},
    }


def _apart_from_the_server(owner: Owner) -> Manifest:
    """Return a preference for another node than the server's."""
    identity = {RUN_UID_LABEL: owner.uid, COMPONENT_LABEL: SERVER}
    term = {"labelSelector": {"matchLabels": identity}, "topologyKey": HOST}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}


def _spread(owner: Owner) -> Manifest:
    """Return a preference to spread the workers over nodes; the master sends no load."""
    workers = {
        "matchLabels": {RUN_UID_LABEL: owner.uid, COMPONENT_LABEL: LOADGEN},
        "matchExpressions": [{"key": JOB_INDEX_LABEL, "operator": "NotIn", "values": ["0"]}],
    }
    return {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": workers,
    }


def _place(spec: Manifest, settings: Settings) -> None:
    spec["tolerations"] += [
        each.model_dump(mode="json", exclude_none=True) for each in settings.load.tolerations
    ]
    if settings.load.node_selector:
        spec["nodeSelector"] = dict(settings.load.node_selector)
