"""KServe runs the server of a run; the test plays KServe, and its definitions are the real ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from inferometer_api.plan import rights
from inferometer_api.plan.cluster_objects import inference_name, predictor_name
from inferometer_operator.manifests.inference_service import inference_objects
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.manifests.server_job import server_job
from support.admission import changed, refusal
from support.api_client import Api
from support.cluster.audit import requests
from support.kserve_module import install_definitions, remove_definitions
from support.manifests import PLAIN, read
from support.stage import Stage

_ENABLED: dict[str, Any] = {"kserve": {"enabled": True}}
_SERVER = {"runtime": "KServe"}
_NAME = inference_name("a-run")


@pytest.fixture
def kserve(api: Api) -> Iterator[None]:
    """Install KServe's definitions."""
    install_definitions(api)
    yield
    remove_definitions(api)


def _owner(kind: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = owner["metadata"]
    version = "serving.kserve.io/v1beta1" if kind == "InferenceService" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": metadata["name"]}
    return [{**reference, "uid": metadata["uid"], "controller": True}]


def _found(stage: Stage, kind: str) -> dict[str, Any]:
    """Return one of the run's two objects, once it is there."""
    stage.wait_for(lambda: stage.api.found(kind, stage.namespace, _NAME), f"the {kind}")
    found = stage.api.found(kind, stage.namespace, _NAME)
    assert found is not None
    return found


def _deploy(stage: Stage) -> None:
    """Create what KServe creates: a Deployment, whose controller goes on, and a Service."""
    service, runtime = (_found(stage, kind) for kind in ("InferenceService", "ServingRuntime"))
    predictor = {
        name: value
        for name, value in service["spec"]["predictor"].items()
        if name not in {"model", "minReplicas", "maxReplicas", "deploymentStrategy"}
    }
    of_pod = {
        name: value
        for name, value in runtime["spec"].items()
        if name in {"containers", "volumes", "affinity", "tolerations"}
    }
    name = predictor_name("a-run")
    labels = {**runtime["spec"]["labels"], "app": f"isvc.{name}"}
    metadata = {
        "name": name,
        "labels": labels,
        "ownerReferences": _owner("InferenceService", service),
    }
    selector = {"app": labels["app"]}
    ports = [{"name": "http", "port": 80, "targetPort": 8000}]
    stage.api.create(
        "Service",
        stage.namespace,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": selector, "ports": ports},
        },
    )
    stage.api.create(
        "Deployment",
        stage.namespace,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": selector},
                "template": {"metadata": {"labels": labels}, "spec": {**of_pod, **predictor}},
            },
        },
    )


def test_without_kserves_definitions_a_run_is_rejected(stage: Stage) -> None:
    """The condition names what the cluster lacks; nothing is created."""
    stage.start_operator(**_ENABLED)
    stage.apply(server=_SERVER)
    message = stage.wait("Accepted", "KServeNotFound", value="False")["message"]
    assert "the cluster serves no InferenceServices, so KServe is not installed" in message
    stage.finished()


@pytest.mark.usefixtures("kserve")
def test_a_run_is_measured_through_kserves_service_and_leaves_nothing(stage: Stage) -> None:
    """The API server takes both objects whole; the operator uses its rights and no others."""
    stage.start_operator(**_ENABLED)
    stage.apply(server=_SERVER)
    _deploy(stage)
    stage.wait("Measuring")
    plan = stage.api.found("ConfigMap", stage.namespace, "a-run-load")
    assert plan is not None
    url = f'"url":"http://{predictor_name("a-run")}.{stage.namespace}.svc:80"'
    assert url in plan["data"]["plan.json"]
    assert stage.finished()["phase"] == "Complete"
    for kind in ("InferenceService", "ServingRuntime"):
        assert stage.api.found(kind, stage.namespace, _NAME) is None
    granted = {(each.resource, verb) for each in rights.KSERVE for verb in each.verbs}
    found = requests(stage.control_plane.audit_log, stage.user)
    used = {(each.resource, each.verb) for each in found}
    # An object is read again only after a conflict.
    only_after_conflict = {("inferenceservices", "get"), ("servingruntimes", "get")}
    assert granted - only_after_conflict <= used


FORBIDDEN: dict[str, tuple[tuple[str, tuple[str | int, ...], Any], ...]] = {
    "no service account": (
        ("InferenceService", ("spec", "predictor", "serviceAccountName"), "admin"),
        ("InferenceService", ("spec", "predictor", "automountServiceAccountToken"), True),
    ),
    "share no namespace": (
        ("InferenceService", ("spec", "predictor", "hostNetwork"), True),
        ("ServingRuntime", ("spec", "hostIPC"), True),
    ),
    "do not run as root": (
        ("InferenceService", ("spec", "predictor", "securityContext", "runAsNonRoot"), False),
    ),
    "Volumes of": (
        ("ServingRuntime", ("spec", "volumes", 0), {"name": "tmp", "hostPath": {"path": "/"}}),
    ),
    "no privileges": (
        ("ServingRuntime", ("spec", "containers", 0, "securityContext"), {"privileged": True}),
        (
            "InferenceService",
            ("spec", "predictor", "initContainers", 0, "securityContext"),
            {"privileged": True},
        ),
    ),
    "one predictor": (
        ("InferenceService", ("spec", "predictor", "model", "storageUri"), "pvc://theirs"),
        ("InferenceService", ("spec", "predictor", "model", "runtime"), "theirs"),
        ("InferenceService", ("spec", "predictor", "containers"), [{"name": "a", "image": "a"}]),
    ),
    "its labels": (("ServingRuntime", ("metadata", "labels"), None),),
    "one owner": (("InferenceService", ("metadata", "ownerReferences"), None),),
}


@pytest.mark.usefixtures("kserve")
def test_the_operators_token_gains_nothing_by_kserve(stage: Stage) -> None:
    """The admission policy bounds what KServe may run as it bounds the Jobs of the operator."""
    owner = Owner("a-run", stage.namespace, "0c9e8f3a-1111-4222-8333-444455556666")
    job = server_job(read(stage.a_run("a-run", server=_SERVER)), owner, PLAIN)
    made = {each["kind"]: each for each in inference_objects(job, owner)}
    with Api(stage.control_plane, stage.operator_token(kserve=True)) as thief:
        stage.wait_for(
            lambda: refusal(thief, "ConfigMap", stage.namespace, {}), "the policy to hold"
        )
        for kind, each in made.items():
            assert refusal(thief, kind, stage.namespace, each) == ""
        for words, changes in FORBIDDEN.items():
            for kind, path, value in changes:
                refused = refusal(thief, kind, stage.namespace, changed(made[kind], path, value))
                assert words in refused, (path, value, refused)
                assert "ValidatingAdmissionPolicy" in refused
