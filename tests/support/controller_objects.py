"""Objects of a controller that runs as a process in the network of a control plane."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.cluster.control_plane import ControlPlane
from support.cluster.processes import Process
from support.signed_tls import SignedCertificate

HOST = "127.0.0.1"
Starter = Callable[[str, Sequence[str | Path]], Process]
"""Starts a command of a name there."""


def webhook_client(port: int, path: str, tls: SignedCertificate) -> dict[str, Any]:
    """Return how the API server reaches a webhook of the controller."""
    bundle = b64encode(tls.authority.read_bytes()).decode()
    return {"url": f"https://{HOST}:{port}{path}", "caBundle": bundle}


def apply_objects(cluster: ControlPlane, file: Path, found: list[dict[str, Any]]) -> None:
    """Apply objects by way of a file, and wait until definitions among them are established."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
    cluster.kubectl("apply", "--server-side", "-f", str(file))
    if any(each["kind"] == "CustomResourceDefinition" for each in found):
        cluster.wait_until_established("-f", str(file))
