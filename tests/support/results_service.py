"""The results service as a process, as aggregated API of a real API server."""

import base64
import http.client
import json
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docgen.files import CHECKOUT

from inferometer_api.results.service_paths import AUDIENCE
from support.aggregation_certificates import SERVICE, SERVING_AUTHORITY, KeyPair
from support.api_client import Api
from support.chart import Json, helm, objects_of
from support.cluster import configurations
from support.cluster.control_plane import ControlPlane
from support.waiting import wait_until

RESULTS_CHART = CHECKOUT / "helm" / "inferometer-results"
NAMESPACE, NAME = "results", "inferometer-results"
"""The Service that the certificate is for."""
_RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding"}
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_API_SERVICE = f"{_API_SERVICES}/v1alpha1.results.inferometer.dev"
_SERVES = re.compile(r"serves on port (\d+), (\d+)")


def results_chart(values: Json | None = None, *words: str) -> list[Json]:
    """Return the objects that the chart makes without a cluster; an error of helm's is raised."""
    template = ("template", NAME, RESULTS_CHART, "--namespace", NAMESPACE, "--values", "-")
    done = helm(*template, *words, stdin=json.dumps(values or {}))
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return objects_of(done.stdout)


class ResultsServiceProcess:
    """One replica, with the rights that the chart grants."""

    def __init__(
        self, plane: ControlPlane, api: Api, folder: Path, *operators: str, database: str = ""
    ) -> None:
        """Start it for these operators (NAMESPACE/ACCOUNT), and wait until it is available.

        Without the address of a database it keeps its own file.
        """
        self._api = api
        self.log = folder / "results-service.log"
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        rights = [each for each in results_chart() if each["kind"] in _RIGHTS]
        objects = {"apiVersion": "v1", "kind": "List", "items": [namespace, *rights]}
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
        token = account_token(api, NAMESPACE, NAME)
        kubeconfig = folder / "results-service.kubeconfig"
        kubeconfig.write_text(
            configurations.kubeconfig(plane.url, plane.authority.read_bytes(), token)
        )
        SERVICE.write(folder / "tls", "tls")
        self._command = [
            *(sys.executable, "-m", "inferometer_results"),
            *_database(folder, database),
            *("--certificates", str(folder / "tls")),
            *("--host", "127.0.0.1", "--probe-port", "0"),
            *("--kubeconfig", str(kubeconfig)),
            *(f"--operator={each}" for each in operators),
        ]
        self.authority = folder / "serving-authority.crt"
        self.authority.write_text(SERVING_AUTHORITY)
        self.port = 0
        """Free at the first start, and the same afterwards."""
        self._service()
        self.start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again after it has ended, and have the API server find it."""
        began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            words = [*self._command, "--port", str(self.port)]
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        wait_until(
            lambda: self._ports(began) is not None or self._process.poll() is not None, "its ports"
        )
        ports = self._ports(began)
        assert ports is not None, self.log.read_text()
        self.port, self.probe_port = ports
        self._register()
        wait_until(self._is_available, f"the APIService ({self.log})")

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and have the API server forget it: namespaces would wait for its discovery."""
        self.kill()
        self._api.ask("DELETE", _API_SERVICE)

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        client: KeyPair | None = None,
        folder: Path | None = None,
        body: bytes | None = None,
    ) -> tuple[int, str]:
        """Return its answer to a request that passes by the API server."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if client is not None and folder is not None:
            context.load_cert_chain(*client.write(folder, "direct"))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context, timeout=60
        )
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _ports(self, began: int) -> tuple[int, int] | None:
        found = _SERVES.search(self.log.read_text()[began:])
        return None if found is None else (int(found[1]), int(found[2]))

    def _service(self) -> None:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        body = {"metadata": {"name": NAME}, "spec": spec}
        if self._api.found("Service", NAMESPACE, NAME) is None:
            self._api.create("Service", NAMESPACE, body)

    def _register(self) -> None:
        (made,) = (each for each in results_chart() if each["kind"] == "APIService")
        made["spec"]["caBundle"] = base64.b64encode(SERVING_AUTHORITY.encode()).decode()
        made["spec"]["service"]["port"] = self.port
        path = f"{_API_SERVICE}?fieldManager=tests&force=true"
        self._api.ask("PATCH", path, made, content_type="application/apply-patch+yaml")

    def _is_available(self) -> bool:
        found = self._api.ask("GET", _API_SERVICE)
        conditions = (found.get("status") or {}).get("conditions") or []
        port = found["spec"]["service"]["port"]
        return port == self.port and any(
            each["type"] == "Available" and each["status"] == "True" for each in conditions
        )


def _database(folder: Path, address: str) -> tuple[str, str]:
    """Return the words that name the database, as the chart has them."""
    if not address:
        return "--database", str(folder / "results.db")
    file = folder / "database-url"
    file.write_text(f"{address}\n")
    return "--database-file", str(file)


def account_token(api: Api, namespace: str, name: str, *, for_results: bool = False) -> str:
    """Return a token of a service account: for the API server, or for the results service."""
    spec = {"audiences": [AUDIENCE]} if for_results else {}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    return str(api.ask("POST", path, {"spec": spec})["status"]["token"])


def certificate_kubeconfig(plane: ControlPlane, file: Path, user: KeyPair) -> Path:
    """Write the kubeconfig of a user with a client certificate."""
    data = {
        "client-certificate-data": base64.b64encode(user.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(user.key.encode()).decode(),
    }
    return _kubeconfig_of(plane, file, data)


def exec_kubeconfig(plane: ControlPlane, file: Path, token: str) -> Path:
    """Write the kubeconfig of a user whose token an exec plug-in prints."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    plugin = file.with_suffix(".plugin")
    plugin.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(credential)}\nEOF\n")
    plugin.chmod(0o700)
    return _kubeconfig_of(
        plane,
        file,
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(plugin),
                "interactiveMode": "Never",
            }
        },
    )


def _kubeconfig_of(plane: ControlPlane, file: Path, user: dict[str, Any]) -> Path:
    text = configurations.kubeconfig(plane.url, plane.authority.read_bytes(), "none")
    content = json.loads(text)
    content["users"][0]["user"] = user
    file.touch(mode=0o600)
    file.write_text(json.dumps(content))
    return file


def grant(api: Api, namespace: str, subject: dict[str, str], *verbs: str) -> None:
    """Let a subject do this to the runs of a namespace."""
    name = f"{subject['name'].replace(':', '-')}-{time.monotonic_ns()}"
    granted = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": ["inferometer.dev"], "resources": ["benchmarkruns"], "verbs": verbs}]
    api.ask("POST", f"{granted}/roles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    body = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    api.ask("POST", f"{granted}/rolebindings", body)
