"""Tests of how a cache makes room: within its quota, and on a disk that is smaller."""

import errno
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import CACHE_MODEL_FILE
from inferometer_fetch.cache.errors import CacheFullError
from inferometer_fetch.cache.files import folder_bytes, write_json
from inferometer_fetch.cache.node_cache import NodeCache
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.store import ModelStore
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.transfer import TransientError
from inferometer_models.errors import ModelRefusedError
from support.model_cache import (
    PRIVATE_URI,
    MemoryMounter,
    ScriptedStore,
    node_cache,
    private,
    public,
)

CONTENTS = {f"https://models/{name}": name.encode() * 40 for name in "abc"}
pytestmark = pytest.mark.usefixtures("no_pauses")
A, B, C = (public(content, uri) for uri, content in CONTENTS.items())


def use_once(cache: NodeCache, folder: Path, *requests: ModelRequest) -> None:
    """Mount and unmount models."""
    for request in requests:
        cache.publish(request, folder / "once", timeout_seconds=60)
        cache.unpublish(folder / "once")


def keys(store: ModelStore) -> set[str]:
    """Return the keys of the entries."""
    return {each.model.key for each in store.entries()}


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, mounter: MemoryMounter) -> None:
    """ENOSPC ends the download with that reason, and its part goes, so that others have room."""
    content = ScriptedStore({A.uri: CONTENTS[A.uri]})
    content.faults = [OSError(errno.ENOSPC, "No space left on device")]
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(CacheFullError, match="No space left on device"):
        cache.publish(A, tmp_path / "t", timeout_seconds=60)
    assert (store.used_bytes, store.references(), mounter.table) == (0, {}, {})


def test_only_what_no_pod_uses_is_evicted(tmp_path: Path, mounter: MemoryMounter) -> None:
    """A full cache refuses a new model while pods use the others, and evicts once they end."""
    cache, store = node_cache(tmp_path / "c", ScriptedStore(CONTENTS), mounter, quota_bytes=100)
    cache.publish(A, tmp_path / "a", timeout_seconds=60)
    cache.publish(B, tmp_path / "b", timeout_seconds=60)
    with pytest.raises(CacheFullError, match="full"):
        cache.publish(C, tmp_path / "c1", timeout_seconds=60)
    cache.unpublish(tmp_path / "b")
    cache.publish(C, tmp_path / "c1", timeout_seconds=60)
    assert {each.model.key for each in store.entries()} == {A.key, C.key}


def test_mounts_make_a_model_popular(tmp_path: Path, mounter: MemoryMounter) -> None:
    """Each mount counts once, in the popularity that cost-aware eviction weighs."""
    cache, store = node_cache(tmp_path / "c", ScriptedStore(CONTENTS), mounter)
    use_once(cache, tmp_path, A, A, A)
    (entry,) = store.entries()
    assert entry.model.popularity == 3.0


def test_a_mount_is_a_use(tmp_path: Path, mounter: MemoryMounter) -> None:
    """The model that was mounted again stays, although it was fetched first."""
    clock = [0.0]
    cache, store = node_cache(
        tmp_path / "c", ScriptedStore(CONTENTS), mounter, quota_bytes=100, clock=clock
    )
    for clock[0], request in enumerate((A, B, A, C)):
        use_once(cache, tmp_path, request)
    assert keys(store) == {A.key, C.key}


def test_a_model_is_used_until_its_mount_ends(tmp_path: Path, mounter: MemoryMounter) -> None:
    """What a pod had for hours and released just now stays; what was used shortly goes."""
    clock = [0.0]
    cache, store = node_cache(
        tmp_path / "c", ScriptedStore(CONTENTS), mounter, quota_bytes=100, clock=clock
    )
    cache.publish(A, tmp_path / "a", timeout_seconds=60)
    clock[0] = 100.0
    use_once(cache, tmp_path, B)
    clock[0] = 36_000.0
    cache.unpublish(tmp_path / "a")
    use_once(cache, tmp_path, C)
    assert keys(store) == {A.key, C.key}


@pytest.mark.parametrize("size", [90, 200])
def test_a_model_that_can_never_fit_evicts_nothing(
    tmp_path: Path, mounter: MemoryMounter, size: int
) -> None:
    """Room is made for the whole model at once, before its first byte, or not at all."""
    content = ScriptedStore({f"https://models/{name}": name.encode() * 20 for name in "wxyz"})
    content.contents["https://models/large"] = bytes(size)
    used, *unused = (public(each, uri) for uri, each in content.contents.items() if len(each) == 20)
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=100)
    cache.publish(used, tmp_path / "t", timeout_seconds=60)
    use_once(cache, tmp_path, *unused)
    for _ in range(2):
        with pytest.raises(CacheFullError, match="full"):
            cache.publish(
                public(bytes(size), "https://models/large"), tmp_path / "u", timeout_seconds=60
            )
    assert len(store.entries()) == 4
    assert (store.evictions, store.fetched_bytes, store.used_bytes) == (0, 80, 80)


@pytest.mark.parametrize(("data_bytes", "fits"), [(22, True), (23, False)])
def test_room_is_made_for_a_model_with_its_external_data(
    tmp_path: Path, mounter: MemoryMounter, data_bytes: int, *, fits: bool
) -> None:
    """If the sum does not fit, nothing is evicted, also not for the graph, which is read first."""
    content = ScriptedStore({f"https://models/{name}": name.encode() * 20 for name in "wxyz"})
    names = [*content.contents]
    content.contents |= {PRIVATE_URI: bytes(36)}
    content.contents |= {f"{PRIVATE_URI}/{each}": bytes(data_bytes) for each in ("1", "2")}
    used, *unused = (public(content.contents[each], each) for each in names)
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=100)
    cache.publish(used, tmp_path / "t", timeout_seconds=60)
    use_once(cache, tmp_path, *unused)
    content.external = ("1", "2")
    request = private(bytes(36))
    if fits:
        use_once(cache, tmp_path, request)
        assert keys(store) == {used.key, request.key}
        assert store.used_bytes == 100
        return
    for _ in range(2):
        with pytest.raises(CacheFullError, match="full"):
            use_once(cache, tmp_path, request)
    assert keys(store) == {used.key, *(each.key for each in unused)}
    assert (store.evictions, store.used_bytes) == (0, 80)


def test_a_graph_takes_little_over_the_quota(
    tmp_path: Path, mounter: MemoryMounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond that, room is made for a graph before the size of its model is known."""
    monkeypatch.setattr("inferometer_fetch.cache.store._SPARE_BYTES", 19)
    content = ScriptedStore({**CONTENTS, PRIVATE_URI: bytes(40)})
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=100)
    use_once(cache, tmp_path, A, B)
    content.external = ("1", "2")
    content.contents |= {f"{PRIVATE_URI}/{each}": bytes(40) for each in content.external}
    with pytest.raises(CacheFullError, match="full"):
        use_once(cache, tmp_path, private(bytes(40)))
    assert (store.evictions, store.used_bytes) == (1, 40)


def test_data_that_is_fetched_again_is_counted_once(tmp_path: Path, mounter: MemoryMounter) -> None:
    """External data starts again after a kill or a fault, in the room that it has."""
    request = private(bytes(20))
    content = ScriptedStore({PRIVATE_URI: bytes(20), f"{PRIVATE_URI}/1": bytes(80)})
    content.external = ("1",)
    content.faults = [TransientError("cut")] * 2
    part = tmp_path / "c" / "partial" / request.source / "files"
    part.mkdir(parents=True)  # what a killed plugin leaves
    (part / CACHE_MODEL_FILE).write_bytes(bytes(20))
    (part / "1").write_bytes(bytes(79))
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=100)
    cache.publish(request, tmp_path / "t", timeout_seconds=60)
    assert store.used_bytes == 100


def test_a_model_of_too_many_files_is_refused(tmp_path: Path, mounter: MemoryMounter) -> None:
    """Empty files take no bytes of the quota, but the disk's room for names."""
    content = ScriptedStore({PRIVATE_URI: bytes(20)})
    content.external = tuple(str(each) for each in range(1025))
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(ModelRefusedError, match=r"1,025 files .* at most 1,024"):
        cache.publish(private(bytes(20)), tmp_path / "t", timeout_seconds=60)
    assert (store.used_bytes, len(content.opened)) == (0, 1)


def test_files_of_a_model_are_not_listed_for_each_of_them(
    tmp_path: Path, mounter: MemoryMounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work for a model grows with its files, not with their square."""
    counts = []
    for files in (5, 50):
        content = ScriptedStore({PRIVATE_URI: bytes(20)})
        content.external = tuple(str(each) for each in range(files))
        content.contents |= {f"{PRIVATE_URI}/{each}": b"" for each in content.external}
        listed: list[Path] = []

        def list_folder(folder: Path, listed: list[Path] = listed) -> int:
            listed.append(folder)
            return folder_bytes(folder)

        monkeypatch.setattr("inferometer_fetch.cache.store.folder_bytes", list_folder)
        cache, _ = node_cache(tmp_path / str(files), content, mounter)
        cache.publish(private(bytes(20)), tmp_path / f"t{files}", timeout_seconds=60)
        counts.append(len(listed))
    assert counts[0] == counts[1]


def test_a_download_that_fails_keeps_no_room(tmp_path: Path, mounter: MemoryMounter) -> None:
    """After a fault, only what is on the disk counts, and the next try makes room for the rest."""
    content = ScriptedStore(CONTENTS)
    content.faults = [TransientError("cut")] * 3
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=80)
    with pytest.raises(FetchFailedError):
        cache.publish(A, tmp_path / "t", timeout_seconds=60)
    assert store.used_bytes == 20
    cache.publish(A, tmp_path / "t", timeout_seconds=60)
    cache.publish(B, tmp_path / "u", timeout_seconds=60)
    assert store.used_bytes == 80


def test_a_host_that_reports_no_size_still_stays_within_the_quota(
    tmp_path: Path, mounter: MemoryMounter
) -> None:
    """Then room is made as the bytes arrive."""
    content = ScriptedStore(CONTENTS)
    content.reports_size = False
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=100)
    use_once(cache, tmp_path, A, B, C)
    assert C.key in keys(store)
    assert store.used_bytes == 80


def test_a_disk_smaller_than_the_quota_evicts(tmp_path: Path, mounter: MemoryMounter) -> None:
    """What the policy values least leaves a full disk before a byte is written, and no more."""
    clock = [0.0]
    cache, store = node_cache(
        tmp_path / "c", ScriptedStore(CONTENTS), mounter, disk_bytes=100, clock=clock
    )
    use_once(cache, tmp_path, A)
    clock[0] = 1.0
    use_once(cache, tmp_path, B)
    cache.publish(C, tmp_path / "t", timeout_seconds=60)
    assert keys(store) == {B.key, C.key}
    assert store.evictions == 1


def test_a_disk_that_pods_use_is_reported(tmp_path: Path, mounter: MemoryMounter) -> None:
    """If the disk has no room even without the unused models, they stay."""
    cache, store = node_cache(tmp_path / "c", ScriptedStore(CONTENTS), mounter, disk_bytes=80)
    cache.publish(A, tmp_path / "t", timeout_seconds=60)
    cache.publish(B, tmp_path / "u", timeout_seconds=60)
    with pytest.raises(CacheFullError, match=r"disk .* no space left .* larger disk"):
        cache.publish(C, tmp_path / "v", timeout_seconds=60)
    assert keys(store) == {A.key, B.key}


def test_a_disk_that_others_fill_evicts_and_resumes(tmp_path: Path, mounter: MemoryMounter) -> None:
    """ENOSPC removes the next unused model, and the download goes on where it was."""
    content, clock = ScriptedStore(CONTENTS), [0.0]
    cache, store = node_cache(tmp_path / "c", content, mounter, clock=clock)
    use_once(cache, tmp_path, A)
    clock[0] = 1.0
    use_once(cache, tmp_path, B)
    content.faults = [OSError(errno.ENOSPC, "No space left on device")]
    cache.publish(C, tmp_path / "t", timeout_seconds=60)
    assert keys(store) == {B.key, C.key}
    assert content.opened[2:] == [(C.uri, 0), (C.uri, 20)]


def test_a_record_on_a_full_disk_evicts_another_model(
    tmp_path: Path, mounter: MemoryMounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hit needs room for its reference: it never removes the model that it mounts."""
    clock = [0.0]
    cache, store = node_cache(tmp_path / "c", ScriptedStore(CONTENTS), mounter, clock=clock)
    for clock[0], request in enumerate((A, B)):  # A would go first
        use_once(cache, tmp_path, request)
    faults = [OSError(errno.ENOSPC, "No space left on device")]

    def write_or_fail(path: Path, record: dict[str, object]) -> None:
        if path.parent.name == "mounts" and faults:
            raise faults.pop()
        write_json(path, record)

    monkeypatch.setattr("inferometer_fetch.cache.store.write_json", write_or_fail)
    cache.publish(A, tmp_path / "t", timeout_seconds=60)
    assert keys(store) == {A.key}
    assert not faults
