"""An operator for every namespace, next to one for the namespace of a test."""

from pathlib import Path
from typing import Any

from inferometer_api.plan import rights
from support.api_client import Api
from support.cluster import configurations
from support.operator_process import ACCOUNT, OperatorProcess, an_account, rule
from support.stage import Stage

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def cluster_wide_operator(
    stage: Stage, home: str, folder: Path, *words: str, **settings: Any
) -> OperatorProcess:
    """Start an operator for every namespace, whose Lease is in the namespace `home`."""
    token = _account(stage.api, home)
    plane = stage.control_plane
    kubeconfig = folder / "cluster-wide.kubeconfig"
    authority = plane.authority.read_bytes()
    kubeconfig.write_text(configurations.kubeconfig(plane.url, authority, token))
    return OperatorProcess(
        kubeconfig,
        None,
        folder,
        *("--lease-namespace", home, *words),
        *("--loadgen-port", str(stage.loads.port)),
        settings=settings,
        name="cluster-wide",
    )


def _account(api: Api, home: str) -> str:
    """Make an account with just the rights of cluster mode; return a token of it."""
    token = an_account(api, home, ACCOUNT, [rule(right) for right in rights.LEASE])
    metadata = {"metadata": {"name": f"{ACCOUNT}-{home}"}}
    rules = [rule(right) for right in (*rights.RUNS, *rights.OTHER_OPERATORS)]
    api.ask("POST", f"{_RBAC}/clusterroles", {**metadata, "rules": rules})
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": f"{ACCOUNT}-{home}",
    }
    subject = {"kind": "ServiceAccount", "namespace": home, "name": ACCOUNT}
    binding = {**metadata, "subjects": [subject], "roleRef": role}
    api.ask("POST", f"{_RBAC}/clusterrolebindings", binding)
    return token
