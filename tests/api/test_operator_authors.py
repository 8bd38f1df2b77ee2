"""An author who may only create BenchmarkRuns gains no other right."""

from typing import Any

import pytest

from support.api_client import AnswerError, Api
from support.cluster.audit import requests
from support.cluster.namespaces import fresh_namespace
from support.operator_process import an_account
from support.stage import Stage

_MODEL = {"name": "m"}


def _external(**place: Any) -> dict[str, Any]:
    return {"model": _MODEL, "server": {"runtime": "External", "external": place}}


_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "claim": ({"model": {"uri": "pvc://private/a.onnx"}}, "NotAllowed"),
    "path": ({"model": {"uri": "pvc://private/../a.onnx"}}, "NotAvailable"),
    "config-map": (
        {"load": {"inputs": {"file": {"uri": "configmap://private/a.npz"}}}},
        "NotAllowed",
    ),
    "secret": (
        {"model": {"uri": "s3://bucket/a.onnx", "credentialsSecret": "private"}},
        "NotAllowed",
    ),
    "headers": ({"load": {"headersSecret": "private"}}, "NotAllowed"),
    "certificate": (
        {
            **_external(service={"name": "any", "port": 443}),
            "load": {"tls": {"clientSecret": "private"}},
        },
        "NotAllowed",
    ),
    "trace": (
        {"scenarios": [{"name": "replay", "trace": {"uri": "configmap://private/a.npz"}}]},
        "NotAllowed",
    ),
    "certificate-file": (
        {
            **_external(service={"name": "any", "port": 443}),
            "load": {"tls": {"caFile": "/etc/passwd"}},
        },
        "NotAvailable",
    ),
    "api-tls": (_external(url="https://kubernetes.default.svc"), "NotAllowed"),
    "api": (_external(url="http://kubernetes.default.svc:443"), "NotAllowed"),
    "metadata": (_external(url="http://169.254.169.254"), "NotAllowed"),
    "external-name": (_external(service={"name": "elsewhere", "port": 80}), "NotAllowed"),
    "no-selector": (_external(service={"name": "anywhere", "port": 443}), "NotAllowed"),
    "host-path": ({"model": {"uri": "file:/etc/passwd"}}, "NotAvailable"),
}
"""What an author may not name, and with which reason it is refused."""


@pytest.mark.parametrize("secrets", [False, True], ids=["no secrets", "secrets"])
def test_what_is_not_for_runs_is_refused(stage: Stage, *, secrets: bool) -> None:
    """No pod is made, and no Secret is read where the admin has not let runs name them."""
    claim = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
    elsewhere = {"type": "ExternalName", "externalName": "kubernetes.default.svc"}
    for kind, name, body in (
        ("PersistentVolumeClaim", "private", {"spec": claim}),
        ("ConfigMap", "private", {"data": {"a.npz": "x"}}),
        ("Secret", "private", {"stringData": {"accessKeyId": "x"}}),
        ("Service", "elsewhere", {"spec": elsewhere}),
        ("Service", "anywhere", {"spec": {"ports": [{"port": 443}]}}),
    ):
        stage.api.create(kind, stage.namespace, {"metadata": {"name": name}, **body})
    stage.start_operator(allowSecrets=secrets)
    with _author(stage) as author:
        for name, (spec, _) in _REFUSED.items():
            stage.apply(name, api=author, **spec)
    for name, (_, reason) in _REFUSED.items():
        condition = stage.wait("Failed", reason, name=name)
        assert condition["message"]
        stage.finished(name)
    assert stage.children() == set()
    audited = requests(stage.control_plane.audit_log, stage.user)
    assert any(each.resource == "secrets" for each in audited) == secrets


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
    rule = {"apiGroups": ["inferometer.dev"], "resources": ["benchmarkruns"], "verbs": ["create"]}
    return Api(stage.control_plane, an_account(stage.api, stage.namespace, "author", [rule]))
