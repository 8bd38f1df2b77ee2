"""Tests of the folder of the model cache, over any order of events and restarts."""

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from typing_extensions import override

from inferometer_api.plan.cluster_objects import CACHE_CHECKSUMS_FILE, CACHE_MODEL_FILE
from inferometer_fetch.cache.__main__ import main
from inferometer_fetch.cache.errors import CacheFullError
from inferometer_fetch.cache.files import claim_folder
from inferometer_fetch.cache.references import MOUNTED, Reference
from inferometer_fetch.cache.store import FOLDER_NAMES, ModelStore

QUOTA = 100
_KEYS = st.sampled_from([character * 64 for character in "abcd"])
_TARGETS = st.sampled_from(["/pods/1", "/pods/2", "/pods/3"])


def open_store(folder: Path) -> ModelStore:
    """Open a store with a small quota and a clock that stands still."""
    return ModelStore(folder, quota_bytes=QUOTA, policy="LRU", clock=lambda: 0.0)


def download(store: ModelStore, key: str, content: bytes) -> None:
    """Write an entry of one file."""
    folder = store.begin(key)
    store.reserve(key, len(content))
    (folder / CACHE_MODEL_FILE).write_bytes(content)
    store.commit(key, key, {CACHE_MODEL_FILE: hashlib.sha256(content).hexdigest()}, 1.0)


class StoreMachine(RuleBasedStateMachine):
    """Downloads, references and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = open_store(self.folder)

    @override
    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(key=_KEYS, size=st.integers(1, 60))
    def downloads(self, key: str, size: int) -> None:
        """Download a model, or be refused because pods use too much."""
        if self.store.entry(key) is not None:
            return
        used = {each.key for each in self.store.references().values()}
        held = sum(each.model.size_bytes for each in self.store.entries() if each.model.key in used)
        try:
            download(self.store, key, bytes(size))
        except CacheFullError:
            assert held + size > QUOTA
            self.store.end(key, keep=False)
        else:
            assert held + size <= QUOTA
            assert used <= {each.model.key for each in self.store.entries()}

    @rule(key=_KEYS, size=st.integers(1, 60), keep=st.booleans())
    def fails(self, key: str, size: int, keep: bool) -> None:  # noqa: FBT001 - drawn
        """End a download before it is whole."""
        if self.store.entry(key) is None:
            folder = self.store.begin(key)
            try:
                self.store.reserve(key, size)
                (folder / CACHE_MODEL_FILE).write_bytes(bytes(size))
            except CacheFullError:
                keep = False
            self.store.end(key, keep=keep)

    @rule(pod=_TARGETS, key=_KEYS)
    def refers(self, pod: str, key: str) -> None:
        """Refer to an entry, which works only if it is there."""
        is_there = self.store.entry(key) is not None
        assert self.store.refer(Reference(pod, key, MOUNTED)) == is_there
        if is_there:
            self.store.note_use(key)

    @rule(pod=_TARGETS)
    def forgets(self, pod: str) -> None:
        """End a reference."""
        self.store.forget(pod)

    @rule()
    def restarts(self) -> None:
        """Read the folder again; nothing is lost."""
        before = (self.store.entries(), self.store.references(), self.store.used_bytes)
        self.store = open_store(self.folder)
        assert (self.store.entries(), self.store.references(), self.store.used_bytes) == before

    @invariant()
    def holds_what_it_says(self) -> None:
        """Compare the store with its disk, its quota and the checksums."""
        found = self.folder.rglob("files/**/*")
        files = [each for each in found if each.name != CACHE_CHECKSUMS_FILE]
        assert sum(each.stat().st_size for each in files if each.is_file()) == self.store.used_bytes
        assert self.store.used_bytes <= QUOTA
        for entry in self.store.entries():
            assert self.store.damaged_files(entry.model.key) == ()
        keys = {entry.model.key for entry in self.store.entries()}
        assert {each.key for each in self.store.references().values()} <= keys


StoreMachine.TestCase.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)
TestStore = StoreMachine.TestCase


def test_an_entry_that_is_not_whole_is_discarded(tmp_path: Path) -> None:
    """After a crash of the node, entries without their files or their description are gone."""
    store = open_store(tmp_path)
    for key in ("a" * 64, "b" * 64):
        download(store, key, b"12345")
    (store.files("a" * 64) / CACHE_MODEL_FILE).unlink()
    (store.files("b" * 64).parent / "entry.json").write_text('{"sha256": {"mod')
    again = open_store(tmp_path)
    assert again.entries() == ()
    assert again.used_bytes == 0
    assert list((tmp_path / "entries").iterdir()) == []


def test_an_entry_is_on_disk_before_it_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file and folder is synchronized before the rename, so that no crash leaves a part."""
    synchronized: set[str] = set()
    fsync, rename = os.fsync, Path.rename

    def note(descriptor: int) -> None:
        synchronized.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def check(path: Path, target: Path) -> Path:
        assert {str(path / "files"), str(path / "files" / CACHE_MODEL_FILE)} <= synchronized
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", check)
    download(open_store(tmp_path), "a" * 64, b"12345")
    assert str(tmp_path / "entries") in synchronized


def test_the_cost_of_a_download_is_that_of_all_its_tries(tmp_path: Path) -> None:
    """A resumed download took as long as its tries together, over a restart of the plugin."""
    key = "a" * 64
    for seconds in (90.0, 5.0):
        store = open_store(tmp_path)
        (store.begin(key) / CACHE_MODEL_FILE).write_bytes(b"12345")
        store.end(key, keep=True, fetch_seconds=seconds)
    store = open_store(tmp_path)
    download(store, key, b"12345")
    (entry,) = store.entries()
    assert entry.model.fetch_seconds == 96.0
    assert not list(tmp_path.rglob("tries.json"))


def test_a_broken_record_is_no_reference(tmp_path: Path) -> None:
    """A reference that was half written is dropped; the mounts decide."""
    store = open_store(tmp_path)
    download(store, "a" * 64, b"12345")
    store.refer(Reference("/pods/1", "a" * 64, MOUNTED))
    (record,) = (tmp_path / "mounts").iterdir()
    record.write_text('{"target": ')
    assert open_store(tmp_path).references() == {}


def test_what_a_download_has_yet_to_write_is_no_free_disk(tmp_path: Path) -> None:
    """Of 60 free bytes, one download has reserved 40: for another one 20 are left."""
    free = [60]
    store = ModelStore(
        tmp_path, quota_bytes=QUOTA, policy="LRU", clock=lambda: 0.0, free_bytes=lambda _: free[0]
    )
    folder = store.begin("a" * 64)
    store.reserve("a" * 64, 40)
    store.begin("b" * 64)
    with pytest.raises(CacheFullError, match="disk"):
        store.reserve("b" * 64, 21)
    (folder / CACHE_MODEL_FILE).write_bytes(bytes(30))
    free[0] = 30
    with pytest.raises(CacheFullError, match="disk"):
        store.reserve("b" * 64, 21)
    store.reserve("b" * 64, 20)


def test_all_pods_read_an_entry_and_none_may_write_it(tmp_path: Path) -> None:
    """Whatever the umask: pods run as users of their own."""
    store, key = open_store(tmp_path), "a" * 64
    folder = store.begin(key)
    (folder / "w").mkdir(mode=0o700)
    files = {CACHE_MODEL_FILE, "w/data"}
    for each in files:
        (folder / each).touch(mode=0o600)
    store.commit(key, key, dict.fromkeys(files, hashlib.sha256().hexdigest()), 1.0)
    modes = {each: stat.S_IMODE((store.files(key) / each).stat().st_mode) for each in (*files, "w")}
    modes["."] = stat.S_IMODE(store.files(key).stat().st_mode)
    assert modes == {**dict.fromkeys(files, 0o444), "w": 0o755, ".": 0o755}


def test_an_active_download_is_never_evicted(tmp_path: Path) -> None:
    """A download in progress keeps its part; an abandoned one goes first."""
    store = open_store(tmp_path)
    folder = store.begin("a" * 64)
    store.reserve("a" * 64, 60)
    (folder / CACHE_MODEL_FILE).write_bytes(bytes(60))
    store.begin("b" * 64)
    with pytest.raises(CacheFullError, match="full"):
        store.reserve("b" * 64, 60)
    store.end("a" * 64, keep=True)
    store.reserve("b" * 64, 60)
    assert not folder.exists()


_FOREIGN = ["null", "1", "[]", "[1]", "{}", '{"sha256": 1}', '{"sha256": {}, "sizeBytes": "many"}']


@pytest.mark.parametrize("text", _FOREIGN)
@pytest.mark.parametrize("record", ["entry.json", "usage.json", "check.json", "mounts", "tries"])
def test_a_record_of_other_fields_ends_no_plugin(tmp_path: Path, record: str, text: str) -> None:
    """JSON of another version, or damaged: an entry or reference goes, a figure is unknown."""
    key = "a" * 64
    store = open_store(tmp_path)
    download(store, key, b"12345")
    store.note_use(key)
    store.refer(Reference("/pods/1", key, MOUNTED))
    store.begin("b" * 64)
    store.end("b" * 64, keep=True, fetch_seconds=3.0)
    (mount,) = (tmp_path / "mounts").iterdir()
    place = {"mounts": mount, "tries": tmp_path / "partial" / ("b" * 64) / "tries.json"}
    place.get(record, store.files(key).parent / record).write_text(text)
    again = open_store(tmp_path)
    assert len(again.entries()) == (record != "entry.json")
    assert len(again.references()) == (record != "mounts")
    assert again.seconds_before("b" * 64) == (0.0 if record == "tries" else 3.0)
    for entry in again.entries():
        assert entry.model.popularity == (0.0 if record == "usage.json" else 1.0)
        assert not entry.is_damaged


def test_a_folder_with_other_content_is_refused(tmp_path: Path) -> None:
    """The cache closes its folder to others and deletes in it: it takes none that is in use."""
    for name in ("passwd", "hosts", "shadow", "ssl"):
        (tmp_path / name).touch()
    with pytest.raises(RuntimeError, match=r"\(hosts, passwd, shadow, \.\.\.\)"):
        claim_folder(tmp_path, FOLDER_NAMES)
    assert not (tmp_path / "lock").exists()


def test_a_folder_has_one_process(tmp_path: Path) -> None:
    """A second plugin does not start, until the first one ends; what a cache has is its own."""
    folder = tmp_path / "c"
    lock = claim_folder(folder, FOLDER_NAMES)
    open_store(folder)
    for name in ("statistics", "staging", "lost+found"):
        (folder / name).mkdir()
    with pytest.raises(RuntimeError, match="another process"):
        claim_folder(folder, FOLDER_NAMES)
    lock.close()
    claim_folder(folder, FOLDER_NAMES).close()


def test_a_plugin_does_not_start_in_the_folder_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, changes nothing, and ends with code 1."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("structlog.configure", lambda **_: None)
    (tmp_path / "trash").mkdir()
    (tmp_path / "trash" / "photo").touch()
    (tmp_path / "passwd").touch()
    tmp_path.chmod(0o755)
    assert main(["--socket", str(tmp_path / "s"), "--folder", str(tmp_path)]) == 1
    assert "modelCache.folder" in capsys.readouterr().err
    assert (tmp_path / "trash" / "photo").exists()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--quota", "0", "is no size above 0"),
        ("--quota", "-1Gi", "is no size above 0"),
        ("--quota", "10GB", "is no size above 0"),
        ("--max-model", "0Gi", "is no size above 0"),
        ("--verify-hours", "0", "must be a number of hours above 0"),
        ("--verify-hours", "-1", "must be a number of hours above 0"),
        ("--verify-hours", "nan", "must be a number of hours above 0"),
        ("--verify-hours", "inf", "must be a number of hours above 0"),
        *(("--parser-user", user, "a user other than root") for user in ("0", "-7", "4294967295")),
    ],
)
def test_limits_that_limit_nothing_are_refused(
    option: str, value: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program ends with what is wrong, and makes nothing in its folder."""
    folder = tmp_path / "models"
    with pytest.raises(SystemExit):
        main(["--socket", str(tmp_path / "s"), "--folder", str(folder), f"{option}={value}"])
    assert words in capsys.readouterr().err
    assert not folder.exists()
