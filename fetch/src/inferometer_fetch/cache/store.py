"""The cache's folder: entries, partial downloads and references, each changed atomically.

    entries/KEY/entry.json       what the entry is; entries/KEY/usage.json how it is used
    entries/KEY/check.json       when its checksums were last checked, and whether one was wrong
    entries/KEY/files/...        the files that pods see
    partial/SOURCE/files/...     a download that is not whole, which the next one resumes
    partial/SOURCE/tries.json    how long its earlier tries took
    mounts/NAME.json             one reference
    trash/...                    what is being deleted
    staging                      where the mounter prepares a mount
    statistics/statistics.json   counters for the node's agent
    lock                         held by the process that uses the folder

An entry exists once `entries/KEY` does: it is renamed there after all its files are verified and
on disk. Only one process may use the folder.
"""

import hashlib
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from inferometer_api.plan.cluster_objects import CACHE_CHECKSUMS_FILE, CACHE_MODEL_FILE
from inferometer_fetch.cache.errors import CacheFullError
from inferometer_fetch.cache.files import (
    DISK_FULL,
    checksum,
    folder_bytes,
    free_bytes,
    sync,
    write_json,
)
from inferometer_fetch.cache.records import (
    Entry,
    read_entries,
    read_references,
    read_seconds,
    write_check,
    write_entry,
)
from inferometer_fetch.cache.references import MOUNTED, Reference, count_references
from inferometer_fetch.object_store import ObjectVersion
from inferometer_models.cache_eviction import CachedModel, EvictionPolicy, choose_victims

T = TypeVar("T")
_FOLDERS = ("entries", "partial", "mounts", "trash")
FOLDER_NAMES = frozenset({*_FOLDERS, "staging", "statistics"})
"""What the cache's folder holds."""
_NO_DATA: Mapping[str, ObjectVersion] = MappingProxyType({})
_SPARE_BYTES = 64 << 20
"""What graphs may take over the quota until the size of their models is known."""


class ModelStore:
    """Entries, partial downloads and references of one folder; safe for threads."""

    def __init__(
        self,
        root: Path,
        *,
        quota_bytes: int,
        policy: EvictionPolicy,
        clock: Callable[[], float],
        free_bytes: Callable[[Path], int] = free_bytes,
    ) -> None:
        self.root = root
        self.quota_bytes = quota_bytes
        self._policy: EvictionPolicy = policy
        self._clock = clock
        self._free_bytes = free_bytes
        self._lock = threading.RLock()
        self._downloading: set[str] = set()
        for folder in _FOLDERS:
            (root / folder).mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)
        for abandoned in (root / "trash").iterdir():
            shutil.rmtree(abandoned, ignore_errors=True)
        self._entries = dict(read_entries(root / "entries", self._discard))
        self._partial_bytes = {
            each.name: folder_bytes(each / "files") for each in (root / "partial").iterdir()
        }
        self._references = dict(read_references(root / "mounts"))
        self.fetched_bytes = 0
        """Bytes of downloads since the start."""
        self.evictions = 0
        """Entries that a full cache removed since the start."""

    @property
    def used_bytes(self) -> int:
        """The bytes of all entries and partial downloads."""
        with self._lock:
            entries = sum(each.model.size_bytes for each in self._entries.values())
            return entries + sum(self._partial_bytes.values())

    def entry(self, key: str) -> Entry | None:
        """Return an entry, or None if it is not in the cache."""
        with self._lock:
            return self._entries.get(key)

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, in the order of their keys."""
        with self._lock:
            return tuple(self._entries[key] for key in sorted(self._entries))

    def files(self, key: str) -> Path:
        """Return the folder that pods see of an entry."""
        return self.root / "entries" / key / "files"

    # Downloads

    def begin(self, source: str) -> Path:
        """Return the folder for the files of a download, with what it has of the ONNX file.

        External data goes: its checksum is not known beforehand, so that it is never resumed.
        """
        with self._lock:
            self._downloading.add(source)
            folder = self._partial_files(source)
            folder.mkdir(parents=True, exist_ok=True)
            for each in folder.iterdir():
                if each.is_dir():
                    shutil.rmtree(each)
                elif each.name != CACHE_MODEL_FILE:
                    each.unlink()
            self._partial_bytes[source] = folder_bytes(folder)
            return folder

    def reserve(
        self,
        source: str,
        count_bytes: int,
        *,
        may_exceed_quota: bool = False,
        may_evict: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Count bytes that a download is going to write; evict if quota or disk has no room.

        With `may_exceed_quota`, a little more than the quota may be in use until the next call
        without it, so that nothing is evicted before the size of the whole model is known.
        Raises CacheFullError, and evicts nothing, if what pods use leaves no room, or if
        `may_evict` refuses the number of bytes of entries that would go.
        """
        with self._lock:
            if not (may_exceed_quota and self._is_spare(count_bytes)):
                self._make_room(count_bytes, may_evict)
            self._partial_bytes[source] = self._partial_bytes.get(source, 0) + count_bytes

    def note_fetched(self, count_bytes: int) -> None:
        """Count bytes that a download wrote."""
        with self._lock:
            self.fetched_bytes += count_bytes

    def with_room(self, write: Callable[[], T], *, spared: str = "") -> T:
        """Call `write` again while the disk is full and an unused entry can be evicted.

        The disk may be smaller than the quota, or others may fill it. The entry `spared` stays.
        """
        while True:
            try:
                return write()
            except OSError as error:
                with self._lock:
                    victims = self._victims(1, spared)
                    if error.errno not in DISK_FULL or not victims:
                        raise
                    self._evict(victims)

    def commit(
        self,
        source: str,
        key: str,
        sha256: Mapping[str, str],
        fetch_seconds: float,
        data: Mapping[str, ObjectVersion] = _NO_DATA,
    ) -> Entry:
        """Turn a verified download into an entry, unless one from another address was faster.

        `data` has the versions in the store of external data, as of before it was fetched.
        """
        folder = self.root / "partial" / source
        fetch_seconds += self.seconds_before(source)
        size_bytes = sum((folder / "files" / path).stat().st_size for path in sha256)
        now = self._clock()
        model = CachedModel(key, size_bytes, fetch_seconds, 0.0, now)
        entry = Entry(model, dict(sha256), now, data=dict(data))
        write_json(folder / "files" / CACHE_CHECKSUMS_FILE, sha256)
        for file in folder.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o444)
            sync(file)
        (folder / "files").chmod(0o755)
        write_json(folder / "usage.json", asdict(entry.model))
        write_check(folder, entry)
        write_entry(folder, entry)
        with self._lock:
            if key in self._entries:
                self.end(source, keep=False)
                return self._entries[key]
            (folder / "tries.json").unlink(missing_ok=True)
            folder.rename(self.root / "entries" / key)
            sync(self.root / "entries")
            self._entries[key] = entry
            self._partial_bytes.pop(source, None)
            self._downloading.discard(source)
        return entry

    def seconds_before(self, source: str) -> float:
        """Return how long earlier tries of a download took."""
        return read_seconds(self.root / "partial" / source / "tries.json")

    def end(self, source: str, *, keep: bool, fetch_seconds: float = 0.0) -> None:
        """End a download that failed; `keep` its files and its duration for the next one."""
        with self._lock:
            self._downloading.discard(source)
            folder = self.root / "partial" / source
            if not keep:
                self._partial_bytes.pop(source, None)
                self._discard(folder)
            elif folder.exists():
                self._partial_bytes[source] = folder_bytes(folder / "files")
                seconds = self.seconds_before(source) + fetch_seconds
                with suppress(OSError):  # a full disk
                    write_json(folder / "tries.json", {"fetchSeconds": seconds})

    # References

    def references(self) -> dict[str, Reference]:
        """Return the references by their targets."""
        with self._lock:
            return dict(self._references)

    def refer(self, reference: Reference) -> bool:
        """Write a reference; return False if its entry is not in the cache."""
        with self._lock:
            if reference.key not in self._entries:
                return False
            self.with_room(
                lambda: write_json(self._record(reference.target), asdict(reference)),
                spared=reference.key,
            )
            self._references[reference.target] = reference
            return True

    def forget(self, target: str) -> None:
        """Remove a reference, if there is one; the end of a mount is a use of its entry.

        A retired entry goes with its last reference.
        """
        with self._lock:
            self._record(target).unlink(missing_ok=True)
            reference = self._references.pop(target, None)
            if reference is not None and reference.phase == MOUNTED:
                self._note(reference.key, CachedModel.released_at)
            entry = None if reference is None else self._entries.get(reference.key)
            if entry is not None and entry.retired_from:
                self.remove_unused(entry.model.key)  # no request finds it

    def note_use(self, key: str) -> None:
        """Count one more mount of an entry."""
        with self._lock:
            self._note(key, CachedModel.used_at)

    def _note(self, key: str, change: Callable[[CachedModel, float], CachedModel]) -> None:
        entry = self._entries.get(key)
        if entry is None:
            return
        changed = replace(entry, model=change(entry.model, self._clock()))
        self._entries[key] = changed
        with suppress(OSError):  # a full disk ends no mount
            write_json(self.root / "entries" / key / "usage.json", asdict(changed.model))

    # Checks and eviction

    def entries_to_check(self, period_seconds: float) -> tuple[Entry, ...]:
        """Return the entries whose last check is at least `period_seconds` ago."""
        now = self._clock()
        return tuple(
            each for each in self.entries() if not 0 <= now - each.checked_at < period_seconds
        )

    def damaged_files(self, key: str) -> tuple[str, ...]:
        """Read an entry again, and return the files that no longer have their checksum."""
        entry = self.entry(key)
        if entry is None:
            return ()
        return tuple(
            path
            for path, sha256 in entry.sha256.items()
            if checksum(self.files(key) / path) != sha256
        )

    def note_check(self, key: str, *, is_damaged: bool) -> None:
        """Write that an entry was checked; one that is damaged stays so."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return
            is_damaged = is_damaged or entry.is_damaged
            checked = replace(entry, checked_at=self._clock(), is_damaged=is_damaged)
            self._entries[key] = checked
            write_check(self.root / "entries" / key, checked)

    def remove_unused(self, key: str) -> bool:
        """Remove an entry unless pods refer to it; return whether it is gone."""
        with self._lock:
            if key in count_references(self._references):
                return False
            self._remove(key)
            return True

    def retire(self, found: Entry) -> None:
        """Let the key of an entry go, so that the next request downloads the model anew.

        Pods that use the entry keep it, under another key. Does nothing if the entry has been
        replaced already.
        """
        key = found.model.key
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.data != found.data or self.remove_unused(key):
                return
            name = hashlib.sha256(f"{key} {secrets.token_hex(16)}".encode()).hexdigest()
            retired = replace(entry, model=replace(entry.model, key=name), retired_from=key)
            write_entry(self.root / "entries" / key, retired)
            # Mounts follow the rename; their records do after a crash, by `reconcile`.
            (self.root / "entries" / key).rename(self.root / "entries" / name)
            sync(self.root / "entries")
            del self._entries[key]
            self._entries[name] = retired
            for each in self.references().values():
                if each.key == key:
                    self.refer(replace(each, key=name))

    def _is_spare(self, count_bytes: int) -> bool:
        over_quota, over_disk = self._missing_bytes(count_bytes)
        return over_quota <= _SPARE_BYTES and over_disk <= 0

    def _missing_bytes(self, count_bytes: int) -> tuple[int, int]:
        """Return how much a reservation lacks within the quota, and on the disk."""
        on_disk = sum(folder_bytes(self._partial_files(each)) for each in self._downloading)
        unwritten = sum(self._partial_bytes.get(each, 0) for each in self._downloading) - on_disk
        over_quota = self.used_bytes + count_bytes - self.quota_bytes
        return over_quota, count_bytes + unwritten - self._free_bytes(self.root)

    def _make_room(self, count_bytes: int, may_evict: Callable[[int], bool]) -> None:
        over_quota, over_disk = self._missing_bytes(count_bytes)
        victims = self._victims(max(over_quota, over_disk))
        if victims is not None:
            entries = [self._entries[key] for key in victims if key in self._entries]
            lost_bytes = sum(each.model.size_bytes for each in entries)
            if lost_bytes and not may_evict(lost_bytes):
                raise CacheFullError(
                    "The model cache of the node is full, and downloads of the pod's namespace "
                    "that are unfinished, or failed within the last hour, have already removed "
                    "models for their room. The kubelet tries again."
                )
            self._evict(victims)
        elif over_quota >= over_disk:
            raise CacheFullError(
                f"The model cache of the node is full: of {self.quota_bytes:,} bytes, pods and "
                f"downloads use too many to store {count_bytes:,} more. End pods that use other "
                "models, or raise modelCache.quota in the chart of the agents."
            )
        else:
            raise CacheFullError(
                f"The disk of the node's model cache has no space left for {count_bytes:,} bytes "
                "more, even without the models that no pod uses. End pods that use other models, "
                "or set modelCache.folder in the chart of the agents to a larger disk."
            )

    def _victims(self, missing_bytes: int, spared: str = "") -> tuple[str, ...] | None:
        counts = count_references(self._references)
        idle = [
            CachedModel(source, size, 0.0, 0.0, 0.0)
            for source, size in self._partial_bytes.items()
            if source not in self._downloading
        ]
        unused = [each.model for key, each in self._entries.items() if key not in {*counts, spared}]
        return choose_victims(
            [*idle, *unused], missing_bytes, policy=self._policy, now=self._clock()
        )

    def _evict(self, victims: Iterable[str]) -> None:
        for key in victims:
            if key in self._entries:
                self._remove(key)
                self.evictions += 1
            else:
                self._partial_bytes.pop(key)
                self._discard(self.root / "partial" / key)

    def _remove(self, key: str) -> None:
        self._entries.pop(key, None)
        self._discard(self.root / "entries" / key)

    def _discard(self, folder: Path) -> None:
        """Delete a folder such that a crash never leaves a part of it in its place."""
        trash = self.root / "trash" / f"{folder.name}-{secrets.token_hex(4)}"
        try:
            folder.rename(trash)
        except FileNotFoundError:
            return
        shutil.rmtree(trash, ignore_errors=True)

    def _partial_files(self, source: str) -> Path:
        return self.root / "partial" / source / "files"

    def _record(self, target: str) -> Path:
        name = hashlib.sha256(target.encode()).hexdigest()
        return self.root / "mounts" / f"{name}.json"
