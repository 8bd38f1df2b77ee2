"""Tests of what one namespace can do to another through the model cache of their node."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer_fetch.cache import limits
from inferometer_fetch.cache.csi_server import CALLS_AT_ONCE
from inferometer_fetch.cache.errors import (
    CacheFullError,
    RefusedContentError,
    StillFetchingError,
)
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.transfer import TransientError
from inferometer_models.errors import ModelRefusedError
from support.model_cache import (
    CONTENT,
    OTHER_URI,
    PRIVATE_URI,
    URI,
    MemoryMounter,
    ScriptedStore,
    node_cache,
    private,
    public,
)
from support.waiting import result_of, wait_until

pytestmark = pytest.mark.usefixtures("no_pauses")


def test_an_address_that_stalls_or_lies_keeps_the_model_from_no_other_pod(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A pod whose address is right gets its model; the other's event has its own address only."""
    gate = content.gates[OTHER_URI] = threading.Event()
    content.contents[OTHER_URI] = b"wrong"
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(
            cache.publish,
            public(CONTENT, OTHER_URI, namespace="b"),
            tmp_path / "b",
            timeout_seconds=60,
        )
        wait_until(lambda: (OTHER_URI, 0) in content.opened, "a download that stalls")
        try:
            cache.publish(public(CONTENT), tmp_path / "a", timeout_seconds=60)
        finally:
            gate.set()
        with pytest.raises(ModelRefusedError, match=OTHER_URI):
            result_of(other, "the download of the other address")
    assert [*mounter.table] == [str(tmp_path / "a")]
    assert store.used_bytes == len(CONTENT)


def test_two_addresses_of_one_model_become_one_entry(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The slower download is dropped, and its pod gets the copy of the faster one."""
    gate = content.gates[OTHER_URI] = threading.Event()
    cache, store = node_cache(tmp_path / "c", content, mounter)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(
            cache.publish, public(CONTENT, OTHER_URI), tmp_path / "b", timeout_seconds=60
        )
        wait_until(lambda: (OTHER_URI, 0) in content.opened, "a download that stalls")
        try:
            fast = cache.publish(public(CONTENT), tmp_path / "a", timeout_seconds=60)
        finally:
            gate.set()
        assert result_of(slow, "the slower download").key == fast.key
    assert len(mounter.table) == 2
    assert store.used_bytes == len(CONTENT)


def test_a_private_model_stays_in_its_namespace(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """Who knows address and checksum gets nothing: not without keys, nor from another namespace."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    mine = private(CONTENT)
    cache.publish(mine, tmp_path / "t", timeout_seconds=60)
    assert len(content.opened) == 1
    # Another namespace's own store that accepts any keys, with the checksum of the model.
    assert mine.store is not None
    theirs = replace(
        private(CONTENT, namespace="b"), store=replace(mine.store, endpoint="https://mine")
    )
    content.contents[PRIVATE_URI] = b"anything"
    with pytest.raises(ModelRefusedError, match="has another"):
        cache.publish(theirs, tmp_path / "u", timeout_seconds=60)
    in_place = replace(theirs, namespace="a")
    with pytest.raises(ModelRefusedError, match="has another"):
        cache.publish(in_place, tmp_path / "u", timeout_seconds=60)
    content.contents[URI] = b"anything"
    with pytest.raises(ModelRefusedError, match="has another"):
        cache.publish(public(CONTENT), tmp_path / "u", timeout_seconds=60)
    content.refusal = ModelRefusedError("AccessDenied")
    with pytest.raises(ModelRefusedError, match="AccessDenied"):
        cache.publish(private(CONTENT, keys="guess"), tmp_path / "u", timeout_seconds=60)
    assert [*mounter.table] == [str(tmp_path / "t")]
    assert len(store.entries()) == 1


def test_credentials_are_accepted_for_an_hour(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """Within the hour a private model is mounted without its store; later the store decides."""
    clock = [0.0]
    cache, _ = node_cache(tmp_path / "c", content, mounter, clock=clock)
    cache.publish(private(CONTENT), tmp_path / "t", timeout_seconds=60)
    content.refusal = TransientError("connection refused")
    clock[0] = 3599.0
    assert cache.publish(private(CONTENT), tmp_path / "u", timeout_seconds=60).was_cached
    clock[0] = 3600.0
    with pytest.raises(FetchFailedError, match="within the last hour"):
        cache.publish(private(CONTENT), tmp_path / "v", timeout_seconds=60)
    assert len(content.asked) == 2
    content.refusal = None
    cache.publish(private(CONTENT), tmp_path / "v", timeout_seconds=60)
    again, _ = node_cache(tmp_path / "c", content, mounter, clock=clock)
    again.publish(private(CONTENT), tmp_path / "w", timeout_seconds=60)
    assert len(content.asked) == 4  # a new plugin remembers no credentials
    for file in (tmp_path / "c").rglob("*"):
        assert file.is_dir() or b"https://store" not in file.read_bytes()


@pytest.mark.parametrize("other", ["address", "checksum", "namespace"])
def test_credentials_are_accepted_for_one_model(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter, other: str
) -> None:
    """Keys that may read one model mount no other one, which the cache has, without their store."""
    theirs_uri = "s3://models/theirs.onnx"
    content.contents |= {theirs_uri: b"theirs"}
    cached = {
        "address": private(CONTENT, uri=theirs_uri),
        "checksum": private(b"theirs"),
        "namespace": private(CONTENT, namespace="b"),
    }[other]
    content.contents[cached.uri] = b"theirs" if other == "checksum" else CONTENT
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    cache.publish(cached, tmp_path / "t", timeout_seconds=60)
    content.contents[PRIVATE_URI] = CONTENT
    accepted = private(CONTENT, keys="others")
    cache.publish(accepted, tmp_path / "u", timeout_seconds=60)
    content.refusal = ModelRefusedError("AccessDenied")
    with pytest.raises(ModelRefusedError, match="AccessDenied"):
        cache.publish(replace(cached, store=accepted.store), tmp_path / "v", timeout_seconds=60)


def test_stalled_downloads_of_a_namespace_leave_room_for_others(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """However many models a namespace requests, a few are fetched; another's starts at once."""
    gate = threading.Event()
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    for index in range(20):
        uri = f"https://stalled/{index}"
        content.gates[uri] = gate
        content.contents[uri] = uri.encode()
        with pytest.raises(StillFetchingError):
            cache.publish(public(uri.encode(), uri, "b"), tmp_path / str(index), timeout_seconds=0)
    try:
        cache.publish(public(CONTENT), tmp_path / "a", timeout_seconds=60)
    finally:
        gate.set()


def test_a_refused_download_is_not_repeated_for_a_while(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """The kubelet's calls get the reason at once; another checksum or address is not held up."""
    clock = [0.0]
    cache, store = node_cache(tmp_path / "c", content, mounter, clock=clock)
    wrong = public(b"other")
    for clock[0] in (0.0, 1.0, 599.0):
        with pytest.raises(ModelRefusedError, match="has another"):
            cache.publish(wrong, tmp_path / "t", timeout_seconds=60)
    assert store.fetched_bytes == len(CONTENT)
    cache.publish(public(CONTENT), tmp_path / "u", timeout_seconds=60)
    content.contents |= {URI: b"other", OTHER_URI: b"other"}
    with pytest.raises(ModelRefusedError, match="not repeated for 1 s"):
        cache.publish(wrong, tmp_path / "t", timeout_seconds=60)
    clock[0] = 600.0
    cache.publish(wrong, tmp_path / "t", timeout_seconds=60)
    assert [address for address, _ in content.opened] == [URI] * 3


@pytest.mark.parametrize("fault", ["graph", "size", "data"])
def test_whatever_its_content_is_refused_for_a_model_is_fetched_once(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter, fault: str
) -> None:
    """A graph that is none, a file that is too large, and data that https:// does not fetch."""
    content.graph_fault = RefusedContentError("no model") if fault == "graph" else None
    content.external = ("w",) if fault == "data" else ()
    content.reports_size = False
    most = 9 if fault == "size" else 10
    cache, _ = node_cache(tmp_path / "c", content, mounter, max_model_bytes=most)
    for _ in range(3):
        with pytest.raises(ModelRefusedError):
            cache.publish(public(CONTENT), tmp_path / "t", timeout_seconds=60)
    assert content.opened == [(URI, 0)]


def test_credentials_that_a_store_refuses_are_not_remembered(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A refusal is remembered for all pods of a source, so only if it does not depend on keys."""
    content.faults = [ModelRefusedError("AccessDenied")]
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    with pytest.raises(ModelRefusedError, match="AccessDenied"):
        cache.publish(private(CONTENT), tmp_path / "t", timeout_seconds=60)
    cache.publish(private(CONTENT), tmp_path / "t", timeout_seconds=60)


def test_downloads_that_become_no_models_evict_a_bounded_part(
    tmp_path: Path, mounter: MemoryMounter
) -> None:
    """Of a full cache one namespace removes little an hour; others, and true models, go on."""
    lies = {f"https://lies/{index}": bytes(each) for index, each in enumerate((10, 10, 9, 10, 10))}
    good = {f"https://good/{index}": bytes([index]) * 10 for index in range(10)}
    clock = [0.0]
    content = ScriptedStore({**lies, **good, URI: CONTENT, OTHER_URI: b"9876543210"})
    cache, store = node_cache(tmp_path / "c", content, mounter, quota_bytes=100, clock=clock)

    def use(request: ModelRequest) -> None:
        cache.publish(request, tmp_path / "t", timeout_seconds=60)
        cache.unpublish(tmp_path / "t")

    def fill() -> None:
        for uri, each in good.items():
            use(public(each, uri, "filler"))
        assert len(store.entries()) == 10

    refusals: list[type[Exception]] = []
    for uri in lies:
        fill()
        with pytest.raises((ModelRefusedError, CacheFullError)) as raised:
            use(public(b"wrong", uri, "evil"))
        refusals.append(raised.type)
    assert refusals == [*[RefusedContentError] * 2, *[CacheFullError] * 3]
    assert len(store.entries()) == 10
    clock[0] = 3599.0
    with pytest.raises(CacheFullError, match="namespace"):
        use(public(CONTENT, namespace="evil"))
    use(public(CONTENT))
    clock[0] = 3600.0
    use(public(b"9876543210", OTHER_URI, "evil"))


def test_refusals_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many refusals the oldest ones are forgotten."""
    monkeypatch.setattr(limits, "_MOST_REFUSALS", 2)
    refusals = limits.RefusedDownloads(lambda: 0.0)
    for source in ("a", "b", "a", "c"):
        refusals.note(source, RefusedContentError("wrong"))
    refusals.check("b")
    for source in ("a", "c"):
        with pytest.raises(RefusedContentError, match="wrong"):
            refusals.check(source)


def test_waiting_pods_leave_calls_for_other_models(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """Of many pods of a namespace that wait for one download, a few hold a call of the plugin."""
    gate = content.gates[OTHER_URI] = threading.Event()
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        calls = [
            threads.submit(
                cache.publish, public(CONTENT, OTHER_URI), tmp_path / str(each), timeout_seconds=60
            )
            for each in range(CALLS_AT_ONCE)
        ]
        try:
            wait_until(lambda: sum(each.done() for each in calls) >= CALLS_AT_ONCE - 8, "answers")
            with pytest.raises(StillFetchingError, match="being downloaded"):
                next(each for each in calls if each.done()).result()
        finally:
            gate.set()
    assert sum(each.exception() is None for each in calls) == 8


def test_a_store_that_does_not_answer_holds_a_few_calls(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """A dead store of one namespace keeps another's pods neither from a hit nor from a check."""
    dead = "s3://dead/m.onnx"
    gate = content.check_gates[dead] = threading.Event()
    cache, _ = node_cache(tmp_path / "c", content, mounter)
    cache.publish(public(CONTENT), tmp_path / "first", timeout_seconds=60)
    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        calls = [
            threads.submit(
                cache.publish,
                private(CONTENT, "b", uri=dead),
                tmp_path / str(each),
                timeout_seconds=60,
            )
            for each in range(CALLS_AT_ONCE)
        ]
        try:
            wait_until(lambda: sum(each.done() for each in calls) >= CALLS_AT_ONCE - 8, "answers")
            with pytest.raises(StillFetchingError, match="are not yet checked"):
                next(each for each in calls if each.done()).result()
            hit = threads.submit(
                cache.publish, public(CONTENT), tmp_path / "hit", timeout_seconds=60
            )
            assert hit.result(60).was_cached
            checked = threads.submit(
                cache.publish, private(CONTENT), tmp_path / "checked", timeout_seconds=60
            )
            assert not checked.result(60).was_cached
            assert sum(each.running() for each in calls) == 8
        finally:
            content.refusal = TransientError("connection refused")
            gate.set()
    assert sum(isinstance(each.exception(), FetchFailedError) for each in calls) == 8
    content.refusal = None
    content.contents[dead] = CONTENT
    cache.publish(private(CONTENT, "b", uri=dead), tmp_path / "later", timeout_seconds=60)


def test_the_same_keys_in_another_namespace_get_their_own_copy(
    tmp_path: Path, content: ScriptedStore, mounter: MemoryMounter
) -> None:
    """Store, address, checksum and keys are equal; still no copy of another namespace is served."""
    cache, store = node_cache(tmp_path / "c", content, mounter)
    mine = cache.publish(private(CONTENT), tmp_path / "t", timeout_seconds=60)
    theirs = cache.publish(private(CONTENT, namespace="b"), tmp_path / "u", timeout_seconds=60)
    assert mine.key != theirs.key
    assert not theirs.was_cached
    assert content.opened == [(PRIVATE_URI, 0)] * 2
    assert len(store.entries()) == 2


def test_whole_models_do_not_count_as_evictions_of_their_namespace() -> None:
    """A download in progress does count, also towards itself once it failed."""
    budget = limits.EvictionBudget(25, lambda: 0.0)
    assert budget.take("1", "a", 60)
    assert budget.take("1", "a", 60)
    assert not budget.take("2", "a", 1)
    assert budget.take("3", "b", 60)
    budget.end("1", is_entry=True)
    assert budget.take("2", "a", 60)
    budget.end("2", is_entry=False)
    assert not budget.take("2", "a", 1)
