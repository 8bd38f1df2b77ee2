"""The exporter of a load pod: it alone has the keys of the store, or writes to the claim."""

from inferometer_api.plan.cluster_objects import EXPORTER
from inferometer_api.plan.deadlines import RESULT_SECONDS
from inferometer_api.plan.exporting import export_command, export_folder
from inferometer_api.plan.result_folder import claim_folder, export_address
from inferometer_api.spec.run import BenchmarkRun, Export
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.pod_spec import PYTHON, container, mount
from inferometer_operator.manifests.sources import store_environment
from inferometer_operator.settings import Settings

RESULTS_FOLDER = "/results"
"""Where load generator and exporter find the result folder."""
_TARGETS = "/targets"
_RESULTS_VOLUME, _TARGET_VOLUME = "results", "export"
_RESULTS_BYTES = "4Gi"
EXPORTER_CPU, EXPORTER_MEMORY = "10m", "128Mi"
"""What it requests: it sleeps until the measurement is over."""
_RESOURCES: Manifest = {
    "requests": {"cpu": EXPORTER_CPU, "memory": EXPORTER_MEMORY},
    "limits": {"memory": "256Mi"},
}


def exporter_seconds(run: BenchmarkRun) -> int:
    """Return for how long after the run's deadline the exporter may retry: 0 without one."""
    return 0 if run.spec.retention.export is None else RESULT_SECONDS


def add_exporter(
    spec: Manifest, loader: Manifest, run: BenchmarkRun, owner: Owner, settings: Settings
) -> None:
    """Add the exporter to the spec of a load pod, if the run has an export."""
    export = run.spec.retention.export
    if export is None:
        return
    spec["volumes"].append({"name": _RESULTS_VOLUME, "emptyDir": {"sizeLimit": _RESULTS_BYTES}})
    mount(loader, _RESULTS_VOLUME, RESULTS_FOLDER, read_only=False)
    exporter = _container(export, run, owner, settings)
    mount(exporter, _RESULTS_VOLUME, RESULTS_FOLDER, read_only=True)
    found = export_address(export.uri)
    if found.kind == "pvc":
        claim = {"claimName": found.place}
        spec["volumes"].append({"name": _TARGET_VOLUME, "persistentVolumeClaim": claim})
        mount(exporter, _TARGET_VOLUME, claim_folder(_TARGETS, found.place), read_only=False)
    spec["containers"].append(exporter)


def _container(export: Export, run: BenchmarkRun, owner: Owner, settings: Settings) -> Manifest:
    command = export_command(
        PYTHON,
        results=RESULTS_FOLDER,
        target=export_folder(export.uri, owner.name, owner.uid),
        claims=_TARGETS,
        give_up_seconds=run.spec.active_deadline_seconds + exporter_seconds(run),
    )
    images = settings.images
    exporter = container(EXPORTER, images.serving, images, command, _RESOURCES)
    # The load generator writes to /tmp too.
    exporter["volumeMounts"] = []
    exporter["env"] = store_environment(export.credentials_secret)
    return exporter
