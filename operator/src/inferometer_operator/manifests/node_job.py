"""The children of a NodeBenchmark: a Job on each node, and the ConfigMap with its document."""

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.nodes.selection import GPU_RESOURCE
from inferometer_api.plan.cluster_objects import (
    NODE_BENCHMARK,
    RESULT,
    labels,
    node_benchmark_child,
)
from inferometer_api.plan.deadlines import JOB_MARGIN_SECONDS
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata
from inferometer_operator.manifests.pod_spec import PYTHON, container, pod_spec
from inferometer_operator.settings import Settings

DOCUMENT_FILE = "node.json"
"""Key of the document in its ConfigMap."""
_GRACE_SECONDS = 5
_REQUESTS = {"cpu": "1", "memory": "1Gi"}
"""Without limits: they would bound what is measured. No other measurement is on the node."""


def node_job(
    spec: NodeBenchmarkSpec, owner: Owner, node: str, settings: Settings, gpus: int = 0
) -> Manifest:
    """Return the Job that measures a node, once, while no run uses it.

    With GPUs its pod requests them, and uses the GPU image.
    """
    command = [
        *(PYTHON, "-m", "inferometer_serving.node"),
        *("--folder", "/tmp", "--most-seconds", str(spec.max_seconds)),  # noqa: S108 - an emptyDir
        *(word for each in spec.only for word in ("--only", each)),
    ]
    images = settings.images
    image = images.serving_gpu if gpus else images.serving
    resources: Manifest = {"requests": _REQUESTS}
    if gpus:
        resources["limits"] = {GPU_RESOURCE: str(gpus)}
    probe = container(NODE_BENCHMARK, image, images, command, resources)
    source = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    probe["env"].append({"name": "NODE_NAME", "valueFrom": source})
    # The operator ends it earlier; this is for a Job whose operator is gone.
    seconds = spec.active_deadline_seconds + JOB_MARGIN_SECONDS
    job = job_on(node, node, [probe], spec, owner, settings, deadline_seconds=seconds)
    if gpus and settings.gpu.runtime_class is not None:
        job["spec"]["template"]["spec"]["runtimeClassName"] = settings.gpu.runtime_class
    return job


def job_on(  # noqa: PLR0913 - each is one fact of the Job, and named
    node: str,
    key: str,
    containers: list[Manifest],
    spec: NodeBenchmarkSpec,
    owner: Owner,
    settings: Settings,
    *,
    deadline_seconds: int,
) -> Manifest:
    """Return a Job whose one pod runs on a node, while no run uses it.

    `key` distinguishes the Job from others of the NodeBenchmark.
    """
    pod = pod_spec(settings, owner, grace_seconds=_GRACE_SECONDS)
    pod["containers"] = containers
    pod["affinity"]["nodeAffinity"] = _only_on(node)
    tolerations = [*spec.tolerations, *(settings.gpu.tolerations if spec.gpus else ())]
    pod["tolerations"] += [each.model_dump(mode="json", exclude_none=True) for each in tolerations]
    name = node_benchmark_child(owner.name, owner.uid, key)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(owner, name, NODE_BENCHMARK),
        "spec": {
            "activeDeadlineSeconds": deadline_seconds,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": labels(owner.name, owner.uid, NODE_BENCHMARK)},
                "spec": pod,
            },
        },
    }


def document_map(document: str, owner: Owner, node: str) -> Manifest:
    """Return the ConfigMap with the document of a node."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(
            owner, node_benchmark_child(owner.name, owner.uid, node), RESULT
        ),
        "immutable": True,
        "data": {DOCUMENT_FILE: document},
    }


def _only_on(node: str) -> Manifest:
    """Return that the scheduler takes this node alone; it still heeds all other pods there."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [field]}]
        }
    }
