"""A store of models in a cluster's network, and pods that mount them from the node's cache."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL, CACHE_DRIVER
from support import gated_store
from support.cluster import addresses
from support.cluster.cluster import Cluster

PORT = 7080
BUCKET = "models"
IMAGE = "inferometer-serving:0.1.0"
_READER = """
import hashlib, os, signal
content = open("/model/model.onnx", "rb").read()
print(hashlib.sha256(content).hexdigest(), flush=True)
try:
    os.chmod("/model/model.onnx", 0o644)  # the kernel looks at the mount before the owner
except OSError as error:
    print(error.strerror, flush=True)
signal.pause()
"""


@dataclass(frozen=True)
class ModelBucket:
    """A bucket of models, in the network of a cluster."""

    folder: Path
    log: Path

    @property
    def endpoint(self) -> str:
        """Return its address."""
        return f"http://{addresses.SWITCH}:{PORT}"

    def add(self, name: str) -> str:
        """Keep a model with 8 MiB of weights that no other test has; return its checksum."""
        rng = np.random.default_rng(list(name.encode()))
        weights = numpy_helper.from_array(rng.random((1024, 2048), np.float32), "w")
        ends = [
            helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, width])
            for end, width in (("x", 1024), ("y", 2048))
        ]
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        graph = helper.make_graph([node], name, ends[:1], ends[1:], [weights])
        opsets = [helper.make_opsetid("", 17)]
        content = helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()
        (self.folder / BUCKET / name).write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def requests(self, name: str, method: str) -> list[dict[str, Any]]:
        """Return the requests for an object so far."""
        found = gated_store.requests(self.log.read_text())
        at = f"/{BUCKET}/{name}"
        return [each for each in found if each["method"] == method and each["path"] == at]

    def close_gate(self) -> None:
        """Hold downloads in their middle."""
        (self.folder / gated_store.GATE).touch()

    def open_gate(self) -> None:
        """Let downloads go on."""
        (self.folder / gated_store.GATE).unlink(missing_ok=True)


def put_keys(
    cluster: Cluster, namespace: str, name: str, store: ModelBucket, key: str = "tester"
) -> None:
    """Create a Secret with keys of the store, which runs may use."""
    literals = {"accessKeyId": key, "secretAccessKey": "secret", "endpoint": store.endpoint}
    words = [f"--from-literal={each}={value}" for each, value in literals.items()]
    here = ("--namespace", namespace)
    cluster.kubectl("create", "secret", "generic", name, *words, *here)
    cluster.kubectl("label", "secret", name, f"{ALLOW_USE_LABEL}=s3", *here)


def make_pod(
    cluster: Cluster, namespace: str, name: str, model: str, sha256: str, keys: str = "store"
) -> None:
    """Create a restricted pod that mounts a model, prints its checksum and stays."""
    attributes = {"uri": f"s3://{BUCKET}/{model}", "sha256": sha256}
    volume = {
        "driver": CACHE_DRIVER,
        "readOnly": True,
        "volumeAttributes": attributes,
        "nodePublishSecretRef": {"name": keys},
    }
    container = {
        "name": "reader",
        "image": IMAGE,
        "command": ["python3", "-c", _READER],
        "volumeMounts": [{"name": "model", "mountPath": "/model", "readOnly": True}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsNonRoot": True,
        },
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "model", "csi": volume}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(pod))


def printed(cluster: Cluster, namespace: str, pod: str) -> list[str]:
    """Return what a pod has printed, nothing if it has not started."""
    phase = cluster.get("pod", pod, "--namespace", namespace)["status"]["phase"]
    if phase == "Pending":
        return []
    return cluster.kubectl("logs", pod, "--namespace", namespace).split("\n")


def refusals(cluster: Cluster, namespace: str, pod: str) -> str:
    """Return the messages of the events FailedMount of a pod."""
    selector = f"involvedObject.name={pod},reason=FailedMount"
    events = cluster.get("events", "--namespace", namespace, "--field-selector", selector)
    return "\n".join(each["message"] for each in events["items"])
