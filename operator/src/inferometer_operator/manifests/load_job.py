"""Which Job runs the load generator?"""

from inferometer_api.address import INPUTS_FILE
from inferometer_api.children import (
    COMPONENT_LABEL,
    LOADGEN,
    LOADGEN_PORT,
    RUN_UID_LABEL,
    SERVER,
    labels,
    load_name,
)
from inferometer_api.launch import fetch_inputs_command, load_command
from inferometer_api.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata
from inferometer_operator.manifests.plan_map import PLAN_FILE
from inferometer_operator.manifests.restricted import PYTHON, container, mounted, pod_spec
from inferometer_operator.manifests.scraping import SCRAPED_PORT, scrape_annotations
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
_PLAN_VOLUME, _INPUTS_VOLUME = "plan", "inputs"
_GRACE_SECONDS = 30
"""How long the load generator may take to hand over what it measured."""


def inputs_path(run: BenchmarkRun) -> str | None:
    """Return where the load generator finds the .npz file of its inputs; None for random ones."""
    return None if run.spec.load.inputs.file is None else f"{_INPUTS_FOLDER}/{INPUTS_FILE}"


def load_job(run: BenchmarkRun, owner: Owner, settings: Settings) -> Manifest:
    """Return the Job that measures a resolved run, once and never again.

    Its pod requests CPU and has no limit of it: the instrument must not be throttled. Raises
    AddressError where an address of the run leads nowhere.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(owner, load_name(owner.name), LOADGEN),
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            # No other pod takes the place of one that may still be measuring.
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


def _pod(run: BenchmarkRun, owner: Owner, settings: Settings) -> Manifest:
    spec = pod_spec(settings, grace_seconds=_GRACE_SECONDS)
    spec["restartPolicy"] = "Never"
    loader = _container(settings)
    plan = {"name": load_name(owner.name), "items": [{"key": PLAN_FILE, "path": PLAN_FILE}]}
    spec["volumes"].append({"name": _PLAN_VOLUME, "configMap": plan})
    mounted(loader, _PLAN_VOLUME, _PLAN_FOLDER, read_only=True)
    file = run.spec.load.inputs.file
    if file is not None:
        places = addresses(file.uri)
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
        mounted(fetcher, _INPUTS_VOLUME, _INPUTS_FOLDER, read_only=False)
        mounted(loader, _INPUTS_VOLUME, _INPUTS_FOLDER, read_only=True)
        spec["initContainers"] = [fetcher]
    spec["containers"] = [loader]
    if file is None or not file.uri.startswith("pvc://"):
        # A claim may be of one node only, which is then the server's, too.
        spec["affinity"] = _apart_from_the_server(owner)
    _place(spec, settings)
    return spec


def _container(settings: Settings) -> Manifest:
    images = settings.images
    command = load_command(PYTHON, plan_path=f"{_PLAN_FOLDER}/{PLAN_FILE}", port=LOADGEN_PORT)
    made = container(LOADGEN, images.loadgen, images, command, _resources(settings))
    made["env"] += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (("NODE_NAME", "spec.nodeName"), ("POD_NAME", "metadata.name"))
    ]
    made["ports"] = [{"name": SCRAPED_PORT, "containerPort": LOADGEN_PORT, "protocol": "TCP"}]
    return made


def _resources(settings: Settings) -> Manifest:
    asked = settings.load.resources
    return {
        "requests": {"cpu": asked.cpu, "memory": asked.memory},
        "limits": {"memory": asked.memory},
    }


def _apart_from_the_server(owner: Owner) -> Manifest:
    """Return the wish for another node than the server's, which is granted where there is one."""
    identity = {RUN_UID_LABEL: owner.uid, COMPONENT_LABEL: SERVER}
    term = {"labelSelector": {"matchLabels": identity}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def _place(spec: Manifest, settings: Settings) -> None:
    spec["tolerations"] += [
        each.model_dump(mode="json", exclude_none=True) for each in settings.load.tolerations
    ]
    if settings.load.node_selector:
        spec["nodeSelector"] = dict(settings.load.node_selector)
