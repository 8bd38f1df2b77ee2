"""Puts a run into a cluster as an operator would have left it.

No operator is at work: the test itself writes status, events and result ConfigMaps.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from inferometer_api.plan.cluster_objects import RESULT, RESULT_FILE, labels, result_name
from inferometer_api.results.gzip_members import compress
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.scenario_summary import scenario_summary
from support.cluster.namespaces import Kubectl

_AT = "2026-03-12T14:03:21Z"


def a_condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    """Return a condition of a status."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _AT,
    }


def a_complete_status(document: ResultDocument) -> dict[str, Any]:
    """Return the status of a run that is complete, with the summary of its result."""
    valid = document.valid
    return {
        "phase": "Complete",
        "startTime": _AT,
        "completionTime": "2026-03-12T14:05:02Z",
        "progressPercent": 100,
        "conditions": [
            a_condition("Accepted", "True", "Accepted"),
            a_condition("ServerReady", "False", "CleanedUp", "The server was deleted."),
            a_condition("Complete", "True", "Measured", "Every scenario was measured."),
            a_condition("Valid", str(valid), "AllValid" if valid else "Invalid"),
            a_condition("Finished", "True", "Complete"),
        ],
        "scenarios": [
            scenario_summary(result).model_dump(mode="json", exclude_none=True)
            for result in document.scenarios
        ],
    }


def put_run(
    cluster: Kubectl, namespace: str, document: ResultDocument, status: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Create the run that a result speaks of, and give it a status; return the object."""
    run = document.run.model_dump(mode="json", exclude_none=True)
    run.pop("status", None)
    run["metadata"] = {"name": document.run.name, "namespace": namespace}
    made = cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(run))
    if status is not None:
        set_status(cluster, namespace, document.run.name, status)
    read: dict[str, Any] = json.loads(made)
    return read


def set_status(cluster: Kubectl, namespace: str, name: str, status: Mapping[str, Any]) -> None:
    """Replace what a run's status says."""
    cluster.kubectl(
        *("patch", "benchmarkrun", name, "--namespace", namespace),
        *("--subresource=status", "--type=merge", "--patch", json.dumps({"status": status})),
    )


def put_result(
    cluster: Kubectl,
    namespace: str,
    run: Mapping[str, Any],
    document: bytes,
    part_bytes: int = 1_000_000,
) -> dict[str, Any]:
    """Keep a document in ConfigMaps of the run; return `status.result`, which is not yet set."""
    name, uid = run["metadata"]["name"], run["metadata"]["uid"]
    gz = compress(document)
    parts = [gz[at : at + part_bytes] for at in range(0, len(gz), part_bytes)]
    for index, part in enumerate(parts):
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": result_name(name, uid, index),
                "namespace": namespace,
                "labels": labels(name, uid, RESULT),
            },
            "binaryData": {RESULT_FILE: base64.b64encode(part).decode()},
        }
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(config_map))
    return {
        "configMaps": [result_name(name, uid, index) for index in range(len(parts))],
        "sha256": hashlib.sha256(document).hexdigest(),
        "bytes": len(document),
    }


def put_event(
    cluster: Kubectl, namespace: str, run: Mapping[str, Any], reason: str, message: str
) -> None:
    """Record an event of a run."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "told-", "namespace": namespace},
        "involvedObject": {
            "apiVersion": run["apiVersion"],
            "kind": run["kind"],
            "name": run["metadata"]["name"],
            "namespace": namespace,
            "uid": run["metadata"]["uid"],
        },
        "type": "Normal",
        "reason": reason,
        "message": message,
        "firstTimestamp": _AT,
        "lastTimestamp": _AT,
        "count": 1,
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(event))
