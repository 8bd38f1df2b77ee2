"""KServe runs the server of a run; the test plays KServe, and its definitions are the real ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from inferometer_api.plan import rights
from inferometer_api.plan.cluster_objects import inference_name, predictor_name
from inferometer_operator.manifests.inference_service import inference_service
from inferometer_operator.manifests.owner import Owner
from inferometer_operator.manifests.server_job import server_job
from support.admission import changed, refusal
from support.api_client import Api
from support.cluster.audit import requests
from support.definitions import create_definitions, remove_definitions
from support.kserve_module import needed_definitions
from support.manifests import PLAIN, read
from support.stage import Stage

_ENABLED: dict[str, Any] = {"kserve": {"enabled": True}}
_SERVER = {"runtime": "KServe"}
_NAME = inference_name("a-run")
_OF_COMPONENT = {"labels", "annotations", "minReplicas", "maxReplicas", "deploymentStrategy"}
"""Fields of a predictor that a pod lacks."""


@pytest.fixture
def kserve(api: Api) -> Iterator[None]:
    """Install KServe's definitions."""
    create_definitions(api, needed_definitions())
    yield
    remove_definitions(api, needed_definitions())


def _owner(kind: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = owner["metadata"]
    version = "serving.kserve.io/v1beta1" if kind == "InferenceService" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": metadata["name"]}
    return [{**reference, "uid": metadata["uid"], "controller": True}]


def _service(stage: Stage) -> dict[str, Any] | None:
    return stage.api.found("InferenceService", stage.namespace, _NAME)


def _deploy(stage: Stage) -> None:
    """Create what KServe creates: a Deployment, whose controller goes on, and a Service."""
    stage.wait_for(lambda: _service(stage), "the InferenceService")
    service = _service(stage)
    assert service is not None
    predictor = {
        name: value
        for name, value in service["spec"]["predictor"].items()
        if name not in _OF_COMPONENT
    }
    name = predictor_name("a-run")
    labels = {**service["spec"]["predictor"]["labels"], "app": f"isvc.{name}"}
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
                "template": {"metadata": {"labels": labels}, "spec": predictor},
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
    """The API server takes the object whole; the operator uses its rights and no others."""
    stage.start_operator(**_ENABLED)
    stage.apply(server=_SERVER)
    _deploy(stage)
    stage.wait("Measuring")
    plan = stage.api.found("ConfigMap", stage.namespace, "a-run-load")
    assert plan is not None
    url = f'"url":"http://{predictor_name("a-run")}.{stage.namespace}.svc:80"'
    assert url in plan["data"]["plan.json"]
    assert stage.finished()["phase"] == "Complete"
    assert _service(stage) is None
    granted = {(each.resource, verb) for each in rights.KSERVE for verb in each.verbs}
    found = requests(stage.control_plane.audit_log, stage.user)
    used = {(each.resource, each.verb) for each in found}
    # An object is read again only after a conflict.
    assert granted - {("inferenceservices", "get")} <= used


PREDICTOR = ("spec", "predictor")
FORBIDDEN: dict[str, tuple[tuple[tuple[str | int, ...], Any], ...]] = {
    "no service account": (
        ((*PREDICTOR, "serviceAccountName"), "admin"),
        ((*PREDICTOR, "automountServiceAccountToken"), True),
    ),
    "share no namespace": (((*PREDICTOR, "hostNetwork"), True),),
    "do not run as root": (((*PREDICTOR, "securityContext", "runAsNonRoot"), False),),
    "Volumes of": (((*PREDICTOR, "volumes", 0), {"name": "tmp", "hostPath": {"path": "/"}}),),
    "no privileges": (
        ((*PREDICTOR, "containers", 0, "securityContext"), {"privileged": True}),
        ((*PREDICTOR, "initContainers", 0, "securityContext"), {"privileged": True}),
    ),
    "one predictor": (
        ((*PREDICTOR, "onnx"), {"storageUri": "pvc://theirs"}),
        (("spec", "transformer"), {"containers": [{"name": "a", "image": "a"}]}),
    ),
    "its labels": ((("metadata", "labels"), None),),
    "one owner": ((("metadata", "ownerReferences"), None),),
}


@pytest.mark.usefixtures("kserve")
def test_the_operators_token_gains_nothing_by_kserve(stage: Stage) -> None:
    """The admission policy bounds what KServe may run as it bounds the Jobs of the operator."""
    owner = Owner("a-run", stage.namespace, "0c9e8f3a-1111-4222-8333-444455556666")
    job = server_job(read(stage.a_run("a-run", server=_SERVER)), owner, PLAIN)
    kind, made = "InferenceService", inference_service(job, owner)
    with Api(stage.control_plane, stage.operator_token(kserve=True)) as thief:
        stage.wait_for(
            lambda: refusal(thief, "ConfigMap", stage.namespace, {}), "the policy to hold"
        )
        assert refusal(thief, kind, stage.namespace, made) == ""
        for words, changes in FORBIDDEN.items():
            for path, value in changes:
                refused = refusal(thief, kind, stage.namespace, changed(made, path, value))
                assert words in refused, (path, value, refused)
                assert "ValidatingAdmissionPolicy" in refused
