"""Tests of the checks of checksums: a damaged model is mounted for no further pod."""

import hashlib
import threading
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import CACHE_MODEL_FILE
from inferometer_fetch.cache.__main__ import _check_repeatedly
from inferometer_fetch.cache.errors import DamagedEntryError
from inferometer_fetch.cache.files import CHECKED_BYTES_PER_SECOND, checksum
from inferometer_fetch.cache.store import ModelStore
from inferometer_models.page_cache import evict, resident_bytes
from support.model_cache import CONTENT, MemoryMounter, ScriptedStore, node_cache, public
from support.requirements import cannot_run

DAY_SECONDS = 24 * 3600.0


def damage(store: ModelStore) -> None:
    """Change a byte of the model on the disk."""
    file = store.files(public(CONTENT).key) / CACHE_MODEL_FILE
    file.chmod(0o644)
    file.write_bytes(b"damaged!!!")


def test_a_damaged_file_is_never_mounted_again(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The check finds it; it is fetched anew as soon as no pod uses it."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    request = public(CONTENT)
    cache.publish(request, tmp_path / "t", timeout_seconds=60)
    assert cache.verify() == {}
    damage(store)
    assert cache.verify() == {request.key: (CACHE_MODEL_FILE,)}
    with pytest.raises(DamagedEntryError, match="1 volumes still use it"):
        cache.publish(request, tmp_path / "u", timeout_seconds=60)
    cache.unpublish(tmp_path / "t")
    assert not cache.publish(request, tmp_path / "u", timeout_seconds=60).was_cached
    assert (store.files(request.key) / CACHE_MODEL_FILE).read_bytes() == CONTENT


def test_damage_outlasts_a_check_that_finds_none(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A disk that reads rightly once again is not trusted: the model is fetched anew."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    damage(store)
    cache.verify()
    (store.files(public(CONTENT).key) / CACHE_MODEL_FILE).write_bytes(CONTENT)
    assert cache.verify() == {}
    with pytest.raises(DamagedEntryError):
        cache.publish(public(CONTENT), tmp_path / "u", timeout_seconds=60)


def test_damage_is_remembered_by_the_next_plugin(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A restart mounts a damaged model for no further pod, until it is fetched anew."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    damage(store)
    cache.verify()
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(DamagedEntryError):
        cache.publish(public(CONTENT), tmp_path / "u", timeout_seconds=60)
    cache.unpublish(tmp_path / "t")
    assert not cache.publish(public(CONTENT), tmp_path / "u", timeout_seconds=60).was_cached
    cache.publish(public(CONTENT), tmp_path / "v", timeout_seconds=60)


def test_a_check_is_due_a_period_after_the_last_one_of_any_plugin(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A plugin that starts more often than it checks still checks what is due, and that only."""
    clock = [1000.0]
    cache, store = node_cache(tmp_path / "c", content, mounter, clock=clock)
    cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    ended = threading.Event()
    ended.set()
    clock[0] += DAY_SECONDS
    _check_repeatedly(cache, DAY_SECONDS, ended)
    damage(store)
    clock[0] += DAY_SECONDS - 1
    cache, store = node_cache(tmp_path / "c", content, mounter, clock=clock)
    _check_repeatedly(cache, DAY_SECONDS, ended)
    assert [each.is_damaged for each in store.entries()] == [False]
    clock[0] += 1
    _check_repeatedly(cache, DAY_SECONDS, ended)
    assert [each.is_damaged for each in store.entries()] == [True]


def test_a_check_reads_slowly(tmp_path: Path) -> None:
    """A run on the node loses a small part of one core and of the disk."""
    file, waits = tmp_path / "m", list[float]()
    content = bytes(range(256)) * 16384
    file.write_bytes(content)
    reads = iter([7.0, 7.001, 7.016, 7.25, 7.06])  # the third chunk was read too late for a pause
    found = checksum(file, sleep=waits.append, now=lambda: next(reads))
    assert found == hashlib.sha256(content).hexdigest()
    chunk = len(content) / 4 / CHECKED_BYTES_PER_SECOND
    assert waits == pytest.approx([chunk - 0.001, 2 * chunk - 0.016, 0, 4 * chunk - 0.06])
    assert checksum(tmp_path / "none") == ""


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_check_leaves_the_page_cache_as_it_was(tmp_path: Path, *, is_warm: bool) -> None:
    """A model that pods have in memory stays there; another takes the room of nothing."""
    file = tmp_path / "m"
    file.write_bytes(bytes(4 << 20))
    if not is_warm:
        evict([file])
        if resident_bytes(file):
            cannot_run("This file system has its files in memory only.")
    checksum(file, sleep=lambda _: None)
    assert resident_bytes(file) == (4 << 20 if is_warm else 0)
