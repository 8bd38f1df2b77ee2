"""The InferenceService and the ServingRuntime by which KServe runs a server."""

from copy import deepcopy

from inferometer_api.plan.cluster_objects import KSERVE_GROUP, SERVER, inference_name
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata

_FORMAT = {"name": "onnx", "version": "1"}
_OF_RUNTIME = (
    "containers",
    "volumes",
    "nodeSelector",
    "affinity",
    "tolerations",
    "imagePullSecrets",
)
"""The fields of a pod that a ServingRuntime has. KServe takes the others from the predictor."""
_ANNOTATIONS = {
    # Known to every version; newer ones call it Standard.
    f"{KSERVE_GROUP}/deploymentMode": "RawDeployment",
    f"{KSERVE_GROUP}/autoscalerClass": "none",
}
_INTERNAL = {"networking.kserve.io/visibility": "cluster-local"}
"""No Ingress: the load comes from inside the cluster."""


def inference_objects(job: Manifest, owner: Owner) -> tuple[Manifest, Manifest]:
    """Return the ServingRuntime and the InferenceService with the pods of a server's Job.

    KServe merges both into the pods of a Deployment, which restarts containers. Without a
    storageUri, no storage initializer of KServe's runs: the pods' own init container fetches.
    """
    template = job["spec"]["template"]
    pod = {name: value for name, value in template["spec"].items() if name != "restartPolicy"}
    name, labels = inference_name(owner.name), job["metadata"]["labels"]
    of_runtime = {each: pod.pop(each) for each in _OF_RUNTIME if each in pod}
    server = of_runtime["containers"][0]
    runtime = {
        "apiVersion": f"{KSERVE_GROUP}/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": child_metadata(owner, name, SERVER),
        "spec": {
            # No other InferenceService may come upon it.
            "supportedModelFormats": [{**_FORMAT, "autoSelect": False}],
            "protocolVersions": ["v2", "grpc-v2"],
            "multiModel": False,
            "labels": dict(template["metadata"]["labels"]),
            "annotations": dict(template["metadata"].get("annotations", {})),
            **of_runtime,
        },
    }
    metadata = child_metadata(owner, name, SERVER)
    metadata["labels"] = {**labels, **_INTERNAL}
    metadata["annotations"] = dict(_ANNOTATIONS)
    service = {
        "apiVersion": f"{KSERVE_GROUP}/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {
            "predictor": {
                "minReplicas": job["spec"]["parallelism"],
                "maxReplicas": job["spec"]["parallelism"],
                # Never two servers side by side on a node.
                "deploymentStrategy": {"type": "Recreate"},
                "model": {
                    "modelFormat": dict(_FORMAT),
                    "runtime": name,
                    # KServe's own defaults would replace those of the runtime.
                    "resources": deepcopy(server["resources"]),
                },
                **pod,
            }
        },
    }
    return runtime, service
