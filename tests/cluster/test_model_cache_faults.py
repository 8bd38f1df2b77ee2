"""A real kubelet and a model cache under faults: killed, its store gone, its disk full."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agent_chart import CACHE, agents_installed, agents_namespace
from support.cached_models import (
    BUCKET,
    ModelBucket,
    kill_plugin,
    make_pod,
    mounts,
    printed,
    put_keys,
    refusals,
    restarts,
    start_store,
    wait_for_content,
    wait_slowly,
)
from support.cluster.cluster import Cluster
from support.cluster.configurations import NODE_HOME

PORT = 7082
FOLDER = "/var/lib/inferometer-small-model-cache"
"""A disk of DISK_MIB: a few models of 8 MiB."""
DISK_MIB = 64
TRIGGER = "kill-in-mount"
"""While the cache's folder has this file, the plugin is killed in the middle of its next mount."""
_KILL_IN_MOUNT = f"""
import os
from pathlib import Path

from inferometer_fetch.cache.mounter import LinuxMounter

mount = LinuxMounter._mount


def mount_and_die(self, source, target, flags):
    mount(self, source, target, flags)
    trigger = Path("/cache/{TRIGGER}")
    if source is not None and trigger.exists():
        trigger.unlink()
        os._exit(137)  # the first process of a container cannot kill itself


LinuxMounter._mount = mount_and_die
"""
"""A sitecustomize of the plugin: it ends before the mount is read-only and the pod has it."""


@pytest.fixture(scope="module")
def store(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ModelBucket:
    """Start the store."""
    return start_store(cluster, tmp_path_factory.mktemp("models"), PORT)


@pytest.fixture(scope="module")
def disk(cluster: Cluster) -> Iterator[Path]:
    """Mount a small disk on the node; yield its folder as this process sees it."""
    (node,) = cluster.nodes.values()
    enter = ["nsenter", f"--mount=/proc/{node.pid}/ns/mnt"]
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", FOLDER]
    subprocess.run([*enter, "mkdir", "-p", FOLDER], check=True)
    subprocess.run([*enter, *words], check=True)
    yield Path(f"/proc/{node.pid}/root{FOLDER}")
    subprocess.run([*enter, "umount", FOLDER], check=True)
    subprocess.run([*enter, "rmdir", FOLDER], check=True)


@pytest.fixture(scope="module")
def cache(cluster: Cluster, store: ModelBucket, disk: Path) -> Iterator[str]:
    """Install the agents with a cache on that disk, which can be killed in a mount."""
    values = {"kubeletFolder": f"{NODE_HOME}/kubelet", "quota": "1Gi", "folder": FOLDER}
    with (
        agents_namespace(cluster) as namespace,
        agents_installed(cluster, namespace, cache=values),
    ):
        faults = {"sitecustomize.py": _KILL_IN_MOUNT}
        words = ("create", "--namespace", namespace, "-f", "-")
        metadata = {"name": "faults"}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": faults}
        cluster.kubectl(*words, stdin=json.dumps(made))
        container = {
            "name": "cache",
            "env": [{"name": "PYTHONPATH", "value": "/faults:/opt/inferometer/own"}],
            "volumeMounts": [{"name": "faults", "mountPath": "/faults"}],
        }
        spec = {
            "containers": [container],
            "volumes": [{"name": "faults", "configMap": {"name": "faults"}}],
        }
        patch = json.dumps({"spec": {"template": {"spec": spec}}})
        cluster.kubectl("patch", "daemonset", CACHE, "--namespace", namespace, "--patch", patch)
        rollout = ("rollout", "status", f"daemonset/{CACHE}", "--timeout=120s")
        cluster.kubectl(*rollout, "--namespace", namespace)
        yield namespace


@pytest.fixture
def pods(cluster: Cluster, namespace: str, store: ModelBucket, cache: str) -> Iterator[str]:
    """Return a namespace whose pods have the keys of the store; wait until they are gone."""
    put_keys(cluster, namespace, "store", store)
    yield namespace
    store.open_gate()
    cluster.kubectl("delete", "pods", "--all", "--namespace", namespace, "--wait=true")


def entries_with(disk: Path, sha256: str) -> list[str]:
    """Return the entries of the cache that have a model."""
    known = [each.read_text() for each in disk.glob("entries/*/entry.json")]
    return [each for each in known if sha256 in each]


def test_a_full_disk_is_an_event(
    cluster: Cluster, store: ModelBucket, disk: Path, pods: str
) -> None:
    """A model in use stays; the pod of a new one waits until there is room, and nothing is kept."""
    used, wanted = store.add("used"), store.add("wanted")
    make_pod(cluster, pods, "user", "used", used)
    wait_for_content(cluster, pods, "user", used)
    ballast = disk / "ballast"
    assert len(entries_with(disk, "")) == 1, "models of tests before could be evicted"
    size = (store.folder / BUCKET / "wanted").stat().st_size
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - size // 2))
    make_pod(cluster, pods, "reader", "wanted", wanted)
    wait_slowly(lambda: "has no space left" in refusals(cluster, pods, "reader"), "the event")
    assert "set modelCache.folder" in refusals(cluster, pods, "reader")
    assert mounts(cluster, pods, "reader") == []
    assert entries_with(disk, wanted) == []
    assert len(entries_with(disk, used)) == 1
    words = ("exec", "user", "--namespace", pods, "--", "sha256sum", "/model/model.onnx")
    assert cluster.kubectl(*words).split()[0] == used
    ballast.unlink()
    wait_for_content(cluster, pods, "reader", wanted)


def test_a_killed_plugin_continues_the_download(
    cluster: Cluster, store: ModelBucket, disk: Path, cache: str, pods: str
) -> None:
    """Nothing is mounted before the plugin is back and the file is whole; its first half stays."""
    sha256 = store.add("interrupted")
    store.close_gate()
    make_pod(cluster, pods, "reader", "interrupted", sha256)
    parts = disk / "partial"
    wait_slowly(
        lambda: any(each.stat().st_size for each in parts.glob("*/files/model.onnx")),
        "a part of the model on the disk of the node",
    )
    before = restarts(cluster, cache)
    kill_plugin(cluster)
    wait_slowly(lambda: restarts(cluster, cache) > before, "the next plugin")
    wait_slowly(lambda: len(store.requests("interrupted", "GET")) > 1, "the next download")
    assert mounts(cluster, pods, "reader") == []
    assert printed(cluster, pods, "reader") == []
    store.open_gate()
    wait_for_content(cluster, pods, "reader", sha256)
    first, second = store.requests("interrupted", "GET")
    assert first["firstByte"] == 0
    assert second["firstByte"] > 0


def test_mounts_survive_a_killed_plugin(
    cluster: Cluster, store: ModelBucket, cache: str, pods: str
) -> None:
    """A pod keeps its model, and the next plugin still ends the mount with the pod."""
    sha256 = store.add("kept")
    make_pod(cluster, pods, "before", "kept", sha256)
    wait_for_content(cluster, pods, "before", sha256)
    (mount,) = mounts(cluster, pods, "before")
    count = restarts(cluster, cache)
    kill_plugin(cluster)
    wait_slowly(lambda: restarts(cluster, cache) > count, "the next plugin")
    assert mounts(cluster, pods, "before") == [mount]
    words = ("exec", "before", "--namespace", pods, "--", "sha256sum", "/model/model.onnx")
    assert cluster.kubectl(*words).split()[0] == sha256
    make_pod(cluster, pods, "after", "kept", sha256)
    wait_for_content(cluster, pods, "after", sha256)
    assert len(store.requests("kept", "GET")) == 1
    target = mount.split()[4]
    (node,) = cluster.nodes.values()
    cluster.kubectl("delete", "pod", "before", "--namespace", pods, "--wait=true")
    mountinfo = Path(f"/proc/{node.pid}/mountinfo")
    wait_slowly(lambda: target not in mountinfo.read_text(), "the end of the mount")


def test_a_plugin_that_is_killed_in_a_mount_leaves_none_behind(
    cluster: Cluster, store: ModelBucket, disk: Path, cache: str, pods: str
) -> None:
    """The pod has no mount until the next plugin has made one, whole and read-only."""
    sha256 = store.add("half-mounted")
    before = restarts(cluster, cache)
    (disk / TRIGGER).touch()
    make_pod(cluster, pods, "reader", "half-mounted", sha256)
    wait_slowly(lambda: not (disk / TRIGGER).exists(), "the kill in the mount")
    (record,) = (each for each in disk.glob("mounts/*.json") if "Mounting" in each.read_text())
    assert mounts(cluster, pods, "reader") == []
    assert printed(cluster, pods, "reader") == []
    wait_slowly(lambda: restarts(cluster, cache) > before, "the next plugin")
    wait_for_content(cluster, pods, "reader", sha256)
    (mount,) = mounts(cluster, pods, "reader")
    assert mount.split()[5].split(",")[0] == "ro"
    assert json.loads(record.read_text())["phase"] == "Mounted"
    assert len(store.requests("half-mounted", "GET")) == 1


def test_a_store_that_is_gone_is_an_event(
    cluster: Cluster, store: ModelBucket, disk: Path, pods: str
) -> None:
    """A new model waits for it with what was fetched; one whose keys it accepted is mounted."""
    kept, lost = store.add("accepted"), store.add("lost")
    make_pod(cluster, pods, "first", "accepted", kept)
    wait_for_content(cluster, pods, "first", kept)
    store.close_gate()
    make_pod(cluster, pods, "reader", "lost", lost)
    wait_slowly(
        lambda: any(each.stat().st_size for each in disk.glob("partial/*/files/model.onnx")),
        "a part of the model on the disk of the node",
    )
    assert store.process is not None
    store.process.kill()
    try:
        wait_slowly(
            lambda: "could not be fetched" in refusals(cluster, pods, "reader"), "the first event"
        )
        assert "Check the address and the network" in refusals(cluster, pods, "reader")
        make_pod(cluster, pods, "second", "accepted", kept)
        wait_for_content(cluster, pods, "second", kept)
        put_keys(cluster, pods, "others", store, "tester-2")
        make_pod(cluster, pods, "third", "accepted", kept, keys="others")
        wait_slowly(
            lambda: "its store does not answer" in refusals(cluster, pods, "third"), "its event"
        )
        assert mounts(cluster, pods, "reader") == mounts(cluster, pods, "third") == []
        assert entries_with(disk, lost) == []
    finally:
        store.open_gate()
        store.process.start()
    for pod, sha256 in (("reader", lost), ("third", kept)):
        wait_for_content(cluster, pods, pod, sha256)
    first, *_, last = store.requests("lost", "GET")
    assert first["firstByte"] == 0
    assert last["firstByte"] > 0
