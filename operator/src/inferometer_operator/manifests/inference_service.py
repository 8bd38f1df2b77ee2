"""The InferenceService by which KServe runs a server."""

from inferometer_api.plan.cluster_objects import KSERVE_GROUP, SERVER, inference_name
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata

_ANNOTATIONS = {
    # Known to every version; newer ones call it Standard.
    f"{KSERVE_GROUP}/deploymentMode": "RawDeployment",
    f"{KSERVE_GROUP}/autoscalerClass": "none",
}
_INTERNAL = {"networking.kserve.io/visibility": "cluster-local"}
"""No Ingress: the load comes from inside the cluster."""


def inference_service(job: Manifest, owner: Owner) -> Manifest:
    """Return the InferenceService with the pods of a server's Job.

    Its predictor has containers of its own, because a ServingRuntime has no init containers, and
    without a storageUri KServe would take it for a server of several models and add an agent.
    KServe makes a Deployment of it, which restarts containers.
    """
    template = job["spec"]["template"]
    pod = {name: value for name, value in template["spec"].items() if name != "restartPolicy"}
    metadata = child_metadata(owner, inference_name(owner.name), SERVER)
    metadata["labels"] = {**job["metadata"]["labels"], **_INTERNAL}
    metadata["annotations"] = dict(_ANNOTATIONS)
    return {
        "apiVersion": f"{KSERVE_GROUP}/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {
            "predictor": {
                "labels": dict(template["metadata"]["labels"]),
                "annotations": dict(template["metadata"].get("annotations", {})),
                "minReplicas": job["spec"]["parallelism"],
                "maxReplicas": job["spec"]["parallelism"],
                # Never two servers side by side on a node.
                "deploymentStrategy": {"type": "Recreate"},
                **pod,
            }
        },
    }
