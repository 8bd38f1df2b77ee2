"""The real KServe as a process next to a control plane, with its definitions and webhooks."""

import copy
from collections.abc import Sequence
from pathlib import Path

from support.cluster.binaries import binary
from support.cluster.control_plane import ControlPlane
from support.cluster.processes import Process
from support.controller_objects import Starter, apply_objects, webhook_client
from support.kserve_module import Object, config
from support.kueue_module import objects
from support.signed_tls import SignedCertificate, signed_certificate
from support.waiting import wait_until

_NAMESPACE = "kserve"
_READY_SECONDS = 120.0
_WEBHOOK_PORT, _PROBE_PORT = 29444, 28082
"""In the cluster's own network."""


def start_kserve(cluster: ControlPlane, folder: Path, start: Starter) -> Process:
    """Start KServe in the network of a control plane, and wait until it serves.

    It runs as the cluster's admin: its own rights are not under test. Nothing of Knative or Istio
    is there: it deploys as Deployments alone.
    """
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True, exist_ok=True)
    tls = signed_certificate(folder)
    for name, source in (("tls.crt", tls.certificate), ("tls.key", tls.key)):
        (certificates / name).write_bytes(source.read_bytes())
    cluster.kubectl("create", "namespace", _NAMESPACE)
    definitions = sorted((config() / "crd" / "full").glob("serving.kserve.io_*.yaml"))
    found = [each for path in definitions for each in objects(path)]
    apply_objects(cluster, folder / "definitions.json", found)
    (settings,) = objects(config() / "configmap" / "inferenceservice.yaml")
    settings["metadata"]["namespace"] = _NAMESPACE
    apply_objects(cluster, folder / "settings.json", [settings])
    process = start("kserve", _command(cluster, folder))
    wait_until(
        lambda: "Serving webhook server" in process.log.read_text(errors="replace"),
        "KServe's webhooks",
        [process],
        _READY_SECONDS,
    )
    apply_objects(cluster, folder / "webhooks.json", _webhooks(tls))
    return process


def _command(cluster: ControlPlane, folder: Path) -> Sequence[str | Path]:
    """Return the command: KServe reads its certificate below the folder for temporary files."""
    return [
        *("env", f"TMPDIR={folder}", f"POD_NAMESPACE={_NAMESPACE}"),
        binary("kserve"),
        *("--kubeconfig", cluster.kubeconfig),
        *("--metrics-addr", "0"),
        *("--webhook-port", str(_WEBHOOK_PORT)),
        *("--health-probe-addr", f"127.0.0.1:{_PROBE_PORT}"),
    ]


def _webhooks(tls: SignedCertificate) -> list[Object]:
    """Return KServe's webhook configurations, by address instead of Service."""
    found = copy.deepcopy(objects(config() / "webhook" / "manifests.yaml"))
    for each in found:
        for hook in each["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = webhook_client(_WEBHOOK_PORT, path, tls)
    return found
