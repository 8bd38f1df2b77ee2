"""The real KServe deploys the server of a run on real nodes, and its Service is measured."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import predictor_name
from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.kserve_process import start_kserve
from support.node_runs import (
    condition,
    make_config_map,
    make_run,
    run_result,
    status,
    wait_for,
)
from support.operator_installed import operator_installed
from support.waiting import wait_until

VALUES: dict[str, Any] = {
    "kserve": {"enabled": True},
    "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
}
_SERVER = {"runtime": "KServe", "resources": {"cpu": "250m", "memory": "512Mi"}}
_PIPELINE = Path(__file__).parents[2] / "examples/26-pipeline"
_LOOK_SECONDS = 20
"""How long a run measures, so that its children can be looked at meanwhile."""


@pytest.fixture(scope="module")
def kserve(nodes_can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster with KServe."""
    folder: Path = tmp_path_factory.mktemp("kserve")
    cluster = Cluster(f"tests-kserve-{os.getpid()}", images=images())
    try:
        start_kserve(cluster, folder / "kserve", cluster.start_in_control_plane)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def namespace(kserve: Cluster) -> Iterator[str]:
    """Install an operator whose runs may use KServe, in a namespace for restricted pods."""
    with operator_installed(kserve, "kserve", VALUES) as name:
        yield name


def _left(cluster: Cluster, namespace: str) -> list[str]:
    kinds = "inferenceservices,deployments,replicasets,pods,services"
    found = cluster.get(kinds, "--namespace", namespace)["items"]
    names = (f"{each['kind']}/{each['metadata']['name']}" for each in found)
    return [each for each in names if "kserve-" in each]


@pytest.mark.parametrize(("protocol", "port"), [("HTTP", 80), ("GRPC", 8001)])
def test_a_run_is_measured_as_users_of_kserve_reach_it(
    kserve: Cluster, namespace: str, protocol: str, port: int
) -> None:
    """The load goes to the predictor's Service; the result knows the pod; nothing is left."""
    run = f"by-{protocol.lower()}"
    validity = {"warmUpSeconds": 0, "minDurationSeconds": _LOOK_SECONDS, "minQueries": 10}
    load = {"protocol": protocol}
    make_run(kserve, namespace, run, server=_SERVER, load=load, validity=validity)
    wait_for(kserve, namespace, run, "Measuring")
    pod = json.dumps(kserve.get("pods", "--namespace", namespace)["items"])
    assert "serving.kserve.io/inferenceservice" in pod
    plan = kserve.get("configmap", f"{run}-load", "--namespace", namespace)["data"]["plan.json"]
    assert f"{predictor_name(run)}.{namespace}.svc:{port}" in plan
    wait_for(kserve, namespace, run, "Complete")
    wait_for(kserve, namespace, run, "Finished")
    assert [each["name"] for each in status(kserve, namespace, run)["scenarios"]] == ["one"]
    wait_until(lambda: not _left(kserve, namespace), "the end of what KServe created")


def test_the_steps_of_a_manifest_run_behind_kserve(
    kserve: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The server of the InferenceService decodes photographs, and the result has their shares."""
    make_config_map(kserve, namespace, "pipeline", _PIPELINE)
    model = {
        "uri": "zoo://classification/mobilenet_v3_small",
        "manifest": {"uri": "configmap://pipeline/model.yaml"},
        "pipeline": "Server",
    }
    dataset = {"uri": "configmap://pipeline/photographs.zip"}
    sampled = {"dataset": dataset, "metrics": ["Top1"], "sampleEvery": 1}
    scenarios = [{"name": "one", "singleStream": {}, "sampledAccuracy": sampled}]
    make_run(kserve, namespace, "steps", server=_SERVER, model=model, scenarios=scenarios)
    wait_for(kserve, namespace, "steps", "Complete")
    result = run_result(kserve, namespace, "steps", tmp_path)
    (scenario,) = result.scenarios
    assert scenario.accuracy is not None
    (figure,) = scenario.accuracy.figures
    assert figure.correct == figure.samples > 0
    spent = scenario.steps[0].server_time
    assert spent is not None
    shares = {each.step: each.share for each in spent.steps}
    assert list(shares) == ["decode", "resize", "crop", "normalize", "layout", "softmax", "topK"]
    assert all(share > 0 for share in shares.values())


def test_a_model_that_does_not_exist_ends_the_run(kserve: Cluster, namespace: str) -> None:
    """The fetcher's own words, although the Deployment restarts it again and again."""
    model = {"uri": "https://127.0.0.1:1/none.onnx", "sha256": "0" * 64}
    make_run(kserve, namespace, "no-model", server=_SERVER, model=model)
    wait_for(kserve, namespace, "no-model", "Failed")
    failed = condition(kserve, namespace, "no-model", "Failed")
    assert failed["reason"] == "ModelNotFetched"
    wait_until(lambda: not _left(kserve, namespace), "the end of what KServe created")
