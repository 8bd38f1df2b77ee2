"""A claim whose files a test on the node's machine writes and reads."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from support.cluster.cluster import Cluster


@contextmanager
def claim_on_node(cluster: Cluster, namespace: str, claim: str) -> Iterator[Path]:
    """Bind a claim that runs may use to a folder of the only node; yield the folder."""
    ((name, node),) = cluster.nodes.items()
    on_node = f"var/claims/{namespace}"
    folder = Path(f"/proc/{node.pid}/root") / on_node
    folder.mkdir(parents=True, exist_ok=True)
    here = {"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    ]}  # fmt: skip
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            **common,
            "capacity": size,
            "local": {"path": f"/{on_node}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
    }
    claimed = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim,
            "namespace": namespace,
            "labels": {ALLOW_USE_LABEL: "true"},
        },
        "spec": {**common, "volumeName": namespace, "resources": {"requests": size}},
    }
    for each in (volume, claimed):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))
    yield folder
    shutil.rmtree(folder)
