"""Paths of the API server, by kind."""

from inferometer_api.plan.cluster_objects import GROUP, KSERVE_GROUP, KUEUE_API_VERSION

_KINDS = {
    "BenchmarkRun": (f"apis/{GROUP}/v1alpha1", "benchmarkruns"),
    "BenchmarkSuite": (f"apis/{GROUP}/v1alpha1", "benchmarksuites"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "InferenceService": (f"apis/{KSERVE_GROUP}/v1beta1", "inferenceservices"),
    "ReplicaSet": ("apis/apps/v1", "replicasets"),
    "EndpointSlice": ("apis/discovery.k8s.io/v1", "endpointslices"),
    "Event": ("api/v1", "events"),
    "Job": ("apis/batch/v1", "jobs"),
    "Lease": ("apis/coordination.k8s.io/v1", "leases"),
    "Node": ("api/v1", "nodes"),
    "NodeBenchmark": (f"apis/{GROUP}/v1alpha1", "nodebenchmarks"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "Pod": ("api/v1", "pods"),
    "ResourceFlavor": (f"apis/{KUEUE_API_VERSION}", "resourceflavors"),
    "Secret": ("api/v1", "secrets"),
    "Service": ("api/v1", "services"),
    "Workload": (f"apis/{KUEUE_API_VERSION}", "workloads"),
    "WorkloadPriorityClass": (f"apis/{KUEUE_API_VERSION}", "workloadpriorityclasses"),
}


def api_path(kind: str, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or of all objects if the name is empty.

    `namespace` None: those of every namespace.
    """
    root, plural = _KINDS[kind]
    words = [root, *(("namespaces", namespace) if namespace else ()), plural, name, subresource]
    return "/" + "/".join(word for word in words if word)
