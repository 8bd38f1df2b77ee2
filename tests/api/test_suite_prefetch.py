"""The models of a suite are brought to the nodes before its first run."""

import json

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL, PREFETCH
from support.api_client import Object
from support.fake_pod import Pod
from support.stage import Stage
from support.suite_stage import (
    apply_suite,
    created_runs,
    finished_suite,
    short_suite,
    suite_condition,
)

CACHED = {"uri": "https://models/m.onnx", "sha256": "ab" * 32, "cache": "Node"}


def _bind(pod: Pod) -> None:
    """Play a pod whose volume is not mounted yet."""
    pod.bind()


def _cached_suite(**model: str) -> Object:
    suite = short_suite()
    suite["spec"]["template"]["spec"]["model"] = CACHED | model
    return suite


def test_runs_wait_until_the_models_are_there(stage: Stage) -> None:
    """One pod mounts the model of all cells; the first run is created after its end."""
    stage.play(PREFETCH, _bind)
    stage.start_operator(modelCache=True)
    plan = apply_suite(stage, _cached_suite())
    pod = stage.kubelet.pod(stage.namespace, PREFETCH)
    stage.wait_for(
        lambda: "0 of 1" in suite_condition(stage, "Complete").get("message", ""),
        lambda: json.dumps(suite_condition(stage, "Complete")),
    )
    assert created_runs(stage) == []
    pod.start()
    pod.end(0)
    assert finished_suite(stage)["states"] == "VV"
    assert created_runs(stage) == [run.name for run in plan.runs]
    assert len(stage.kubelet.all(stage.namespace, PREFETCH)) == 1


def test_a_prefetch_that_fails_delays_no_run_further(stage: Stage) -> None:
    """The run's own pod then mounts the model, or reports why it cannot."""

    def fail(pod: Pod) -> None:
        pod.bind()
        pod.start()
        pod.end(1)

    stage.play(PREFETCH, fail)
    stage.start_operator(modelCache=True)
    apply_suite(stage, _cached_suite())
    assert finished_suite(stage)["states"] == "VV"
    assert len(stage.kubelet.all(stage.namespace, PREFETCH)) == 1


def test_a_secret_that_runs_may_not_use_is_not_named(stage: Stage) -> None:
    """No pod is created with it; the runs are refused as ever."""
    stage.play(PREFETCH, _bind)
    secret = {"metadata": {"name": "keys", "labels": {ALLOW_USE_LABEL: "tls"}}}
    stage.api.create("Secret", stage.namespace, secret)
    stage.start_operator(modelCache=True, allowSecrets=True)
    apply_suite(stage, _cached_suite(uri="s3://bucket/m.onnx", credentialsSecret="keys"))
    assert finished_suite(stage)["states"] == "FF"
    assert stage.kubelet.all(stage.namespace, PREFETCH) == []
