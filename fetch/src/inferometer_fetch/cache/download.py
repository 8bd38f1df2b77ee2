"""Fetches a model into its partial folder: resumed, checked, and once for all who wait."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeoutError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from inferometer_api.plan.cluster_objects import CACHE_CHECKSUMS_FILE, CACHE_MODEL_FILE
from inferometer_api.spec.address import address
from inferometer_fetch.cache.errors import (
    GRAPH_TOO_LARGE_EXIT,
    CacheFullError,
    RefusedContentError,
    StillFetchingError,
    UnreadableGraphError,
)
from inferometer_fetch.cache.limits import EvictionBudget, NamespaceLimit, RefusedDownloads
from inferometer_fetch.cache.records import Entry
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.store import ModelStore
from inferometer_fetch.cache.versions import FindVersion, data_of, key_of, version_in_store
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.https import https_stream
from inferometer_fetch.object_store import ObjectVersion, object_stream
from inferometer_fetch.transfer import CHUNK_BYTES, TransientError, path_below
from inferometer_models.errors import ModelRefusedError

T = TypeVar("T")
_PAUSES_SECONDS = (0.5, 1.5)
_DOWNLOADS_AT_ONCE, _DOWNLOADS_OF_A_NAMESPACE = 16, 4
_WAITING_AT_ONCE, _WAITING_OF_A_NAMESPACE = 16, 8
"""Calls that wait for a download; further ones get an answer at once, and the kubelet repeats them.

They are fewer than the plugin answers at once, so that mounts of other models go on.
"""
_DATA_FILES = 1024
"""Files take room on the disk that no quota counts, also empty ones."""
_EVICTED_SHARE = 4
"""Downloads of a namespace evict a quarter of the quota before one of them is whole."""
_PARSE_SECONDS = 120
_NAME_FAULTS = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})


class Downloads:
    """Downloads in progress, one for each model and address."""

    def __init__(
        self,
        store: ModelStore,
        *,
        max_model_bytes: int,
        open_content: "OpenContent | None" = None,
        find_external: Callable[[Path], tuple[str, ...]] | None = None,
        find_version: FindVersion = version_in_store,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._max_model_bytes = max_model_bytes
        self._open_content = open_content or open_content_of
        self._find_external = find_external or external_locations
        self._find_version = find_version
        self._timer = timer
        self._lock = threading.Lock()
        self._futures: dict[str, Future[Entry]] = {}
        self._refusals = RefusedDownloads(timer)
        self._evictions = EvictionBudget(store.quota_bytes // _EVICTED_SHARE, timer)
        self._running = NamespaceLimit(_DOWNLOADS_AT_ONCE, _DOWNLOADS_OF_A_NAMESPACE)
        self._waiting = NamespaceLimit(_WAITING_AT_ONCE, _WAITING_OF_A_NAMESPACE)
        self._pool = ThreadPoolExecutor(_DOWNLOADS_AT_ONCE, thread_name_prefix="download")

    def fetch(self, request: ModelRequest, *, timeout_seconds: float) -> Entry:
        """Return the entry of a model, after downloading it unless it is in the cache.

        Requests for a model that is being downloaded from their address wait for that download. A
        download that was refused for its content is not repeated for REFUSED_SECONDS.
        Raises StillFetchingError after `timeout_seconds`, while the download goes on;
        ModelRefusedError, FetchFailedError or CacheFullError if it fails.
        """
        with self._lock:
            found = self._store.entry(request.key)
            if found is not None:
                return found
            future = self._futures.get(request.source)
            if future is None:
                self._refusals.check(request.source)
                future = self._start(request)
            is_waiting = self._waiting.take(request.namespace)
        try:
            return future.result(timeout_seconds if is_waiting else 0)
        except WaitTimeoutError:
            raise StillFetchingError(
                f"The model {request.uri} is being downloaded to the node. The pod starts once it "
                "is there."
            ) from None
        finally:
            if is_waiting:
                self._waiting.release(request.namespace)

    def _start(self, request: ModelRequest) -> Future[Entry]:
        if not self._running.take(request.namespace):
            raise StillFetchingError(
                f"The model {request.uri} is not yet being downloaded to the node: other "
                "downloads of its namespace or of the node come first. The kubelet tries again."
            )
        future = self._pool.submit(self._download, request)
        self._futures[request.source] = future
        return future

    def close(self) -> None:
        """Wait for the downloads to end."""
        self._pool.shutdown(cancel_futures=True)

    def _download(self, request: ModelRequest) -> Entry:
        is_entry = False
        try:
            entry = self._complete(request)
            is_entry = True
        except RefusedContentError as error:
            self._refusals.note(request.source, error)
            raise
        else:
            return entry
        finally:
            self._evictions.end(request.source, is_entry=is_entry)
            with self._lock:
                self._futures.pop(request.source, None)
            self._running.release(request.namespace)

    def _complete(self, request: ModelRequest) -> Entry:
        """Download a model and make it an entry; keep the part of it that a next try resumes."""
        source, began = request.source, self._timer()
        try:
            sha256, data = self._store.with_room(
                lambda: self._files(request, self._store.begin(source))
            )
            return self._store.with_room(
                lambda: self._store.commit(source, request.key, sha256, self._timer() - began, data)
            )
        except (FetchFailedError, UnreadableGraphError):
            self._store.end(source, keep=True, fetch_seconds=self._timer() - began)
            raise
        except OSError as error:
            self._store.end(source, keep=False)
            if error.errno in _NAME_FAULTS:
                raise RefusedContentError(
                    f"The model {request.uri} has external data whose names the model cache cannot "
                    f"keep: {error.strerror}. Give the data short names that do not contain one "
                    "another."
                ) from error
            raise CacheFullError(
                f"The model {request.uri} could not be written to the model cache of the node: "
                f"{error.strerror or error}."
            ) from error
        except BaseException:
            self._store.end(source, keep=False)
            raise

    def _files(
        self, request: ModelRequest, folder: Path
    ) -> tuple[dict[str, str], dict[str, ObjectVersion]]:
        """Download the ONNX file and, from a store, its external data.

        Return the checksums of all files, and the versions of the external data.
        """
        what = f"model {request.uri}"
        graph = _File(what, self._open_content(what, request, None), folder / CACHE_MODEL_FILE)
        digest = self._transfer(request, graph, sha256=request.sha256)
        if digest != request.sha256:
            # Not which: a pod's author could learn what an address of the cluster serves.
            raise RefusedContentError(
                f"The {what} should have the sha256 {request.sha256}, but has another: it is "
                "another file. Correct the checksum or the address."
            )
        locations = self._find_external(graph.path)
        self._check_locations(request, locations)
        versions = {each: self._data_version(request, each) for each in locations}
        # For all of them at once: a model that cannot fit evicts nothing.
        self._reserve(request, sum(each.size_bytes for each in versions.values()))
        found = {CACHE_MODEL_FILE: digest}
        for location, version in versions.items():
            data = data_of(request, location)
            content = self._open_content(data, request, location)
            file = _File(data, content, path_below(folder, location), version.size_bytes)
            found[location] = self._transfer(request, file)
        return found, versions

    def _check_locations(self, request: ModelRequest, locations: tuple[str, ...]) -> None:
        """Raise RefusedContentError if external data cannot be fetched, or not kept."""
        if len(locations) > _DATA_FILES:
            raise RefusedContentError(
                f"The model {request.uri} has {len(locations):,} files of external data, and the "
                f"model cache takes at most {_DATA_FILES:,}: save its tensors in one file, as "
                "inferometer cache --write does."
            )
        for location in locations:
            if request.store is None:
                raise RefusedContentError(
                    f"The model {request.uri} has external data ({location}), which https:// does "
                    "not fetch: use s3://, or save the model in one file."
                )
            first, _, _ = location.partition("/")
            if first in {CACHE_MODEL_FILE, CACHE_CHECKSUMS_FILE}:
                raise RefusedContentError(
                    f"The model {request.uri} has external data called {location}, which is the "
                    "name of a file of the cache: give the data another name."
                )

    def _data_version(self, request: ModelRequest, location: str) -> ObjectVersion:
        """Return the version of external data; raise RefusedContentError if it is too large."""
        what = data_of(request, location)
        version = _retry(what, lambda: self._find_version(request, location))
        self._check_size(what, version.size_bytes)
        return version

    def _transfer(self, request: ModelRequest, file: "_File", *, sha256: str | None = None) -> str:
        """Append what is missing to a file; return its checksum.

        Only a file whose checksum is known beforehand is resumed: another might have changed.
        """
        file.path.parent.mkdir(parents=True, exist_ok=True)

        def attempt() -> str:
            if sha256 is None and file.path.exists():
                file.path.unlink()
            return self._append(request, file, sha256)

        return _retry(file.what, attempt)

    def _append(self, request: ModelRequest, file: "_File", sha256: str | None) -> str:
        with file.path.open("a+b") as opened:
            opened.seek(0)
            digest, count = hashlib.sha256(), 0
            while chunk := opened.read(CHUNK_BYTES):
                digest.update(chunk)
                count += len(chunk)
            if count and digest.hexdigest() == sha256:
                return digest.hexdigest()
            resumed = count
            file.reserved_bytes = max(file.reserved_bytes, count)
            # A graph from a store may have external data, whose size is known once it is read.
            may_exceed_quota = sha256 is not None and request.store is not None

            def reserve_up_to(size_bytes: int) -> None:
                self._check_size(file.what, size_bytes)
                missing_bytes = size_bytes - file.reserved_bytes
                if missing_bytes > 0:
                    self._reserve(request, missing_bytes, may_exceed_quota=may_exceed_quota)
                    file.reserved_bytes = size_bytes

            for chunk in file.content(count, reserve_up_to):
                count += len(chunk)
                reserve_up_to(count)
                opened.write(chunk)
                digest.update(chunk)
                self._store.note_fetched(len(chunk))
            opened.flush()
            os.fsync(opened.fileno())
        if resumed and digest.hexdigest() != sha256:
            file.path.unlink()  # the part was of another file: once more from the start
            raise TransientError("the part from an earlier try did not fit")
        return digest.hexdigest()

    def _reserve(
        self, request: ModelRequest, count_bytes: int, *, may_exceed_quota: bool = False
    ) -> None:
        self._store.reserve(
            request.source,
            count_bytes,
            may_exceed_quota=may_exceed_quota,
            may_evict=partial(self._evictions.take, request.source, request.namespace),
        )

    def _check_size(self, what: str, count: int) -> None:
        if count > self._max_model_bytes:
            raise RefusedContentError(
                f"The {what} is larger than the {self._max_model_bytes:,} bytes that the "
                "model cache takes: raise modelCache.maxModel in the chart of the agents."
            )


def _retry(what: str, attempt: Callable[[], T]) -> T:
    for pause_seconds in (*_PAUSES_SECONDS, None):
        try:
            return attempt()
        except TransientError as fault:
            if pause_seconds is None:
                raise FetchFailedError(
                    f"The {what} could not be fetched: {fault}. Check the address and the "
                    "network. What was fetched is kept, and the next try continues there."
                ) from fault
            time.sleep(pause_seconds)
    raise AssertionError  # the last try returned or raised


Content: TypeAlias = Callable[[int, Callable[[int], None]], Iterator[bytes]]
"""Yields a content from the given byte on; reports the size of the whole before, if it is known."""
OpenContent: TypeAlias = Callable[[str, ModelRequest, str | None], Content]
"""Opens what a message calls by the first argument: a model's file, or its external data."""


@dataclass
class _File:
    """A file of a download."""

    what: str
    """What messages call it."""
    content: Content
    path: Path
    reserved_bytes: int = 0
    """How much of it the store counts already, written or not."""


def open_content_of(what: str, request: ModelRequest, location: str | None) -> Content:
    """Open the ONNX file of a request, or its external data at `location`."""
    if request.store is None:
        return lambda first_byte, report_size: https_stream(
            what, request.uri, first_byte=first_byte, report_size=report_size
        )
    found = address(request.uri)
    if found is None:
        raise ModelRefusedError(f"The {what} has no address of a store.")
    store, bucket, path = request.store, found.place, key_of(found.path, location)
    return lambda first_byte, report_size: object_stream(
        what, store, bucket, path, first_byte=first_byte, report_size=report_size
    )()


def external_locations(model: Path, *, user: int | None = None) -> tuple[str, ...]:
    """Return where an ONNX file has its external data, relative to it.

    The file is not trusted: another process parses it, as `user` without rights if that is given.
    Raises RefusedContentError if it is no ONNX model, or has data outside its folder, and
    UnreadableGraphError if it takes too long or too much memory.
    """
    with model.open("rb") as file:
        words = [sys.executable, "-m", "inferometer_fetch.cache.graph_locations"]
        try:
            ended = subprocess.run(  # noqa: S603 - words of our own
                words,
                stdin=file,
                capture_output=True,
                cwd="/",
                user=user,
                group=user,
                extra_groups=None if user is None else (),
                timeout=_PARSE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnreadableGraphError(
                f"The graph of the model could not be read within {_PARSE_SECONDS} s: save it with "
                "fewer operators, or fetch it without the cache."
            ) from error
    if ended.returncode < 0:
        raise UnreadableGraphError(
            f"The process that reads the graph of the model ended by signal {-ended.returncode}: "
            "raise modelCache.resources.limits.memory in the chart of the agents."
        )
    if ended.returncode:
        reason = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2][:500]
        if ended.returncode == GRAPH_TOO_LARGE_EXIT:
            raise UnreadableGraphError(reason)
        raise RefusedContentError(reason or "The model could not be read.")
    locations: list[str] = json.loads(ended.stdout)
    return tuple(locations)
