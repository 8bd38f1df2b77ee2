"""Pages of files in memory: counted, evicted and read."""

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_MAP_FAILED = ctypes.c_void_p(-1).value
_CHUNK_BYTES = 1 << 20


def resident_bytes(path: Path) -> int:
    """Return how many bytes of a file are in memory, by mincore; OSError if that is not known.

    The kernel reveals this only to the owner of a file and to those who may write it.
    """
    size = path.stat().st_size
    if not size:
        return 0
    if path.stat().st_uid != os.geteuid() and not os.access(path, os.W_OK):
        raise PermissionError(0, f"{path} belongs to another user, and is not writable")
    with path.open("rb") as file:
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), f"{path} cannot be mapped")
    try:
        pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
        if _libc.mincore(address, size, pages):
            raise OSError(ctypes.get_errno(), f"the pages of {path} cannot be counted")
    finally:
        _libc.munmap(address, size)
    count = sum(page & 1 for page in pages.raw)
    return min(size, count * mmap.PAGESIZE)


def evict(paths: Iterable[Path]) -> None:
    """Let the kernel drop the pages of files; what another process has mapped stays."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())  # pages that are not written yet would stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_whole(paths: Iterable[Path]) -> None:
    """Read files, so that their pages are in memory."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK_BYTES):
                pass
