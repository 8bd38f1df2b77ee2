"""What Kueue writes to the Workload of a run, in the shapes that v0.15.0 wrote."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

QUEUED_RUN_LABELS = {"kueue.x-k8s.io/queue-name": "team-queue"}
_TIME = "2026-03-12T14:00:00Z"


def _condition(kind: str, value: str, reason: str, message: str) -> Object:
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _TIME,
    }


def admitted(flavors: Mapping[str, str] | None = None) -> Object:
    """Return the status of an admitted Workload, with a flavor for the pods of each set."""
    assigned = flavors or {"server": "default", "load": "default"}
    return {
        "admission": {
            "clusterQueue": "cluster-queue",
            "podSetAssignments": [
                {"name": name, "flavors": {"cpu": flavor, "memory": flavor}, "count": 1}
                for name, flavor in assigned.items()
            ],
        },
        "conditions": [
            _condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in cluster-queue"),
            _condition("Admitted", "True", "Admitted", "The workload is admitted"),
        ],
    }


def pending(message: str, reason: str = "Pending") -> Object:
    """Return the status of a Workload that Kueue has not admitted, and why."""
    return {"conditions": [_condition("QuotaReserved", "False", reason, message)]}


def inadmissible(message: str) -> Object:
    """Return the status of a Workload that Kueue cannot admit, and why."""
    return pending(message, "Inadmissible")


def awaiting_checks(check: str) -> Object:
    """Return the status of a Workload with quota whose admission check is not done."""
    status = admitted()
    status["conditions"] = status["conditions"][:1]
    status["admissionChecks"] = [
        {"name": check, "state": "Pending", "message": "", "lastTransitionTime": _TIME}
    ]
    return status


def evicted(reason: str, message: str) -> Object:
    """Return the status of an admitted Workload that Kueue has evicted.

    Kueue keeps quota and admission until the owner of the Workload lets go of them.
    """
    status = admitted()
    status["conditions"].append(_condition("Evicted", "True", reason, message))
    return status


def a_flavor(labels: Mapping[str, str], *tolerations: Object) -> Object:
    """Return a ResourceFlavor for the nodes with these labels."""
    return {"spec": {"nodeLabels": dict(labels), "tolerations": list(tolerations)}}
