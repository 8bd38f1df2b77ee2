"""Files of the cache's folder: written whole or not at all, and read without trust."""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from inferometer_models.page_cache import resident_bytes

CHECKED_BYTES_PER_SECOND = 64 << 20
_CHUNK_BYTES = 1 << 20
_LOCK = "lock"
_OF_A_DISK = frozenset({"lost+found"})
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def claim_folder(folder: Path, names: Collection[str]) -> TextIO:
    """Take a folder for this process alone, until the returned file is closed; create it if needed.

    Raises RuntimeError if another process has it, or if it holds anything but `names`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    foreign = sorted({each.name for each in folder.iterdir()} - {*names, _LOCK, *_OF_A_DISK})
    if foreign:
        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise RuntimeError(
            f"its folder {folder} has content of others ({shown}). Set modelCache.folder in the "
            "chart of the agents to a folder of its own"
        )
    lock = (folder / _LOCK).open("w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise RuntimeError(
            f"another process uses its folder {folder}. Give each release of the chart a folder of "
            "its own, by modelCache.folder"
        ) from error
    return lock


def read_json(path: Path) -> Any:
    """Return the content of a file, or None if it is not there or not whole."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file such that it is whole, on disk, or as before."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with partial.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def checksum(
    path: Path,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Return the sha256 of a file, or "" if it cannot be read.

    The node may be measuring: the file is read slowly, and one that was not in memory leaves
    nothing there.
    """
    digest = hashlib.sha256()
    try:
        was_in_memory = resident_bytes(path) > 0
        with path.open("rb", buffering=0) as file:
            began = now()
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                if not was_in_memory:
                    os.posix_fadvise(file.fileno(), 0, file.tell(), os.POSIX_FADV_DONTNEED)
                sleep(max(0.0, began + file.tell() / CHECKED_BYTES_PER_SECOND - now()))
    except OSError:
        return ""
    return digest.hexdigest()


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    total = 0
    for each in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a download just removed it
            total += each.stat().st_size if each.is_file() else 0
    return total


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a folder's disk, less what is for the system only."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def sync(path: Path) -> None:
    """Write a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
