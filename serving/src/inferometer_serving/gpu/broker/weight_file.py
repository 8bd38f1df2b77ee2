"""The file of weights that a client passes: proof that it may read them, and their identity."""

import fcntl
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import Any

from inferometer_serving.gpu.broker.layout import Extent

_MOST_EXTENTS = 1 << 17


class WeightFileError(ValueError):
    """A client passed what it cannot share; the text is a clause that says why."""


def check_readable(descriptor: int) -> os.stat_result:
    """Return the status of a regular file that is open for reading. Raises WeightFileError.

    A descriptor can be had without the right to read (O_PATH), so that its mode counts too.
    """
    found = os.fstat(descriptor)
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    if not stat.S_ISREG(found.st_mode):
        raise WeightFileError("the descriptor is of no regular file")
    if flags & os.O_PATH or flags & os.O_ACCMODE not in {os.O_RDONLY, os.O_RDWR}:
        raise WeightFileError("the file is not open for reading")
    return found


def read_extents(listed: Any, file_bytes: int) -> tuple[Extent, ...]:
    """Return the extents of a request. Raises WeightFileError."""
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST_EXTENTS:
        raise WeightFileError(f"a model has 1 to {_MOST_EXTENTS:,} tensors in its file")
    return tuple(_extent(each, file_bytes) for each in listed)


def _extent(listed: Any, file_bytes: int) -> Extent:
    match listed:
        case [int(offset), int(length)] if 0 <= offset < offset + length <= file_bytes:
            return Extent(offset, length)
        case _:
            raise WeightFileError("a tensor lies outside the file")


def identity(found: os.stat_result, extents: Sequence[Extent]) -> str:
    """Return the key of what these extents of a file are.

    A file that was written anew, or that took the number of a removed one, has another time of
    its last change.
    """
    text = repr(
        (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    ) + repr([(each.offset, each.length) for each in extents])
    return hashlib.sha256(text.encode()).hexdigest()
