"""Mounts models into pods: from the cache, or after one download."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.nodes.cache_statistics import CacheStatistics
from inferometer_fetch.cache.access import Access
from inferometer_fetch.cache.download import Downloads
from inferometer_fetch.cache.errors import (
    DamagedEntryError,
    MountedOtherwiseError,
    StillFetchingError,
)
from inferometer_fetch.cache.mounter import Mounter
from inferometer_fetch.cache.references import (
    MOUNTED,
    MOUNTING,
    Reference,
    count_references,
    reconcile,
)
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.store import ModelStore
from inferometer_models.errors import ModelRefusedError

_TRIES = 3
_MOST_MISSES = 10_000
"""Volumes that are remembered: a pod may end without a call for its volume."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A volume that was mounted."""

    key: str
    was_cached: bool
    """Whether the model was on the node when the volume was first requested."""


class NodeCache:
    """The cache of one node."""

    def __init__(
        self, store: ModelStore, downloads: Downloads, access: Access, mounter: Mounter
    ) -> None:
        self._store = store
        self._downloads = downloads
        self._access = access
        self._mounter = mounter
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._hits = 0
        self._misses = 0
        self._missed: OrderedDict[str, None] = OrderedDict()
        """Volumes that have waited for a download and are not mounted yet, the oldest first."""

    def publish(
        self, request: ModelRequest, target: Path, *, timeout_seconds: float
    ) -> Publication:
        """Mount a model at `target`, read-only; fetch it before if it is not in the cache.

        Does nothing if it is mounted there already. Raises the errors of Downloads.fetch and
        Access.check, DamagedEntryError, MountedOtherwiseError, and OSError if it cannot be mounted.
        """
        with self._alone(str(target)):
            self._check_access(request)
            key = request.key
            is_mounted = str(target) in self._mounter.mounts()
            held = self._held_key(str(target), key)
            if is_mounted and held is not None:
                return Publication(held, was_cached=True)
            if is_mounted:
                raise MountedOtherwiseError(
                    f"Something else is mounted at {target}: delete the pod, so that the kubelet "
                    "unmounts it."
                )
            was_cached = self._refer(request, str(target), timeout_seconds)
            try:
                self._bind(request, target)
            except BaseException:
                if str(target) in self._mounter.mounts():
                    self._mounter.unmount(target)
                self._store.forget(str(target))
                raise
            self._store.note_use(key)
            self._count(str(target), was_cached=was_cached)
            return Publication(key, was_cached)

    def unpublish(self, target: Path) -> None:
        """Unmount the volume at `target`, and forget its reference; do nothing if there is none."""
        with self._alone(str(target)):
            if str(target) in self._mounter.mounts():
                self._mounter.unmount(target)
            if target.is_dir():
                target.rmdir()
            self._store.forget(str(target))
            with self._lock:
                self._missed.pop(str(target), None)

    def statistics(self) -> CacheStatistics:
        """Return the counters since the start, and what the cache holds."""
        with self._lock:
            return CacheStatistics(
                hits=self._hits,
                misses=self._misses,
                fetched_bytes=self._store.fetched_bytes,
                evictions=self._store.evictions,
                used_bytes=self._store.used_bytes,
                quota_bytes=self._store.quota_bytes,
            )

    def restore(self) -> None:
        """Make references and mounts agree, after a start and from time to time."""
        with self._lock:
            references = {
                target: each
                for target, each in self._store.references().items()
                if target not in self._busy
            }
            mounts = {
                target: each
                for target, each in self._mounter.mounts().items()
                if target not in self._busy
            }
            found = reconcile(references, mounts)
            for target in found.unmounted:
                self._mounter.unmount(Path(target))
            for target in found.dropped:
                self._store.forget(target)
            for reference in found.kept:
                if references.get(reference.target) != reference:
                    self._store.refer(reference)

    def verify(self, *, period_seconds: float = 0.0) -> dict[str, tuple[str, ...]]:
        """Check the entries whose last check is `period_seconds` ago; return damaged files by key.

        A damaged entry is removed, or, while pods use it, no longer mounted, also by a plugin that
        starts later.
        """
        damaged = {}
        for entry in self._store.entries_to_check(period_seconds):
            key = entry.model.key
            files = self._store.damaged_files(key)
            current = self._store.entry(key)
            if files and (current is None or current.sha256 != entry.sha256):
                continue  # evicted or retired while it was read
            if not files or not self._store.remove_unused(key):
                self._store.note_check(key, is_damaged=bool(files))
            if files:
                damaged[key] = files
        return damaged

    def _bind(self, request: ModelRequest, target: Path) -> None:
        """Mount an entry and record that; raise StillFetchingError if it was retired meanwhile."""
        key = request.key
        target.mkdir(parents=True, exist_ok=True)
        self._mounter.bind_read_only(self._store.files(key), target)
        is_known = self._store.refer(Reference(str(target), key, MOUNTED))
        mount = self._mounter.mounts().get(str(target))
        if not is_known or (mount is not None and mount.key not in {None, key}):
            raise StillFetchingError(
                f"The external data of the model {request.uri} changed in its store while the pod "
                "waited. The next try mounts the new data."
            )

    def _check_access(self, request: ModelRequest) -> None:
        """Check credentials, and retire an entry whose external data is another one by now."""
        entry = self._store.entry(request.key)
        is_current = self._access.check(request, {} if entry is None else entry.data)
        if entry is not None and not is_current:
            self._store.retire(entry)

    def _held_key(self, target: str, key: str) -> str | None:
        """Return the entry that is mounted at a target for a key, also one that was retired."""
        held = self._store.references().get(target)
        if held is None or held.phase != MOUNTED:
            return None
        entry = self._store.entry(held.key)
        retired_from = "" if entry is None else entry.retired_from
        return held.key if key in {held.key, retired_from} else None

    def _refer(self, request: ModelRequest, target: str, timeout_seconds: float) -> bool:
        """Write the intent to mount, so that the entry stays.

        Return whether the entry was there when the first call for this volume came.
        """
        for _ in range(_TRIES):
            self._check_sound(request)
            if self._store.entry(request.key) is None:
                self._note_miss(target)
            entry = self._downloads.fetch(request, timeout_seconds=timeout_seconds)
            if self._store.refer(Reference(target, entry.model.key, MOUNTING)):
                with self._lock:
                    return target not in self._missed
        raise StillFetchingError(
            f"The model {request.uri} was evicted from the model cache of the node while the pod "
            "waited. The next try downloads it again."
        )

    def _note_miss(self, target: str) -> None:
        with self._lock:
            self._missed[target] = None
            while len(self._missed) > _MOST_MISSES:
                self._missed.popitem(last=False)

    def _count(self, target: str, *, was_cached: bool) -> None:
        with self._lock:
            self._missed.pop(target, None)
            self._hits += was_cached
            self._misses += not was_cached

    def _check_sound(self, request: ModelRequest) -> None:
        """Raise DamagedEntryError if the entry is damaged and in use; remove it if it is not."""
        key = request.key
        entry = self._store.entry(key)
        if entry is None or not entry.is_damaged or self._store.remove_unused(key):
            return
        count = count_references(self._store.references())[key]
        raise DamagedEntryError(
            f"The copy of the model {request.uri} in the model cache of the node is damaged: its "
            f"checksum changed. {count} volumes still use it; end their pods, and it is downloaded "
            "again."
        )

    @contextmanager
    def _alone(self, target: str) -> Iterator[None]:
        """Keep a second call for the same volume out."""
        with self._lock:
            if target in self._busy:
                raise StillFetchingError("An earlier call for this volume has not ended.")
            self._busy.add(target)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(target)


def check_target(target: str, kubelet_folder: Path) -> Path:
    """Return the path of a volume; raise ModelRefusedError if it is not one of the kubelet's."""
    path = Path(target)
    if ".." in path.parts or not path.is_relative_to(kubelet_folder) or path == kubelet_folder:
        raise ModelRefusedError(
            f"The target {target!r} is not below the kubelet's folder {kubelet_folder}: set "
            "modelCache.kubeletFolder in the chart of the agents."
        )
    return path
