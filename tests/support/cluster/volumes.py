"""The storage of a cluster: a default StorageClass, and a few volumes in each node's own folder.

They are made when the cluster starts, since no kept provisioner is small enough to be built for
it. A volume serves one claim: after that it is Released until the cluster goes down.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

STORAGE_CLASS = "local"
VOLUMES_PER_NODE = 8
_CAPACITY = "10Gi"
"""What a claim may request; nothing limits what is written but the machine's disk."""
_FOLDER = "volumes"
_ON_NODE = f"/var/lib/{_FOLDER}"
"""Where a node sees its own `lib` folder."""


def make_folders(lib: Path) -> None:
    """Make the volumes' folders in what a node sees as /var/lib; any user may write there."""
    for number in range(VOLUMES_PER_NODE):
        folder = lib / _FOLDER / str(number)
        folder.mkdir(parents=True)
        folder.chmod(0o777)


def storage(nodes: Iterable[str]) -> str:
    """Return the class and the volumes of these nodes, as JSON for kubectl."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        # The pod is scheduled first, so that it and its volume are on one node.
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [_volume(node, number) for node in nodes for number in range(VOLUMES_PER_NODE)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [storage_class, *volumes]})


def _volume(node: str, number: int) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{node}-{number}"},
        "spec": {
            "capacity": {"storage": _CAPACITY},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "local": {"path": f"{_ON_NODE}/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
