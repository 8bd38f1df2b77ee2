"""The API server of the tests is a real one, with the strict settings that tests rely on."""

import json
from pathlib import Path

import pytest

from support.cluster import audit
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace

_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "root"},
    "spec": {"containers": [{"name": "main", "image": "any", "securityContext": {}}]},
}


def test_a_control_plane_comes_and_goes(tmp_path: Path) -> None:
    """It serves, its controllers work, and once stopped none of its processes is left."""
    control_plane = ControlPlane(tmp_path)
    with fresh_namespace(control_plane):
        pass
    processes = [control_plane.etcd, control_plane.api_server, control_plane.controllers]
    assert all(process.running for process in processes)
    control_plane.stop()
    assert not any(process.running for process in processes)


def test_a_namespace_of_the_tests_admits_no_unrestricted_pod(
    api_server: ControlPlane, namespace: str
) -> None:
    """A pod that might be root is refused by the namespace's pod security standard."""
    with pytest.raises(RuntimeError, match="violates PodSecurity"):
        api_server.kubectl("--namespace", namespace, "create", "-f", "-", stdin=json.dumps(_POD))


def test_what_the_store_holds_outlives_the_api_server(
    api_server: ControlPlane, namespace: str
) -> None:
    """A killed API server comes back on its port with its data; a paused one goes on."""
    api_server.kubectl("--namespace", namespace, "create", "configmap", "kept")
    url = api_server.url
    api_server.kill()
    with pytest.raises(RuntimeError, match="refused"):
        api_server.kubectl("--namespace", namespace, "get", "configmap", "kept")
    api_server.restart()
    assert api_server.url == url
    api_server.pause()
    with pytest.raises(RuntimeError, match=r"timeout|deadline"):
        api_server.kubectl("get", "namespaces", "--request-timeout=500ms")
    api_server.resume()
    api_server.kubectl("--namespace", namespace, "get", "configmap", "kept")


def test_each_request_is_in_the_audit_log_once(api_server: ControlPlane, namespace: str) -> None:
    """A write and a read are logged with user, verb, resource, namespace, name and code."""
    begin = api_server.audit_log.stat().st_size
    api_server.kubectl("--namespace", namespace, "create", "configmap", "told")
    api_server.kubectl("--namespace", namespace, "get", "configmap", "told")
    audited = [
        (request.verb, request.resource, request.name, request.code)
        for request in audit.requests(api_server.audit_log, "admin", begin)
        if request.namespace == namespace and request.resource == "configmaps"
    ]
    assert audited == [
        ("create", "configmaps", "told", 201),
        ("get", "configmaps", "told", 200),
    ]
