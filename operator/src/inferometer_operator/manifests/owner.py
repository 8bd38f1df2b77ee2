"""To which run does an object belong, and how is it called and told from others?"""

from dataclasses import dataclass
from typing import Any

from inferometer_api.document import API_VERSION
from inferometer_api.plan.cluster_objects import GROUP, labels

Manifest = dict[str, Any]
"""An object of the Kubernetes API as JSON."""

PARTS_ANNOTATION = f"{GROUP}/parts"
"""On each ConfigMap of a result: into how many it was cut."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The run that an object is made for, and is deleted with."""

    name: str
    namespace: str
    uid: str


def child_metadata(owner: Owner, name: str, component: str) -> Manifest:
    """Return the metadata of a child: name, namespace, labels, and the run as its controller.

    Without blockOwnerDeletion, which would need the right to change a run's finalizers.
    """
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner.name, owner.uid, component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": "BenchmarkRun",
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ],
    }
