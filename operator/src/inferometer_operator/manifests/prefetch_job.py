"""The Jobs that bring the models of a suite's cells to the caches of their nodes."""

import json
from collections.abc import Iterable

from inferometer_api.plan.cluster_objects import PREFETCH, labels, prefetch_name
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata
from inferometer_operator.manifests.pod_spec import PYTHON, container, pod_spec
from inferometer_operator.manifests.server_job import place_pod
from inferometer_operator.manifests.sources import cache_volume, mount_cache
from inferometer_operator.settings import Settings

PREFETCH_SECONDS = 900
"""A model that is not on its node by then is fetched by its first run."""
_KEPT_SECONDS = 60
_GRACE_SECONDS = 0
_RESOURCES = {"cpu": "10m", "memory": "64Mi"}


def prefetch_jobs(
    runs: Iterable[BenchmarkRun], owner: Owner, settings: Settings
) -> dict[str, Manifest]:
    """Return a Job by its name for each model that runs mount, and each placement of theirs.

    Its pod mounts the volume and ends. It is never on a node with a run or NodeBenchmark.
    """
    made: dict[str, Manifest] = {}
    for run in runs:
        volume = cache_volume(run)
        if volume is None:
            continue
        server = run.spec.server
        placement = server.placement.model_dump(mode="json", exclude_none=True)
        what = json.dumps([volume, placement, server.device], sort_keys=True)
        name = prefetch_name(owner.name, owner.uid, what)
        if name not in made:
            made[name] = _job(name, run, volume, owner, settings)
    return made


def _job(
    name: str, run: BenchmarkRun, volume: Manifest, owner: Owner, settings: Settings
) -> Manifest:
    pod = pod_spec(settings, owner, grace_seconds=_GRACE_SECONDS)
    resources = {"requests": _RESOURCES, "limits": _RESOURCES}
    images = settings.images
    reader = container(PREFETCH, images.serving, images, [PYTHON, "-c", "pass"], resources)
    mount_cache(reader)
    pod["containers"] = [reader]
    pod["volumes"].append(volume)
    place_pod(pod, run.spec.server, settings)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(owner, name, PREFETCH),
        "spec": {
            "activeDeadlineSeconds": PREFETCH_SECONDS,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {
                "metadata": {"labels": labels(owner.name, owner.uid, PREFETCH)},
                "spec": pod,
            },
        },
    }
