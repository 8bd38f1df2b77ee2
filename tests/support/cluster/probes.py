"""Small pods that try what a cluster promises."""

import json
from pathlib import Path
from typing import Any

from support.cluster import tiny_image
from support.cluster.binaries import binary

IMAGE = "inferometer.dev/probe:1"
_RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pack(folder: Path) -> Path:
    """Write the OCI archive of the probe's image and return its path."""
    return tiny_image.pack(binary("probe"), IMAGE, folder / "probe.tar")


def pod(name: str, *words: str, image: str = IMAGE, node: str | None = None) -> dict[str, Any]:
    """Return a pod that runs `probe WORDS` as the restricted standard requires."""
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": "Never" if image == IMAGE else "IfNotPresent",
        "args": list(words),
        "securityContext": _RESTRICTED,
        "ports": [{"containerPort": 8080}],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
    }
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    if node is not None:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def service(name: str) -> dict[str, Any]:
    """Return a Service on port 80 for the pod of the same name."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def manifest(*items: dict[str, Any]) -> str:
    """Return these objects as one document for `kubectl create -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
