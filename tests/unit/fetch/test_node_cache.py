"""Tests of the model cache of a node: sharing, tenancy, faults and restarts."""

import errno
import json
import threading
from pathlib import Path

import pytest

from inferometer_api.nodes.cache_statistics import read_cache_statistics
from inferometer_api.plan.cluster_objects import CACHE_MODEL_FILE
from inferometer_fetch.cache.errors import (
    MountedOtherwiseError,
    StillFetchingError,
    UnreadableGraphError,
)
from inferometer_fetch.cache.node_cache import check_target
from inferometer_fetch.cache.references import MOUNTED, MOUNTING, NodeMount, Reference
from inferometer_fetch.cache.request import model_request
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.transfer import TransientError
from inferometer_models.errors import ModelRefusedError
from support.model_cache import (
    CONTENT,
    PRIVATE_URI,
    URI,
    MemoryMounter,
    ScriptedStore,
    node_cache,
    private,
    public,
)
from support.waiting import join_thread, wait_until

pytestmark = pytest.mark.usefixtures("no_pauses")


def test_pods_share_one_download(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """Pods of two namespaces that ask at once for a new public model wait for one download."""
    gate = content.gates[URI] = threading.Event()
    cache, store = node_cache(tmp_path / "c", content, mounter)
    threads = [
        threading.Thread(
            target=cache.publish,
            args=(public(CONTENT, namespace=name), tmp_path / name),
            kwargs={"timeout_seconds": 60},
        )
        for name in ("a", "b", "c")
    ]
    for each in threads:
        each.start()
    wait_until(lambda: len(cache._busy) == 3, "three calls that wait")
    gate.set()
    for each in threads:
        join_thread(each, "the end of the calls")
    assert content.opened == [(URI, 0)]
    assert len(mounter.table) == len(store.references()) == 3
    (entry,) = store.entries()
    assert (store.files(entry.model.key) / CACHE_MODEL_FILE).read_bytes() == CONTENT
    known = json.loads((store.files(entry.model.key) / "checksums.json").read_bytes())
    assert known == {CACHE_MODEL_FILE: public(CONTENT).sha256}


def test_the_cache_counts_hits_misses_bytes_and_evictions(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A repeated call of the kubelet is no mount, and an eviction is counted once."""
    other = b"abcdefghij"
    content.contents["https://models/other.onnx"] = other
    cache, _ = node_cache(tmp_path / "c", content, mounter, quota_bytes=len(CONTENT))
    for name in ("one", "one", "two"):
        cache.publish(public(CONTENT), tmp_path / name, timeout_seconds=60)
    for name in ("one", "two"):
        cache.unpublish(tmp_path / name)
    request = public(other, "https://models/other.onnx")
    cache.publish(request, tmp_path / "three", timeout_seconds=60)
    found = cache.statistics()
    assert (found.hits, found.misses, found.evictions) == (1, 2, 1)
    assert found.fetched_bytes == len(CONTENT) + len(other)
    assert (found.used_bytes, found.quota_bytes) == (len(other), len(CONTENT))
    assert read_cache_statistics(found.to_json()) == found


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hits": "many"}'])
def test_a_file_without_counters_is_refused(text: str) -> None:
    """The agent then has no metrics of a cache."""
    with pytest.raises(ValueError, match=r"."):
        read_cache_statistics(text)


def test_a_call_that_waits_too_long_leaves_the_download_going(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The kubelet has to try again, and the next call finds the model; it is no hit for that."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    request = public(CONTENT)
    with pytest.raises(StillFetchingError, match="being downloaded"):
        cache.publish(request, tmp_path / "t", timeout_seconds=-1)
    wait_until(lambda: store.entry(request.key) is not None, "the model in the cache")
    assert not cache.publish(request, tmp_path / "t", timeout_seconds=60).was_cached
    assert content.opened == [(URI, 0)]


def test_a_volume_that_waited_over_several_calls_is_a_miss(
    tmp_path: Path,
    content: ScriptedStore,
    mounter: MemoryMounter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first call counts; a volume that was given up leaves no trace, nor do very many."""
    gate = content.gates[URI] = threading.Event()
    cache, store = node_cache(tmp_path / "c", content, mounter)
    request = public(CONTENT)
    for name in ("t", "u", "given up"):
        with pytest.raises(StillFetchingError):
            cache.publish(request, tmp_path / name, timeout_seconds=0)
    cache.unpublish(tmp_path / "given up")
    gate.set()
    wait_until(lambda: store.entry(request.key) is not None, "the model in the cache")
    for name in ("t", "u", "given up", "new"):
        cache.publish(request, tmp_path / name, timeout_seconds=60)
    assert (cache.statistics().misses, cache.statistics().hits) == (2, 2)
    cache.unpublish(tmp_path / "t")
    cache.publish(request, tmp_path / "t", timeout_seconds=60)
    assert (cache.statistics().misses, cache.statistics().hits) == (2, 3)
    monkeypatch.setattr("inferometer_fetch.cache.node_cache._MOST_MISSES", 1)
    for name in ("1", "2"):
        cache._note_miss(name)
    assert [*cache._missed] == ["2"]


def test_a_download_is_resumed(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """After an interruption, also one that killed the plugin, only the missing bytes are read."""
    folder = tmp_path / "c"
    content.faults = [TransientError("cut")]
    cache, store = node_cache(folder, content, mounter)
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert content.opened == [(URI, 0), (URI, 5)]
    cache.unpublish(tmp_path / "t")
    assert store.remove_unused(public(CONTENT).key)
    part = folder / "partial" / public(CONTENT).source / "files"
    part.mkdir(parents=True)  # what a killed plugin leaves
    (part / CACHE_MODEL_FILE).write_bytes(CONTENT[:7])
    cache, _ = node_cache(folder, content, mounter)
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert content.opened[2:] == [(URI, 7)]


def test_a_part_of_another_file_is_fetched_anew(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A part whose beginning is wrong is never completed into a model."""
    part = tmp_path / "c" / "partial" / public(CONTENT).source / "files"
    part.mkdir(parents=True)
    (part / CACHE_MODEL_FILE).write_bytes(b"xxx")
    cache, store = node_cache(tmp_path / "c", content, mounter)
    made = cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert content.opened == [(URI, 3), (URI, 0)]
    assert (store.files(made.key) / CACHE_MODEL_FILE).read_bytes() == CONTENT
    assert store.used_bytes == len(CONTENT)


def test_a_wrong_checksum_is_refused(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """Another content is neither kept nor mounted, and the message does not reveal its checksum."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(ModelRefusedError, match="has another") as raised:
        cache.publish(public(b"other"), tmp_path / "t", timeout_seconds=60)
    assert public(CONTENT).sha256 not in str(raised.value)
    assert (mounter.table, store.references(), store.used_bytes) == ({}, {}, 0)


def test_a_store_that_is_gone_is_reported_and_its_part_kept(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The message says why, and the next call resumes."""
    content.faults = [TransientError("connection refused")] * 3
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(FetchFailedError, match="connection refused"):
        cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert mounter.table == {}
    assert store.used_bytes == 5
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert content.opened[-1] == (URI, 5)


def test_a_model_whose_graph_cannot_be_read_is_not_downloaded_again(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The kubelet's next call reads the graph again, of the file that is there and right."""
    content.graph_fault = UnreadableGraphError("too long")
    cache, store = node_cache(tmp_path / "c", content, mounter)
    for _ in range(2):
        with pytest.raises(ModelRefusedError, match="too long"):
            cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert (store.fetched_bytes, store.used_bytes) == (len(CONTENT), len(CONTENT))
    assert (mounter.table, store.references()) == ({}, {})


@pytest.mark.parametrize("reports_size", [True, False])
def test_a_model_that_is_too_large_is_refused(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter, *, reports_size: bool
) -> None:
    """The limit holds for what arrives, whatever the host says."""
    content.reports_size = reports_size
    cache, store = node_cache(tmp_path / "c", content, mounter, max_model_bytes=9)
    with pytest.raises(ModelRefusedError, match="larger than the 9 bytes"):
        cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert store.used_bytes == 0


def test_a_restarted_plugin_knows_its_references(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """References survive the plugin, end with the node, and end with the pods meanwhile gone."""
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    for name in ("t", "u"):
        cache.publish(public(CONTENT), tmp_path / name, timeout_seconds=60)
    del mounter.table[str(tmp_path / "u")]
    _, store = node_cache(tmp_path / "c", content, mounter)
    assert [*store.references()] == [str(tmp_path / "t")]
    assert not store.remove_unused(public(CONTENT).key)
    _, store = node_cache(tmp_path / "c", content, MemoryMounter())
    assert store.references() == {}
    assert store.entry(public(CONTENT).key) is not None


def test_a_plugin_killed_in_mid_mount_starts_over(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The unfinished mount is undone at the next start, and the kubelet's next call mounts."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    key, target = public(CONTENT).key, str(tmp_path / "u")
    store.refer(Reference(target, key, MOUNTING))
    mounter.table[target] = NodeMount(key, read_only=False)
    cache, store = node_cache(tmp_path / "c", content, mounter)
    assert [*mounter.table] == [*store.references()] == [str(tmp_path / "t")]
    cache.publish(public(CONTENT), Path(target), timeout_seconds=60)
    assert mounter.table[target].read_only


def test_a_mount_that_fails_leaves_no_reference(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The entry can be evicted, and the next call tries again."""
    mounter.fault = PermissionError(errno.EPERM, "Operation not permitted")
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(PermissionError):
        cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert store.references() == {}
    mounter.fault = None
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)


def test_a_mount_that_cannot_be_recorded_is_undone(
    tmp_path: Path,
    content: ScriptedStore,
    mounter: MemoryMounter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk after the mount leaves neither mount nor reference, and the next call mounts."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    refer = store.refer
    faults = [OSError(errno.ENOSPC, "No space left on device")]

    def refer_or_fail(reference: Reference) -> bool:
        if reference.phase == MOUNTED and faults:
            raise faults.pop()
        return refer(reference)

    monkeypatch.setattr(store, "refer", refer_or_fail)
    with pytest.raises(OSError, match="No space"):
        cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert (mounter.table, store.references()) == ({}, {})
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert [*mounter.table] == [str(tmp_path / "t")]
    assert content.opened == [(URI, 0)]


def test_publishing_twice_changes_nothing(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """CSI calls are idempotent; a target with another volume is refused."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    for _ in range(2):
        cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert len(store.references()) == 1
    with pytest.raises(MountedOtherwiseError):
        cache.publish(private(CONTENT), tmp_path / "t", timeout_seconds=60)
    for _ in range(2):
        cache.unpublish(tmp_path / "t")
    assert (mounter.table, store.references()) == ({}, {})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "names",
    [("model.onnx/w",), ("checksums.json/w",), ("checksums.json",), ("n" * 300,), ("a", "a/b")],
)
def test_external_data_with_a_name_that_cannot_be_kept_is_refused(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter, names: tuple[str, ...]
) -> None:
    """It is a fault of the model, not of the disk: another try does not help."""
    content.external = names
    content.contents |= {f"{PRIVATE_URI}/{name}": b"weights" for name in names}
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(ModelRefusedError, match="name"):
        cache.publish(private(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert (store.used_bytes, mounter.table) == (0, {})


_POD = {"csi.storage.k8s.io/pod.namespace": "a", "csi.storage.k8s.io/ephemeral": "true"}


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"uri": URI, "sha256": "0" * 64}, "inline volumes of pods"),
        ({**_POD, "uri": URI, "sha256": "0" * 63}, "64 hexadecimal digits"),
        ({**_POD, "uri": URI}, "64 hexadecimal digits"),
        ({**_POD, "uri": "http://h/m.onnx", "sha256": "0" * 64}, "use https:// or s3://"),
        ({**_POD, "uri": "file:///etc/shadow", "sha256": "0" * 64}, "use https:// or s3://"),
        ({**_POD, "uri": "pvc://c/m.onnx", "sha256": "0" * 64}, "use https:// or s3://"),
        ({**_POD, "uri": "s3://b/../m.onnx", "sha256": "0" * 64}, "'..'"),
        ({**_POD, "uri": "s3://b/m.onnx", "sha256": "0" * 64}, "nodePublishSecretRef"),
        ({**_POD, "uri": URI, "sha256": "0" * 64, "path": "/"}, "Unknown volume attributes: path"),
    ],
)
def test_requests_are_checked(attributes: dict[str, str], words: str) -> None:
    """A volume's attributes name a model by address and checksum, and nothing else."""
    with pytest.raises(ModelRefusedError, match=words):
        model_request(attributes, {})


def test_the_namespace_is_the_kubelets() -> None:
    """The namespace of a request is what the kubelet says of the pod, and keys make it private."""
    attributes = {**_POD, "uri": PRIVATE_URI, "sha256": "AB" * 32}
    found = model_request(attributes, {"accessKeyId": "i", "secretAccessKey": "hidden"})
    assert (found.namespace, found.sha256) == ("a", "ab" * 32)
    assert found.store is not None
    assert "hidden" not in repr(found)


@pytest.mark.parametrize("target", ["/k/../etc", "/k/pods/../../etc", "/k", "/etc", "k/pods/v"])
def test_a_target_that_leads_out_of_the_kubelets_folder_is_refused(target: str) -> None:
    """Also one that begins in it."""
    assert check_target("/k/pods/v", Path("/k")) == Path("/k/pods/v")
    with pytest.raises(ModelRefusedError, match="not below the kubelet's folder"):
        check_target(target, Path("/k"))
