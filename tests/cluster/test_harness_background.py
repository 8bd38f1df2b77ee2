"""A local cluster outlives the command that started it, and goes down without a trace."""

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from support.cluster import background, homes
from support.cluster.binaries import path_folder
from support.cluster.configurations import PAUSE_IMAGE
from support.cluster.traces import traces
from support.waiting import wait_until

_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "stored"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Mi"}},
    },
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "storing"},
    "spec": {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "pause",
                "image": PAUSE_IMAGE,
                "volumeMounts": [{"name": "stored", "mountPath": "/stored"}],
            }
        ],
        "volumes": [{"name": "stored", "persistentVolumeClaim": {"claimName": "stored"}}],
    },
}
_CLAIMING = json.dumps({"apiVersion": "v1", "kind": "List", "items": [_CLAIM, _POD]})
_STATE = ("get", "pod/storing", "pvc/stored", "-o", "jsonpath={.items[*].status.phase}")


def _kubectl(kubeconfig: Path, *words: str, stdin: str | None = None) -> str:
    command = [str(path_folder() / "kubectl"), "--kubeconfig", str(kubeconfig), *words]
    done = subprocess.run(command, text=True, input=stdin, stdout=subprocess.PIPE, check=True)
    return done.stdout.strip()


@pytest.mark.usefixtures("nodes_can_run")
def test_a_local_cluster_goes_up_and_down() -> None:
    """It stays up, binds a claim without a class, has one name once, and leaves no trace."""
    name = f"tests-local-{os.getpid()}"
    kubeconfig = background.up(name, 1, [])
    try:
        kubectl = partial(_kubectl, kubeconfig)
        assert kubectl("get", "nodes", "-o", "name") == "node/node1"
        kubectl("create", "-f", "-", stdin=_CLAIMING)
        wait_until(lambda: kubectl(*_STATE) == "Running Bound", "The pod with its claim")
        with pytest.raises(RuntimeError, match="is up"):
            background.up(name, 1, [])
        slot = homes.slot(name)
    finally:
        assert background.down(name)
    assert traces(name, slot) == []
    assert not background.down(name)


@pytest.mark.usefixtures("nodes_can_run")
def test_what_a_killed_local_cluster_left_is_removed() -> None:
    """Taking a cluster down removes its files even if its process was killed."""
    name = f"tests-local-{os.getpid()}"
    background.up(name, 1, [])
    process, slot = homes.holder(name), homes.slot(name)
    assert process is not None
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: homes.holder(name) is None, "The end of the killed process")
    background.down(name)
    assert traces(name, slot) == []
