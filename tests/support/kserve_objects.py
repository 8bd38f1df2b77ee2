"""What KServe creates for the InferenceService of a run, in the shapes that v0.15.2 creates."""

from typing import Any

from inferometer_api.plan.cluster_objects import inference_name, predictor_name
from inferometer_operator.reconcile.observed import InferenceObjects
from support.cluster_objects import Object, bound, server_pod
from support.condition_rows import for_kserve
from support.pretend_cluster import PretendCluster


def predictor_service(run_name: str = "a-run", *, headless: bool = False) -> Object:
    """Return the Service of a predictor: KServe gives the first port of the pods the number 80."""
    return {
        "metadata": {"name": predictor_name(run_name)},
        "spec": {
            "clusterIP": "None" if headless else "10.96.0.7",
            "selector": {"app": f"isvc.{predictor_name(run_name)}"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8000, "protocol": "TCP"},
                {"name": "grpc", "port": 8001, "targetPort": 8001, "protocol": "TCP"},
            ],
        },
    }


def deploy(cluster: PretendCluster, *, headless: bool = False) -> PretendCluster:
    """Let KServe create Service and Deployment, and that its ReplicaSet and pod on a node."""
    made = cluster.made[cluster.server]
    name = cluster.run["metadata"]["name"]
    replica_set = f"uid-of-replica-set-{made}"
    cluster.inference = InferenceObjects(
        service=predictor_service(name, headless=headless), replica_sets=frozenset({replica_set})
    )
    pod = bound(server_pod(cluster.run, made), "node1", f"10.88.0.{made}")
    pod["metadata"]["ownerReferences"] = [
        {
            "controller": True,
            "kind": "ReplicaSet",
            "name": f"{predictor_name(name)}-5d8f",
            "uid": replica_set,
        }
    ]
    cluster.pods[pod["metadata"]["name"]] = pod
    return cluster.settle()


def serving_by_kserve(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster whose server KServe runs, and whose load generator prepares."""
    return deploy(for_kserve(spec).settle()).start_server().start_load()


def inference_key(run_name: str = "a-run") -> str:
    """Return the key of a run's InferenceService in a pretend cluster."""
    return f"InferenceService/{inference_name(run_name)}"
