"""What does somebody gain who may do no more than create BenchmarkRuns?"""

import json
from typing import Any

import pytest

from support.api_client import AnswerError, Api, Object
from support.cluster.audit import requests
from support.cluster.namespaces import fresh_namespace
from support.stage import SOON_SECONDS, Stage

_MODEL = {"name": "m"}


def _external(**place: Any) -> dict[str, Any]:
    return {"model": _MODEL, "server": {"runtime": "External", "external": place}}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"model": {"uri": "pvc://private/a.onnx"}}, "NotAllowed"),
        ({"model": {"uri": "pvc://private/../a.onnx"}}, ""),
        ({"load": {"inputs": {"file": {"uri": "configmap://private/a.npz"}}}}, "NotAllowed"),
        (
            {"model": {"uri": "s3://bucket/a.onnx", "credentialsSecret": "private"}},
            "NotAllowed",
        ),
        (_external(url="http://kubernetes.default.svc:443"), "NotAllowed"),
        (_external(url="http://169.254.169.254"), "NotAllowed"),
        (_external(service={"name": "elsewhere", "port": 80}), "NotAllowed"),
        ({"model": {"uri": "file:/etc/passwd"}}, "NotAvailable"),
    ],
    ids=["claim", "path", "config map", "secret", "api", "metadata", "external name", "host path"],
)
@pytest.mark.parametrize("secrets", [False, True], ids=["no secrets", "secrets"])
def test_what_is_not_for_runs_is_refused(
    stage: Stage, spec: dict[str, Any], reason: str, *, secrets: bool
) -> None:
    """No pod is made, and no Secret's content is ever asked for."""
    claim = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
    for kind, name, body in (
        ("PersistentVolumeClaim", "private", {"spec": claim}),
        ("ConfigMap", "private", {"data": {"a.npz": "x"}}),
        ("Secret", "private", {"stringData": {"accessKeyId": "x"}}),
        (
            "Service",
            "elsewhere",
            {"spec": {"type": "ExternalName", "externalName": "kubernetes.default.svc"}},
        ),
    ):
        stage.api.create(kind, stage.namespace, {"metadata": {"name": name}, **body})
    stage.start_operator(allowSecrets=secrets)
    author = _author(stage)
    with author:
        if not reason:
            # What the schema itself forbids need not be tried further.
            with pytest.raises(AnswerError, match="422"):
                stage.apply(api=author, **spec)
            return
        stage.apply(api=author, **spec)
    told = stage.wait("Failed", reason, within_seconds=SOON_SECONDS)
    assert told["message"]
    stage.finished()
    assert stage.children() == set()
    read = [
        each
        for each in requests(stage.control_plane.audit_log, stage.user)
        if each.resource == "secrets"
    ]
    assert bool(read) == (secrets and "s3" in json.dumps(spec))


def test_a_status_that_an_author_sends_is_not_believed(stage: Stage) -> None:
    """It is dropped at creation, and may not be written later."""
    stage.start_operator()
    forged = {**stage.a_run("a-run", suspend=True), "status": {"phase": "Complete"}}
    with _author(stage) as author:
        run = author.create("BenchmarkRun", stage.namespace, forged)
        assert "status" not in run
        with pytest.raises(AnswerError, match="403"):
            author.merge("BenchmarkRun", stage.namespace, "a-run", forged, "status")


def test_runs_of_other_namespaces_are_not_served(stage: Stage) -> None:
    """In namespaced mode the operator neither sees nor may see them."""
    stage.start_operator()
    with fresh_namespace(stage.control_plane) as other:
        body = {**stage.a_run("elsewhere"), "metadata": {"name": "elsewhere"}}
        stage.api.create("BenchmarkRun", other, body)
        stage.apply()
        stage.finished()
        found = stage.api.found("BenchmarkRun", other, "elsewhere")
        assert found is not None
        assert "status" not in found


def _author(stage: Stage) -> Api:
    """Return a client that may create BenchmarkRuns in the namespace, and nothing else."""
    name = "author"
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "ServiceAccount"},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "rules": [
                {
                    "apiGroups": ["inferometer.dev"],
                    "resources": ["benchmarkruns"],
                    "verbs": ["create"],
                }
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": stage.namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        },
    ]
    named = [{**each, "metadata": {"name": name, "namespace": stage.namespace}} for each in objects]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": named})
    stage.control_plane.kubectl("apply", "-f", "-", stdin=text)
    token = stage.control_plane.kubectl("-n", stage.namespace, "create", "token", name).strip()
    return Api(stage.control_plane, token)
