"""KServe runs the server of a run, and its users' Service is what is measured."""

import json
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import RUN_UID_LABEL, inference_name
from inferometer_operator.manifests.inference_service import inference_service
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.reconcile.observed import InferenceObjects
from support.cluster_objects import Object, bound, server_pod, started, terminated, waiting
from support.condition_rows import VALID, a_cluster, for_kserve, kserve_fails, without_kserve
from support.kserve_objects import deploy, inference_key, predictor_service, serving_by_kserve
from support.manifests import OWNER, PLAIN, after, mounts, read
from support.pretend_cluster import PretendCluster
from support.runs import a_run

ISVC = inference_key()
_PLACED: dict[str, Any] = {
    "placement": {
        "nodeSelector": {"pool": "measured"},
        "tolerations": [{"key": "measured", "operator": "Exists"}],
    },
    "resources": {"cpu": "2", "memory": "1Gi"},
}


def _objects(**server: Any) -> tuple[Object, Object]:
    """Return the pods that a Job would have, and the InferenceService."""
    run = read(a_run(server={"runtime": "KServe", **server}))
    job = server_job(run, OWNER, PLAIN)
    return job["spec"]["template"], inference_service(job, OWNER)


def _planned_url(cluster: PretendCluster) -> str:
    plan = json.loads(cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"])
    (server,) = plan["servers"]
    assert (server["podUid"], server["node"]) == ("uid-of-a-run-server-1", "node1")
    return str(server["url"])


def test_the_pods_are_those_of_a_job() -> None:
    """The predictor holds every field of a launched server's pod."""
    template, service = _objects(**_PLACED)
    predictor = service["spec"]["predictor"]
    for name, value in template["spec"].items():
        assert predictor.get(name) == (None if name == "restartPolicy" else value), name
    assert predictor["labels"] == template["metadata"]["labels"]
    assert predictor["annotations"] == template["metadata"]["annotations"]
    assert predictor["nodeSelector"] == {"pool": "measured"}
    assert predictor["securityContext"]["runAsNonRoot"] is True
    assert predictor["automountServiceAccountToken"] is False
    assert [each["name"] for each in predictor["initContainers"]] == ["fetch"]
    assert [each["name"] for each in predictor["containers"]] == ["kserve-container"]


def test_the_predictor_runs_the_steps_of_a_manifest() -> None:
    """With pipeline Server its init container fetches the manifest, and its server reads it."""
    model = {
        "uri": "zoo://classification/resnet50",
        "manifest": {"uri": "configmap://m/k.yaml", "sha256": "a" * 64},
        "pipeline": "Server",
    }
    dataset = {"uri": "builtin://digits"}
    scenarios = [{"name": "a", "accuracy": {"dataset": dataset, "metrics": ["Top1"]}}]
    run = read(a_run(model=model, scenarios=scenarios, server={"runtime": "KServe"}))
    predictor = inference_service(server_job(run, OWNER, PLAIN), OWNER)["spec"]["predictor"]
    (fetch,), (server,) = predictor["initContainers"], predictor["containers"]
    assert [each for each in fetch["command"] if each.startswith("--data")] == [
        "--data=manifest.yaml=configmap://m/k.yaml",
        f"--data-sha256=manifest.yaml={'a' * 64}",
    ]
    assert mounts(fetch) == {"/sources/configmaps/m": True, "/model": False}
    assert after("--manifest", server["command"]) == "/model/manifest.yaml"
    assert mounts(server) == {"/model": True}


def test_the_predictor_mounts_a_model_of_the_cache() -> None:
    """With model.cache its server reads the volume of the node's cache, and nothing is fetched."""
    model = {"uri": "https://models/m.onnx", "sha256": "a" * 64, "cache": "Node"}
    run = read(a_run(model=model, server={"runtime": "KServe"}))
    predictor = inference_service(server_job(run, OWNER, PLAIN), OWNER)["spec"]["predictor"]
    (volume,) = (each for each in predictor["volumes"] if "csi" in each)
    assert volume["csi"]["volumeAttributes"] == {"uri": model["uri"], "sha256": model["sha256"]}
    assert "initContainers" not in predictor
    (server,) = predictor["containers"]
    assert mounts(server)[f"/sources/{volume['name']}"] is True
    assert after("--model", server["command"]) == f"/sources/{volume['name']}/model.onnx"


def test_kserve_adds_nothing_of_its_own() -> None:
    """No model, for which it would add an agent; one replica, no autoscaler, and no Ingress."""
    _, service = _objects(**_PLACED)
    predictor = service["spec"]["predictor"]
    assert not predictor.keys() & {"model", "onnx"}
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (1, 1)
    metadata = service["metadata"]
    assert metadata["annotations"]["serving.kserve.io/deploymentMode"] == "RawDeployment"
    assert metadata["annotations"]["serving.kserve.io/autoscalerClass"] == "none"
    assert metadata["labels"]["networking.kserve.io/visibility"] == "cluster-local"
    assert metadata["labels"][RUN_UID_LABEL] == OWNER.uid


@pytest.mark.parametrize("name", ["a", "0-digit", "x" * 60, "dots.in.it"])
def test_names_fit_one_label_beside_the_namespace(name: str) -> None:
    """KServe's host name has one label for both, and begins with a letter."""
    made = inference_name(name)
    assert len(made) <= 27
    assert made[0].isalpha()
    assert "." not in made


@pytest.mark.parametrize(
    ("protocol", "headless", "url"),
    [
        ("HTTP", False, "http://kserve-a-run-predictor.team.svc:80"),
        ("GRPC", False, "grpc://kserve-a-run-predictor.team.svc:8001"),
        ("HTTP", True, "http://kserve-a-run-predictor.team.svc:8000"),
    ],
)
def test_the_load_goes_to_the_service_of_the_predictor(
    protocol: str, url: str, *, headless: bool
) -> None:
    """It is sent as users send it; the plan knows the pod behind it, for energy and restarts."""
    cluster = for_kserve({"load": {"protocol": protocol}}).settle()
    assert [each for each in cluster.writes if each.startswith("make")] == [f"make {ISVC}"]
    deploy(cluster, headless=headless)
    assert _planned_url(cluster) == url


def test_no_load_is_planned_before_the_service_is_there() -> None:
    """A pod alone is not what users reach."""
    cluster = deploy(for_kserve().settle())
    del cluster.children["ConfigMap/a-run-load"], cluster.children["Job/a-run-load"]
    other = for_kserve().settle()
    other.pods = cluster.pods
    other.inference = InferenceObjects(replica_sets=frozenset({"uid-of-replica-set-1"}))
    assert "ConfigMap/a-run-load" not in other.settle().children


def test_a_run_completes_and_leaves_nothing() -> None:
    """The InferenceService goes with the other children, and Finished waits for the pod."""
    cluster = serving_by_kserve().measure()
    assert cluster.says("ServerReady") == ("True", "Ready")
    cluster.end_load(document=VALID)
    assert cluster.says("Finished") != ("True", "Complete")
    assert ISVC not in cluster.children
    cluster.collect_garbage().later(6)
    assert cluster.finished
    assert cluster.says("Complete") == ("True", "Measured")
    assert cluster.says("ServerReady") == ("False", "CleanedUp")


def test_a_foreign_pod_with_the_labels_is_no_server() -> None:
    """Only pods of ReplicaSets that belong to the run's InferenceService count."""
    cluster = for_kserve().settle()
    cluster.inference = InferenceObjects(service=predictor_service())
    foreign = started(bound(server_pod(cluster.run), "node1", "10.88.0.9"), ready=True)
    cluster.pods["foreign"] = foreign
    cluster.settle()
    assert cluster.says("ServerReady") == ("False", "ServerStarting")
    assert cluster.jobs_made == 0


def test_a_restarted_container_ends_the_measurement() -> None:
    """A Deployment restarts containers: its last end counts like that of a Job's pod."""
    cluster = serving_by_kserve().measure()
    (pod,) = (each for name, each in cluster.pods.items() if "server" in name)
    (container,) = pod["status"]["containerStatuses"]
    container["lastState"] = terminated(137, "It was so.")
    container["restartCount"] = 1
    cluster.settle()
    assert cluster.says("Failed") == ("True", "ServerEnded")
    assert "It was so." in cluster.message("Failed")


def test_a_model_that_is_not_fetched_ends_the_run_although_kserve_tries_again() -> None:
    """The fetcher's last end explains what waits in a crash loop."""
    cluster = deploy(for_kserve().settle())
    (pod,) = cluster.pods.values()
    fetcher = {
        "name": "fetch",
        "state": waiting("CrashLoopBackOff", "back-off 10s"),
        "lastState": terminated(1, "The address answers 404."),
    }
    pod["status"]["initContainerStatuses"] = [fetcher]
    cluster.settle()
    assert cluster.says("Failed") == ("True", "ModelNotFetched")
    assert "The address answers 404." in cluster.message("Failed")


def test_an_inference_service_that_is_deleted_ends_the_run() -> None:
    """It is not created again once the load Job was."""
    cluster = serving_by_kserve().measure()
    del cluster.children[ISVC]
    cluster.settle()
    assert cluster.says("Failed") == ("True", "ServerDeleted")
    assert "The InferenceService kserve-a-run was deleted" in cluster.message("Failed")


def test_without_kserve_a_run_is_rejected_with_the_reason() -> None:
    """A missing definition is a condition: nothing is created."""
    cluster = without_kserve()
    assert cluster.says("Accepted") == ("False", "KServeNotFound")
    assert "serves no InferenceServices. Install KServe" in cluster.message("Accepted")
    assert not cluster.made


def test_without_the_setting_a_run_is_not_allowed() -> None:
    """The admin decides whether runs may create InferenceServices."""
    cluster = a_cluster({"server": {"runtime": "KServe"}}, inference=InferenceObjects()).settle()
    assert cluster.says("Accepted") == ("False", "NotAllowed")
    assert "kserve.enabled" in cluster.message("Accepted")


def test_kserves_own_warning_is_quoted_until_the_deadline() -> None:
    """The run waits for KServe, and its condition says what KServe says."""
    cluster = kserve_fails()
    assert cluster.says("ServerReady") == ("False", "KServeFailed")
    assert "KServe cannot deploy the server: no runtime." in cluster.message("ServerReady")
    cluster.later(300)
    assert cluster.says("Failed") == ("True", "KServeFailed")


def test_pods_that_a_quota_refuses_are_reported() -> None:
    """The Deployment knows it: its ReplicaSet cannot create the pod."""
    cluster = for_kserve().settle()
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}
    cluster.inference = InferenceObjects(deployment={"status": {"conditions": [refused]}})
    cluster.later(5)
    assert cluster.says("ServerReady") == ("False", "QuotaExceeded")


def test_a_refused_object_is_named() -> None:
    """Admission may refuse it; the run waits as with a Job."""
    cluster = for_kserve()
    cluster.refusals[ISVC] = (403, "admission webhook says no")
    cluster.settle()
    assert cluster.says("ServerReady") == ("False", "AdmissionRefused")
    assert "refuses the InferenceService kserve-a-run" in cluster.message("ServerReady")


def test_the_server_is_replaced_between_repeats() -> None:
    """A new InferenceService comes once that of the repeat before and its pod are gone."""
    cluster = serving_by_kserve({"validity": {"repeats": 2}}).measure()
    cluster.measure(stage="WaitingForRestart", repeat=2)
    assert ISVC not in cluster.children
    cluster.collect_garbage()
    cluster.settle()
    assert cluster.made[ISVC] == 2
    deploy(cluster).start_server()
    (handed,) = {each.model_dump_json() for each in cluster.handovers}
    assert "kserve-a-run-predictor.team.svc:80" in handed
