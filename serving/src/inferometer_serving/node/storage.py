"""Reads of a file, from the disk and from the page cache, in chunks as a model is read."""

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_models.page_cache import evict, resident_bytes
from inferometer_serving.node.samples import NodeProbe, NotMeasurableError, seconds_of

_FILE_BYTES = 128 << 20
_CHUNK_BYTES = 1 << 20
_FILES, _CACHED_READS = 3, 2
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
    disk, cached = [], []
    for _ in range(_FILES):
        # Of a file that was read before, the host of a virtual machine may have a copy in memory.
        with _file_of_random_bytes(folder) as path:
            disk.append(cold_rate(path))
            cached += [cached_rate(path) for _ in range(_CACHED_READS)]
    setting = {"bytes": _FILE_BYTES, "chunkBytes": _CHUNK_BYTES}
    return [
        figure("disk/read", "bytes/s", disk, setting),
        figure("pageCache/read", "bytes/s", cached, setting),
    ]


@contextmanager
def _file_of_random_bytes(folder: Path) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="inferometer-node-", dir=folder) as file:
        chunk = os.urandom(_CHUNK_BYTES)  # a file system may leave out or compress zeros
        for _ in range(_FILE_BYTES // _CHUNK_BYTES):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        yield Path(file.name)


def cold_rate(path: Path) -> float:
    """Return the bytes per second at which a file is read whose pages are not in memory.

    Raises NotMeasurableError if its pages cannot be evicted.
    """
    evict([path])
    size = path.stat().st_size
    share = resident_bytes(path) / size
    if share > _RESIDENT_SHARE:
        raise NotMeasurableError(
            f"{share:.0%} of a file in {path.parent} stay in memory: it is no disk, such as tmpfs"
        )
    return size / seconds_of(partial(_read, path))


def cached_rate(path: Path) -> float:
    """Return the bytes per second at which a file is read whose pages are in memory."""
    return path.stat().st_size / seconds_of(partial(_read, path))


def _read(path: Path) -> None:
    """Read a file in chunks, into one buffer at the start of a page."""
    with path.open("rb", buffering=0) as file:
        while file.readinto(_BUFFER):
            pass


_BUFFER = mmap.mmap(-1, _CHUNK_BYTES)
