"""Ownership, labels and names of a run's children."""

from dataclasses import dataclass
from typing import Any, Literal

from inferometer_api.document import API_VERSION
from inferometer_api.plan.cluster_objects import GROUP, labels

Manifest = dict[str, Any]
"""An object of the Kubernetes API as JSON."""

PARTS_ANNOTATION = f"{GROUP}/parts"
"""On each ConfigMap of a result: the number of its parts."""
DIGEST_ANNOTATION = f"{GROUP}/result-sha256"
"""On each ConfigMap of a result: the SHA-256 of the whole document."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The run, suite or NodeBenchmark that owns a child; the child is deleted with it."""

    name: str
    namespace: str
    uid: str
    kind: Literal["BenchmarkRun", "BenchmarkSuite", "NodeBenchmark"] = "BenchmarkRun"


def child_metadata(owner: Owner, name: str, component: str) -> Manifest:
    """Return the metadata of a child: name, namespace, labels, and the owner as its controller.

    Without blockOwnerDeletion, which would need the right to change a run's finalizers.
    """
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner.name, owner.uid, component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ],
    }
