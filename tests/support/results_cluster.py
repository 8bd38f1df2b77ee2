"""A results service with results of two namespaces, and users of each kind of login."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.results.service_paths import EXPLORER, ingest_path
from support.aggregation_certificates import CAROL
from support.api_client import Api
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.operator_process import an_account
from support.results_service import (
    ResultsServiceProcess,
    account_token,
    certificate_kubeconfig,
    exec_kubeconfig,
    grant,
)
from support.stored_results import a_document

PLUGIN = Path(sys.executable).with_name("kubectl-inferometer")
OPERATOR = "inferometer-operator"
_PATCH_STATUS = {
    "apiGroups": ["inferometer.dev"],
    "resources": ["benchmarkruns/status"],
    "verbs": ["patch"],
}
_USER = {"kind": "User", "name": "carol", "apiGroup": "rbac.authorization.k8s.io"}


@dataclass(frozen=True, slots=True)
class ResultsCluster:
    """A service with a result in each of two namespaces."""

    service: ResultsServiceProcess
    api: Api
    plane: ControlPlane
    one: str
    """The namespace with the operator."""
    two: str
    """The namespace where carol may read and push."""
    ids: tuple[str, str]
    kubeconfigs: dict[str, Path]
    """By kind of login: one reads the first namespace, carol the second."""

    def plugin(self, login: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the plug-in as a user."""
        return subprocess.run(
            [PLUGIN, *words, "--kubeconfig", str(self.kubeconfigs[login])],
            capture_output=True,
            text=True,
            check=False,
        )

    def deliver(self, namespace: str, number: int, token: str) -> tuple[int, dict[str, str]]:
        """Send a document as a pod does."""
        path, headers = f"{EXPLORER}{ingest_path(namespace)}", {"Authorization": f"Bearer {token}"}
        status, text = self.service.ask("POST", path, headers, body=a_document(number))
        return status, json.loads(text)


@contextmanager
def results_cluster(plane: ControlPlane, api: Api, folder: Path) -> Iterator[ResultsCluster]:
    """Start the service, let an operator deliver a result, and carol push one."""
    with fresh_namespace(plane, "one") as one, fresh_namespace(plane, "two") as two:
        an_account(api, one, OPERATOR, [_PATCH_STATUS])
        reader = an_account(api, one, "reader", [])
        account = {"kind": "ServiceAccount", "name": "reader", "namespace": one}
        grant(api, one, account, "get")
        grant(api, two, _USER, "get", "create")
        service = ResultsServiceProcess(plane, api, folder, f"{one}/{OPERATOR}")
        kubeconfigs = {
            "token": plane.write_kubeconfig(folder / "token", reader),
            "exec": exec_kubeconfig(plane, folder / "exec", reader),
            "certificate": certificate_kubeconfig(plane, folder / "carol", CAROL),
        }
        made = ResultsCluster(service, api, plane, one, two, ("", ""), kubeconfigs)
        token = account_token(api, one, OPERATOR, for_results=True)
        status, answer = made.deliver(one, 1, token)
        assert status == 201, answer
        file = folder / "result.json"
        file.write_bytes(a_document(2))
        pushed = made.plugin("certificate", "results", "push", str(file), "--to", two)
        assert pushed.returncode == 0, pushed.stderr
        ids = (answer["id"], pushed.stdout.strip())
        yield ResultsCluster(service, api, plane, one, two, ids, kubeconfigs)
        service.close()
