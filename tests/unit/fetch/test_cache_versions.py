"""Tests of external data that changes in its store next to an unchanged ONNX file."""

from pathlib import Path

import pytest

from inferometer_fetch.cache.access import ACCEPTED_SECONDS
from inferometer_fetch.cache.errors import StillFetchingError
from inferometer_fetch.cache.node_cache import NodeCache
from inferometer_fetch.cache.references import MOUNTED, Reference
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.transfer import TransientError
from support.model_cache import (
    CONTENT,
    PRIVATE_URI,
    MemoryMounter,
    ScriptedStore,
    node_cache,
    private,
)

DATA_URI = f"{PRIVATE_URI}/w"
REQUEST = private(CONTENT)


class Weights:
    """A node whose pods mount a model with external data."""

    def __init__(self, folder: Path, content: ScriptedStore, mounter: MemoryMounter) -> None:
        self.folder, self.content, self.mounter = folder, content, mounter
        self.clock = [0.0]
        content.external = ("w",)
        content.contents[DATA_URI] = b"old"
        self.start()

    def start(self) -> NodeCache:
        """Start the plugin, perhaps again."""
        self.cache, self.store = node_cache(
            self.folder / "c", self.content, self.mounter, clock=self.clock
        )
        return self.cache

    def mount(self, name: str) -> bytes:
        """Mount the model for a pod; return the weights that it sees."""
        self.cache.publish(REQUEST, self.folder / name, timeout_seconds=60)
        return self.seen(name)

    def seen(self, name: str) -> bytes:
        """Return the weights that a pod sees."""
        key = self.store.references()[str(self.folder / name)].key
        return (self.store.files(key) / "w").read_bytes()


@pytest.fixture
def weights(tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter) -> Weights:
    """Return a node whose store has the first weights of a model."""
    return Weights(tmp_path, content, mounter)


def test_changed_data_is_fetched_at_the_next_check(weights: Weights) -> None:
    """Within the hour pods share the old weights; then a new pod gets the new ones."""
    weights.mount("a")
    weights.cache.unpublish(weights.folder / "a")
    weights.content.contents[DATA_URI] = b"new"
    weights.clock[0] = ACCEPTED_SECONDS - 1
    assert weights.mount("b") == b"old"
    weights.cache.unpublish(weights.folder / "b")
    weights.clock[0] = ACCEPTED_SECONDS
    assert weights.mount("c") == b"new"
    assert len(weights.store.entries()) == 1
    assert weights.cache.statistics().evictions == 0


def test_unchanged_data_stays(weights: Weights) -> None:
    """A check of the same version downloads nothing."""
    weights.mount("a")
    opened = len(weights.content.opened)
    weights.clock[0] = ACCEPTED_SECONDS
    weights.start()
    assert weights.mount("b") == b"old"
    assert len(weights.content.opened) == opened


def test_pods_keep_the_data_that_they_use(weights: Weights) -> None:
    """The old entry stays until its last pod ends, over a restart too, and then goes."""
    weights.mount("a")
    weights.content.contents[DATA_URI] = b"new"
    weights.clock[0] = ACCEPTED_SECONDS
    assert weights.mount("b") == b"new"
    assert weights.seen("a") == b"old"
    retired = weights.store.references()[str(weights.folder / "a")].key
    # The kernel's mount follows the rename.
    weights.mounter.bind_read_only(weights.store.files(retired), weights.folder / "a")
    for _ in range(2):  # a repeated call for the running pod
        assert weights.mount("a") == b"old"
        weights.start()
    assert not weights.store.remove_unused(retired)
    assert weights.cache.verify() == {}
    weights.cache.unpublish(weights.folder / "a")
    assert [each.model.key for each in weights.store.entries()] == [REQUEST.key]
    assert weights.mount("c") == b"new"


def test_a_kill_between_rename_and_records_keeps_what_pods_use(weights: Weights) -> None:
    """The mounts say which entry is in use, whatever key is on record."""
    weights.mount("a")
    weights.content.contents[DATA_URI] = b"new"
    weights.clock[0] = ACCEPTED_SECONDS
    weights.mount("b")
    target = str(weights.folder / "a")
    retired = weights.store.references()[target].key
    weights.mounter.bind_read_only(weights.store.files(retired), Path(target))
    weights.store.refer(Reference(target, REQUEST.key, MOUNTED))  # as before the kill
    weights.start()
    assert weights.store.references()[target].key == retired


def test_a_model_that_changes_during_its_mount_is_mounted_by_the_next_call(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pod holds an entry whose reference names another one."""
    weights.mount("a")
    (entry,) = weights.store.entries()
    bind = weights.mounter.bind_read_only

    def retire_and_bind(source: Path, target: Path) -> None:
        bind(source, target)
        weights.store.retire(entry)

    monkeypatch.setattr(weights.mounter, "bind_read_only", retire_and_bind)
    with pytest.raises(StillFetchingError, match="changed in its store"):
        weights.mount("b")
    monkeypatch.setattr(weights.mounter, "bind_read_only", bind)
    assert [*weights.store.references()] == [str(weights.folder / "a")]
    weights.mount("b")


def test_an_entry_is_retired_once(weights: Weights) -> None:
    """Of two checks that found the old version, the later one leaves the new entry."""
    weights.mount("a")
    (old,) = weights.store.entries()
    weights.content.contents[DATA_URI] = b"new"
    weights.clock[0] = ACCEPTED_SECONDS
    weights.mount("b")
    weights.store.retire(old)
    opened = len(weights.content.opened)
    assert weights.mount("c") == b"new"
    assert len(weights.content.opened) == opened


@pytest.mark.usefixtures("no_pauses")
def test_a_store_that_fails_after_a_change_mounts_nothing_old(weights: Weights) -> None:
    """Once the change is known, a failed download is repeated and the old weights are not used."""
    weights.mount("a")
    weights.content.contents[DATA_URI] = b"new"
    weights.clock[0] = ACCEPTED_SECONDS
    weights.content.faults = [TransientError("cut")] * 3
    with pytest.raises(FetchFailedError):
        weights.mount("b")
    assert weights.mount("b") == b"new"
