"""A store of models in a cluster's network, and pods that mount them from the node's cache."""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from onnx import TensorProto, helper, numpy_helper

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL, CACHE_DRIVER
from support import gated_store
from support.chart import Json
from support.cluster import addresses
from support.cluster.cluster import Cluster
from support.cluster.processes import Process
from support.node_runs import SLOW_SECONDS
from support.waiting import wait_until

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
    port: int = PORT
    process: Process | None = None

    @property
    def endpoint(self) -> str:
        """Return its address."""
        return f"http://{addresses.SWITCH}:{self.port}"

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


def start_store(cluster: Cluster, folder: Path, port: int = PORT) -> ModelBucket:
    """Start a store of models in the network of a cluster."""
    (folder / BUCKET).mkdir()
    words = (Path(gated_store.__file__), addresses.SWITCH, str(port), folder)
    process = cluster.start_in_control_plane(f"store-{port}", [sys.executable, *words])
    wait_until(lambda: "serving" in process.log.read_text(), "the store", [process])
    return ModelBucket(folder, process.log, port, process)


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
    """Create a restricted pod that mounts a model, prints its checksum and stays.

    It requests a mount that it can write, which no pod gets.
    """
    attributes = {"uri": f"s3://{BUCKET}/{model}", "sha256": sha256}
    volume = {
        "driver": CACHE_DRIVER,
        "volumeAttributes": attributes,
        "nodePublishSecretRef": {"name": keys},
    }
    container = {
        "name": "reader",
        "image": IMAGE,
        "command": ["python3", "-c", _READER],
        "volumeMounts": [{"name": "model", "mountPath": "/model"}],
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


def wait_for_content(cluster: Cluster, namespace: str, pod: str, sha256: str) -> None:
    """Wait until a pod has read the whole model, and was refused to change it."""
    wait_slowly(lambda: len(printed(cluster, namespace, pod)) > 2, f"the lines of {pod}")
    assert printed(cluster, namespace, pod)[:2] == [sha256, "Read-only file system"]


def wait_slowly(true: Callable[[], bool], what: str) -> None:
    """Wait until `true()`: the kubelet repeats a failed mount after up to two minutes."""
    wait_until(true, what, deadline_seconds=SLOW_SECONDS, poll_seconds=0.5)


def mounts(cluster: Cluster, namespace: str, pod: str) -> list[str]:
    """Return the node's mounts of models in a pod."""
    uid = cluster.get("pod", pod, "--namespace", namespace)["metadata"]["uid"]
    (node,) = cluster.nodes.values()
    lines = Path(f"/proc/{node.pid}/mountinfo").read_text().splitlines()
    return [line for line in lines if "/entries/" in line and f"/pods/{uid}/" in line]


def cache_pod(cluster: Cluster, namespace: str) -> Json:
    """Return the pod of the node's cache."""
    selector = "--selector=app.kubernetes.io/component=model-cache"
    (pod,) = cluster.get("pods", "--namespace", namespace, selector)["items"]
    found: Json = pod
    return found


def restarts(cluster: Cluster, namespace: str) -> int:
    """Return how often the cache's container was restarted, -1 while it does not run."""
    (container,) = cache_pod(cluster, namespace)["status"]["containerStatuses"]
    return int(container["restartCount"]) if container["ready"] else -1


def kill_plugin(cluster: Cluster) -> None:
    """End the plugin's process at once, as a lack of memory would."""
    (node,) = cluster.nodes.values()
    found = [
        each
        for each in psutil.Process(node.pid).children(recursive=True)
        if "inferometer_fetch.cache" in each.cmdline()
    ]
    (plugin,) = found
    os.kill(plugin.pid, signal.SIGKILL)
