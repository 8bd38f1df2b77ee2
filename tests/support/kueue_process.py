"""The real Kueue as a process next to a control plane, with its own definitions and webhooks."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.cluster.binaries import binary
from support.cluster.control_plane import ControlPlane
from support.cluster.processes import Process
from support.controller_objects import HOST, Starter, apply_objects, webhook_client
from support.kueue_module import Object, config, objects
from support.signed_tls import SignedCertificate, signed_certificate
from support.waiting import wait_until

_READY_SECONDS = 120.0
_HOOKED = {"workloads", "clusterqueues", "cohorts", "resourceflavors", "jobs"}
"""What Kueue's webhooks change and check here; the other kinds are not installed."""
_CONVERTED = {"workloads", "clusterqueues", "cohorts", "localqueues", "multikueueclusters"}
"""Kinds whose versions Kueue's webhook converts, as in its kustomization."""
_METRICS = "/etc/kueue/metrics/certs"
_PORTS = 29443, 28081
"""Of the webhooks and of the probes, in the cluster's own network."""


def start_kueue(cluster: ControlPlane, folder: Path, start: Starter) -> Process:
    """Start Kueue in the network of a control plane, and wait until it serves.

    It runs as the cluster's admin: its own rights are not under test.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tls = signed_certificate(folder)
    for name, source in (("tls.crt", tls.certificate), ("tls.key", tls.key)):
        (folder / name).write_bytes(source.read_bytes())
    settings = folder / "kueue.yaml"
    settings.write_text(json.dumps(_settings(folder)))
    cluster.kubectl("create", "namespace", "kueue-system")
    apply_objects(cluster, folder / "definitions.json", _definitions(tls))
    process = start("kueue", _command(cluster, folder, settings))
    wait_until(
        lambda: "Serving webhook server" in process.log.read_text(errors="replace"),
        "Kueue's webhooks",
        [process],
        _READY_SECONDS,
    )
    apply_objects(cluster, folder / "webhooks.json", _webhooks(tls))
    return process


def _settings(folder: Path) -> Object:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{HOST}:{_PORTS[1]}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": HOST, "port": _PORTS[0], "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
    }


def _command(cluster: ControlPlane, folder: Path, settings: Path) -> Sequence[str | Path]:
    """Return the command: Kueue reads a certificate for its metrics at one fixed place only.

    A mount namespace of its own gives it that without a trace on the machine.
    """
    script = (
        f"mount -t tmpfs none /etc && mkdir -p {_METRICS} && cp {folder}/tls.* {_METRICS} && "
        f'exec "$0" --config {settings} --kubeconfig {cluster.kubeconfig} --zap-log-level=2'
    )
    unshare = ("unshare", "--mount", "--propagation", "private")
    return [*unshare, "sh", "-c", script, binary("kueue")]


def _definitions(tls: SignedCertificate) -> list[Object]:
    found = [
        each
        for path in sorted((config() / "crd" / "bases").glob("*.yaml"))
        for each in objects(path)
    ]
    webhook = {
        "clientConfig": webhook_client(_PORTS[0], "/convert", tls),
        "conversionReviewVersions": ["v1"],
    }
    for each in found:
        if each["spec"]["names"]["plural"] in _CONVERTED:
            each["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return found


def _webhooks(tls: SignedCertificate) -> list[Object]:
    """Return the webhook configurations for what is installed, by address instead of Service."""
    found = copy.deepcopy(objects(config() / "webhook" / "manifests.yaml"))
    for each in found:
        each["metadata"]["name"] = f"kueue-{each['metadata']['name']}"
        each["webhooks"] = [hook for hook in each["webhooks"] if _is_hooked(hook)]
        for hook in each["webhooks"]:
            hook["clientConfig"] = webhook_client(
                _PORTS[0], hook["clientConfig"]["service"]["path"], tls
            )
    return found


def _is_hooked(hook: dict[str, Any]) -> bool:
    kinds = {kind.partition("/")[0] for rule in hook["rules"] for kind in rule["resources"]}
    return bool(kinds & _HOOKED)
