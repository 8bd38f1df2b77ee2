"""The operator as a process, with the rights that it has in a cluster."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from inferometer_api.plan import rights
from inferometer_api.plan.rights import Right
from support.api_client import Api
from support.chart import rendered
from support.operator_forks import ForkedOperator, operator_forks
from support.waiting import DEADLINE_SECONDS, wait_until

ACCOUNT = "inferometer-operator"
_RBAC = "rbac.authorization.k8s.io"
_ANY_NAMESPACE = "any-served-namespace"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
SETTINGS: dict[str, Any] = {
    # No scheduler keeps the runs of these tests apart: they take turns unless a test says more.
    "maxConcurrentRuns": 1,
    "images": {
        "serving": "registry.test/serving:1",
        "servingGpu": "registry.test/serving-gpu:1",
        "loadgen": "registry.test/loadgen:1",
    },
}


def operator_account(
    api: Api,
    namespace: str,
    *,
    secrets: bool = False,
    kueue: bool = False,
    kserve: bool = False,
) -> str:
    """Make a service account with just the rights of namespaced mode; return a token of it."""
    served = (
        *rights.RUNS,
        *(rights.SECRETS if secrets else ()),
        *(rights.KUEUE if kueue else ()),
        *(rights.KSERVE if kserve else ()),
    )
    rules = [rule(right) for right in (*served, *rights.LEASE)]
    return an_account(api, namespace, ACCOUNT, rules)


def bound_account(
    api: Api,
    namespace: str,
    *,
    secrets: bool = False,
    model_cache: bool = False,
    read_nodes: bool = False,
) -> list[str]:
    """Bound what the operator's account may create as the chart does; return the objects' paths.

    The API server heeds a new policy after a second or so.
    """
    paths = []
    for made in _admission_objects(secrets=secrets, model_cache=model_cache, read_nodes=read_nodes):
        text = json.dumps(made).replace(_ANY_NAMESPACE, namespace)
        path = f"/apis/{made['apiVersion']}/{_PLURALS[made['kind']]}"
        created = api.ask("POST", path, text)
        paths.append(f"{path}/{created['metadata']['name']}")
    return paths


@cache
def _admission_objects(
    *, secrets: bool, model_cache: bool, read_nodes: bool
) -> list[dict[str, Any]]:
    """Return the policy and its binding for _ANY_NAMESPACE, rendered once."""
    words = ("--show-only", "templates/admission-policy.yaml")
    values = {
        "allowSecrets": secrets,
        "modelCache": {"enabled": model_cache},
        "readNodes": read_nodes,
    }
    return rendered(values, *words, namespace=_ANY_NAMESPACE)


def an_account(api: Api, namespace: str, name: str, rules: list[dict[str, Any]]) -> str:
    """Make a service account with these rights in its namespace, and return a token of it."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.ask("POST", accounts, {"metadata": {"name": name}})
    _grant(api, namespace, (namespace, name), rules)
    token_request = api.ask("POST", f"{accounts}/{name}/token", {"spec": {}})
    return str(token_request["status"]["token"])


def grant_kueue(api: Api, namespace: str) -> list[str]:
    """Give an operator the rights of `kueue.enabled` in the cluster; return the objects' paths."""
    name = f"{ACCOUNT}-{namespace}-kueue"
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT}
    metadata = {"metadata": {"name": name}}
    made: dict[str, dict[str, Any]] = {
        "clusterroles": {"rules": [rule(right) for right in rights.KUEUE_CLUSTER]},
        "clusterrolebindings": {"subjects": [subject], "roleRef": role},
    }
    for plural, body in made.items():
        api.ask("POST", f"/apis/{_RBAC}/v1/{plural}", {**metadata, **body})
    return [f"/apis/{_RBAC}/v1/{plural}/{name}" for plural in made]


def grant_agents(api: Api, namespace: str, operator_namespace: str) -> None:
    """Give an operator just the rights that the node agents' chart gives in its namespace."""
    rules = [rule(right) for right in rights.AGENTS]
    _grant(api, namespace, (operator_namespace, ACCOUNT), rules)


def _grant(api: Api, namespace: str, account: tuple[str, str], rules: list[dict[str, Any]]) -> None:
    metadata = {"metadata": {"name": account[1]}}
    subject = {"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account[1]}
    granted = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    api.ask("POST", f"{granted}/roles", {**metadata, "rules": rules})
    binding = {**metadata, "subjects": [subject], "roleRef": role}
    api.ask("POST", f"{granted}/rolebindings", binding)


def rule(right: Right) -> dict[str, Any]:
    """Return the rule of a role that grants a right."""
    names = {"resourceNames": [ACCOUNT]} if right.one_name else {}
    return {
        "apiGroups": [right.group],
        "resources": [right.resource],
        "verbs": list(right.verbs),
        **names,
    }


def settings_file(file: Path, namespace: str | None, **settings: Any) -> Path:
    """Write the settings of an operator, and return the file."""
    file.write_text(json.dumps({**SETTINGS, "namespace": namespace, **settings}))
    return file


class OperatorProcess:
    """One operator that serves one namespace, or all of them if it is None."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str | None,
        folder: Path,
        *words: str,
        settings: dict[str, Any] | None = None,
        name: str = "operator",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        file = settings_file(folder / f"{name}.settings.yaml", namespace, **(settings or {}))
        self.log = folder / f"{name}.log"
        self._words = [
            *("--settings", str(file)),
            *("--kubeconfig", str(kubeconfig)),
            *("--health-port", "0"),
            *(words or ("--no-lease",)),
        ]
        self._name = name
        self._environment = environment
        self._process = self._begun()

    def start(self) -> None:
        """Start it again after it has ended."""
        self._process = self._begun()

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it at once, as a node that loses its power would."""
        self._process.kill()
        self._process.wait()

    def ask_to_end(self) -> int:
        """Send SIGTERM and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        wait_until(lambda: self.exit_code is not None, f"the end of the operator of {self.log}")
        return self._process.wait()

    def close(self) -> None:
        """End it, however it goes."""
        if self.exit_code is None:
            self.kill()

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of its log, of every start."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]

    def log_events(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of this event."""
        return [line for line in self.lines() if line["event"] == event]

    def wait_for_log(self, event: str, count: int = 1) -> None:
        """Wait until its log holds this event so many times."""
        wait_until(
            lambda: len(self.log_events(event)) >= count or self.exit_code is not None,
            f"{event} in {self.log}",
        )
        assert len(self.log_events(event)) >= count, self.log.read_text()[-4000:]

    def health(self, path: str) -> tuple[int, str]:
        """Return what it answers at one of its addresses for probes."""
        self.wait_for_log("health_served")
        addresses = self.log_events("health_served")[-1]["addresses"]
        port = next(port for host, port in addresses if host == "0.0.0.0")  # noqa: S104 - compared
        try:
            url = f"http://127.0.0.1:{port}{path}"
            with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait_ready(self) -> None:
        """Wait until it leads and hears every watch."""
        wait_until(self._leads, f"the readiness of the operator of {self.log}")

    def _leads(self) -> bool:
        try:
            code, text = self.health("/readyz")
        except OSError:  # one that was started again does not serve at its new address yet
            return False
        return code == 200 and "Leads" in text

    def _begun(self) -> subprocess.Popen[bytes] | ForkedOperator:
        """Start it by a fork, which costs no imports, unless it needs an environment of its own."""
        if self._environment is None:
            return operator_forks().start(self._words, self.log, {"POD_NAME": self._name})
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "inferometer_operator", *self._words],
                stdin=subprocess.DEVNULL,
                stderr=log,
                stdout=log,
                env={**os.environ, "POD_NAME": self._name, **self._environment},
            )
