"""Reads of a file, from the disk and from the page cache, in chunks as a model is read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_models.page_cache import evict, read_whole, resident_bytes
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError, figure, seconds_of

_FILE_BYTES = 128 << 20
_CHUNK_BYTES = 1 << 20
_DISK_REPEATS, _CACHE_REPEATS = 3, 5
_RESIDENT_SHARE = 0.01


def storage_probes(folder: Path) -> Iterator[NodeProbe]:
    """Yield the probe of a file in a folder."""
    yield NodeProbe("storage", partial(_reads, folder), ("disk/read", "pageCache/read"))


def _reads(folder: Path) -> list[NodeFigure]:
    free = shutil.disk_usage(folder).free
    if free < 4 * _FILE_BYTES:
        raise NotMeasurableError(
            f"{folder} has {free >> 20} MiB free, and {4 * _FILE_BYTES >> 20} are required"
        )
    with tempfile.NamedTemporaryFile(prefix="inferometer-node-", dir=folder) as file:
        chunk = os.urandom(_CHUNK_BYTES)  # a file system may leave out or compress zeros
        for _ in range(_FILE_BYTES // _CHUNK_BYTES):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        path = Path(file.name)
        disk = [_FILE_BYTES / _cold_seconds(path) for _ in range(_DISK_REPEATS)]
        cached = [
            _FILE_BYTES / seconds_of(lambda: read_whole([path])) for _ in range(_CACHE_REPEATS)
        ]
    setting = {"bytes": _FILE_BYTES, "chunkBytes": _CHUNK_BYTES}
    return [
        figure("disk/read", "bytes/s", disk, setting),
        figure("pageCache/read", "bytes/s", cached, setting),
    ]


def _cold_seconds(path: Path) -> float:
    evict([path])
    share = resident_bytes(path) / _FILE_BYTES
    if share > _RESIDENT_SHARE:
        raise NotMeasurableError(
            f"{share:.0%} of a file in {path.parent} stay in memory: it is no disk, such as tmpfs"
        )
    return seconds_of(lambda: read_whole([path]))
